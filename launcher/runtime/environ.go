package runtime

import (
	"slices"
	"strings"

	"leaseguard.internal/internal/verdict"
)

// dropped is all that Claude doesn't inherit, and doesn't get from an env block
// that is carried over either. A * at the end stands for any rest.
var dropped = []string{
	// Shells: what runs before the first command, or in its place.
	"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_FUNC_*", "ZDOTDIR", "PROMPT_COMMAND", "PS4",
	// Loaders: code or tables that are put into every program.
	"LD_*", "DYLD_*", "GCONV_PATH", "GLIBC_TUNABLES", "OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES",
	// Language runtimes, the client's own and the gate's among them.
	"NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE", "BUN_*", "GODEBUG", "GOTRACEBACK",
	"PYTHONSTARTUP", "PYTHONHOME", "PYTHONPATH", "PERL5OPT", "PERL5DB", "PERL5LIB", "RUBYOPT", "RUBYLIB",
	"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS",
	// The client itself: hundreds of switches, of which some stop all hooks
	// (CLAUDE_CODE_SIMPLE, CLAUDE_CODE_SAFE_MODE), wrap every shell
	// (CLAUDE_CODE_SHELL_PREFIX) or start it elsewhere. Each version brings new
	// ones, so those of kept alone pass.
	"CLAUDE_*", "CLAUDECODE",
	// What speaks of guard, of a service manager, or belongs to another agent.
	"GUARD_*", "LISTEN_*", "NOTIFY_SOCKET", "PI_*", "CODEX_*",
}

// kept are the names of Claude's own that pass: they say where things are, how
// much of something, or who pays, and touch no hook.
var kept = []string{
	"CLAUDE_CONFIG_DIR", "CLAUDE_CODE_TMPDIR", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_API_KEY_HELPER_TTL_MS",
	"CLAUDE_CODE_CLIENT_CERT", "CLAUDE_CODE_CLIENT_KEY", "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE", "CLAUDE_CODE_CERT_STORE",
	"CLAUDE_CODE_MAX_OUTPUT_TOKENS", "CLAUDE_CODE_AUTO_COMPACT_WINDOW", "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "CLAUDE_CODE_EFFORT_LEVEL",
	"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "CLAUDE_CODE_DISABLE_TERMINAL_TITLE", "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
	"CLAUDE_CODE_ENABLE_TELEMETRY", "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR", "CLAUDE_CODE_USE_NATIVE_FILE_SEARCH",
	// Switches are refused, not dropped: a client that then asked another
	// service than its user thinks would be worse than none.
	"CLAUDE_CODE_USE_*",
}

// switches make the client ask for its model by another way than the proof
// does: another provider's code, a socket, or a proxy in between.
var switches = []string{
	"CLAUDE_CODE_USE_*", "ANTHROPIC_UNIX_SOCKET",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy",
}

// unproved are what the proof does without, beside switches: credentials, which
// the scripted model must not be told, and what changes with every terminal and
// directory and touches no hook, so that a proof holds in all of them.
var unproved = []string{
	"ANTHROPIC_*", "AWS_*", "GOOGLE_*", "AZURE_*", "VERTEX_*", "CLOUD_ML_*", "OPENAI_*",
	"CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_CLIENT_*",
	"PWD", "OLDPWD", "SHLVL", "_", "COLUMNS", "LINES", "WINDOWID", "TERM_SESSION_ID", "TMUX", "TMUX_PANE", "STY", "WINDOW",
	"SSH_*", "XDG_SESSION_ID", "XDG_VTNR", "VSCODE_*", "NO_PROXY", "no_proxy",
}

// secretWords in a name make it a credential.
var secretWords = []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "APIKEY", "CREDENTIAL", "PRIVATE_KEY"}

// fixed is what guard sets for every Claude: an update during a session would
// put another client in the proved one's place.
var fixed = []string{"DISABLE_AUTOUPDATER=1", "DISABLE_UPDATES=1"}

// Environment is a filtered environment.
type Environment struct {
	Vars     []string // name=value
	Dropped  []string // names, each once, sorted
	Switches []string // names in Vars that lead away from what is proved
}

// Filter takes away what could silence, wrap or replace the gate or the client.
// Names in pass stay, whatever the table says, and count as no switch.
func Filter(env, pass []string) Environment {
	var out Environment
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		through := slices.Contains(pass, name)
		if !through && fits(name, dropped) && !fits(name, kept) || isSet(name, fixed) {
			if !isSet(name, fixed) {
				out.Dropped = append(out.Dropped, name)
			}
			continue
		}
		if !through && fits(name, switches) && isOn(value) {
			out.Switches = append(out.Switches, name)
		}
		out.Vars = append(out.Vars, v)
	}
	out.Vars = append(out.Vars, fixed...)
	out.Dropped = unique(out.Dropped)
	out.Switches = unique(out.Switches)
	return out
}

// CheckSwitches refuses an environment in which another client would run than
// the one that the proof is of.
func (e Environment) CheckSwitches() error {
	if len(e.Switches) == 0 {
		return nil
	}
	name := e.Switches[0]
	return refuse(verdict.WiringUnproved, "proving the gate with the variable", name,
		"with it the client asks for its model by a way that no proof covers",
		"unset "+verdict.Clean(name)+", or add it to session.env_pass in guard.toml if you accept that")
}

// Proof is the environment of the proof: without switches, credentials and what
// changes from one terminal to the next.
func (e Environment) Proof() []string {
	return append(e.proved(), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1")
}

// proved are the variables that any client's proof has, sorted.
func (e Environment) proved() []string {
	var vars []string
	for _, v := range e.Vars {
		name, _, _ := strings.Cut(v, "=")
		if !fits(name, switches) && !fits(name, unproved) && !isSecret(name) {
			vars = append(vars, v)
		}
	}
	slices.Sort(vars)
	return vars
}

// Over puts the variables of a carried env block over an environment, as the
// client itself would.
func Over(env, block []string) []string {
	names := map[string]bool{}
	for _, v := range block {
		name, _, _ := strings.Cut(v, "=")
		names[name] = true
	}
	out := make([]string, 0, len(env)+len(block))
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); !names[name] {
			out = append(out, v)
		}
	}
	return append(out, block...)
}

// isOn says whether the client takes the value for a yes.
func isOn(value string) bool {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "", "0", "false", "no", "off":
		return false
	}
	return true
}

// isSet says whether a list of name=value has the name.
func isSet(name string, vars []string) bool {
	return slices.ContainsFunc(vars, func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

func isSecret(name string) bool {
	upper := strings.ToUpper(name)
	return slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(upper, w) })
}

func fits(name string, table []string) bool {
	return slices.ContainsFunc(table, func(pattern string) bool {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		return name == pattern
	})
}

func unique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
