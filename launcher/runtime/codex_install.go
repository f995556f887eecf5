package runtime

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/verdict"
)

// CodexInstall is what guard puts into a client of Codex. Everything is in its
// arguments, which the client puts above every file but an administrator's: what
// the agent writes into a file later takes nothing of it back.
type CodexInstall struct {
	Install
	Managed  bool // an administrator's requirements have the hooks already
	ReadOnly bool // launch.codex_sandbox
}

// codexFlags are the client's own switches that guard sets in every session.
var codexFlags = []string{
	// A terminal's session would run in a server beside, which no launcher holds.
	"--no-daemon",
	"--config=features.daemon_auto_start=false",
	// A project's or user's features.hooks = false would switch all hooks off.
	"--config=features.hooks=true",
	// A conversation that is taken up again would bring its own directory along,
	// which the broker doesn't watch.
	`--config=tui.resume_cwd="current"`,
	// No terminal for commands: without one their standard input is closed, so
	// that write_stdin, which no hook sees, has nothing to write to.
	"--config=features.unified_exec_tty=false",
	// Plugins bring hooks and servers of their own; images are written to disk by
	// a call that no hook sees.
	"--config=features.plugins=false",
	"--config=features.image_generation=false",
	// A skill may say which servers it needs, a project's too: they are installed,
	// for all sessions to come, and started.
	"--config=features.skill_mcp_dependency_install=false",
	// A snapshot of the user's shell runs their .bashrc unasked at the start, and
	// notify a program after each turn, both with the line that only hooks may have.
	"--config=features.shell_snapshot=false",
	"--config=features.shell_snapshot_v2=false",
	"--config=notify=[]",
}

// sessionFlags is what the client calls the source of hooks in its arguments.
const sessionFlags = "/<session-flags>/config.toml"

// Args are guard's own arguments for the client, each in one piece.
func (in CodexInstall) Args(u CodexUser) ([]string, error) { return in.args(u, nil) }

// args leaves out the MCP servers that are named.
func (in CodexInstall) args(u CodexUser, disabled []string) ([]string, error) {
	args := slices.Clone(codexFlags)
	state := make([]string, 0, len(u.Hooks))
	for _, key := range u.Hooks {
		state = append(state, tomlText(key)+"={enabled=false}")
	}
	if !in.Managed {
		for _, event := range in.codexEvents() {
			h := in.codexEntry(event)
			args = append(args, "--config=hooks."+event+"=[{hooks=[{type=\"command\",command="+tomlText(h.Command)+
				",timeout="+fmt.Sprint(h.Timeout)+"}]}]")
			state = append(state, tomlText(hookKey(sessionFlags, event, 0, 0))+"={enabled=true,trusted_hash="+tomlText(CodexTrust(event, h.Command, h.Timeout))+"}")
		}
	}
	if len(state) > 0 {
		args = append(args, "--config=hooks.state={"+strings.Join(state, ",")+"}")
	}
	if len(u.Trusted) > 0 {
		var all []string
		for _, dir := range u.Trusted {
			all = append(all, tomlText(dir)+`={trust_level="untrusted"}`)
		}
		args = append(args, "--config=projects={"+strings.Join(all, ",")+"}")
	}
	if in.ReadOnly {
		args = append(args, `--config=sandbox_mode="read-only"`)
	}
	if servers := in.servers(disabled); servers != "" {
		args = append(args, servers)
	}
	return args, tooLong(u, args)
}

// tooLong refuses what the kernel would not take in one argument.
func tooLong(u CodexUser, args []string) error {
	for _, arg := range args {
		if len(arg) > MaxArgument {
			key, _, _ := strings.Cut(strings.TrimPrefix(arg, "--config="), "=")
			return refuse(verdict.ConfigInvalid, "taking over the configuration of Codex in", u.Home,
				fmt.Sprintf("what guard has to say of %s is %d bytes long, and the kernel takes %d in one argument", key, len(arg), MaxArgument),
				"remove entries of "+key+" from "+shellWord(u.Home+"/config.toml"))
		}
	}
	return nil
}

// servers switches servers of the user's off, and adds guard's own, whose one tool
// the client may call unasked.
func (in CodexInstall) servers(disabled []string) string {
	var all []string
	for _, name := range disabled {
		all = append(all, tomlText(name)+"={enabled=false}")
	}
	if in.Server != "" {
		var env []string
		for _, v := range in.ServerEnv {
			name, value, _ := strings.Cut(v, "=")
			env = append(env, tomlText(name)+"="+tomlText(value))
		}
		all = append(all, in.Server+"={command="+tomlText(in.Guard)+`,args=["mcp","--server",`+tomlText(in.Server)+
			`],env={`+strings.Join(env, ",")+`},required=true,default_tools_approval_mode="approve"}`)
	}
	if len(all) == 0 {
		return ""
	}
	return "--config=mcp_servers={" + strings.Join(all, ",") + "}"
}

// codexProof makes the client ask its model once, with nobody there and nothing
// kept.
var codexProof = []string{"exec", "--ephemeral", "--skip-git-repo-check", "--json", "--", "Call the tool that you are told to."}

// ProofArgs are the arguments of the proof, for a model at that address: guard's
// own, without the user's MCP servers, and an unattended question. The client
// reads the address's key from a variable.
func (in CodexInstall) ProofArgs(u CodexUser, url string) ([]string, error) {
	args, err := in.args(u, u.Servers)
	args = append(args,
		`--config=model_providers.guard-proof={name="guard-proof",base_url=`+tomlText(url+"/v1")+`,wire_api="responses",env_key=`+tomlText(ProofKey)+
			`,request_max_retries=0,stream_max_retries=0}`,
		`--config=model_provider="guard-proof"`, "--config=analytics.enabled=false", "--config=check_for_update_on_startup=false")
	return append(args, codexProof...), err
}

// ProofKey is the variable in which the proof's client has its model's key.
const ProofKey = "GUARD_PROOF_KEY"

// CodexTrust is the hash by which the client knows a hook that its user has
// trusted: of what it understood of the entry, as JSON with sorted keys.
func CodexTrust(event, command string, timeout int64) string {
	text, err := json.Marshal(map[string]any{
		"event_name": snake(event),
		"hooks":      []any{map[string]any{"async": false, "command": command, "timeout": timeout, "type": "command"}},
	}, json.Deterministic(true))
	if err != nil {
		return "" // which no hook has, so that it isn't run and the proof fails
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// tomlText writes a string as TOML has it. JSON's escapes are TOML's too, but
// TOML wants one more character escaped.
func tomlText(s string) string {
	text, err := json.Marshal(strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		return `""`
	}
	return strings.ReplaceAll(string(text), "\x7f", `\u007f`)
}
