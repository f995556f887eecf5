package runtime

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
)

// Install is what guard puts into a client: all of it for Claude, and for the
// others what stands in theirs too.
type Install struct {
	Gate      string // guard-gate, absolute
	Guard     string // guard, for the recovery tool's server
	Socket    string // broker.sock
	BrokerUID uint32
	Budget    time.Duration // the gate's own deadline for one call
	Server    string        // name of guard's MCP server; empty: there is none
	ServerEnv []string      // where that server finds the broker, name=value
	Bare      bool          // without hooks: the administrator's settings have them
	Judged    bool          // a policy server judges prompts and results too: the gate is asked, and told
}

// seconds are the gate's deadline in whole seconds.
func (in Install) seconds() int64 { return int64((in.Budget + time.Second - 1) / time.Second) }

// gateArgs are the gate's first arguments, for calls of that runtime.
func (in Install) gateArgs(runtime string, more ...string) []string {
	return append([]string{runtime, "--socket", in.Socket, "--broker-uid", strconv.FormatUint(uint64(in.BrokerUID), 10)}, more...)
}

// serverEnv is the environment of guard's MCP server, by name.
func (in Install) serverEnv() map[string]string {
	env := map[string]string{}
	for _, v := range in.ServerEnv {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	return env
}

// hookMargin is how much longer than the gate's own deadline the client waits
// for it: the gate answers first, whatever happens.
const hookMargin = 30 * time.Second

// Events that the gate decides on, and those that it only hears of.
var (
	decideEvents  = []string{"PreToolUse", "PreSkillShellCommand", "ConfigChange"}
	observeEvents = []string{
		"SessionStart", "SessionEnd", "PreCompact", "PostCompact", "PostToolUse", "PostToolUseFailure",
		"SubagentStart", "SubagentStop", "CwdChanged",
	}
)

// promptEvent is decided on where a policy server is configured: nobody else judges
// what a person says.
const promptEvent = "UserPromptSubmit"

// decides are the events that the gate decides on.
func (in Install) decides() []string {
	if in.Judged {
		return append(slices.Clone(decideEvents), promptEvent)
	}
	return decideEvents
}

// recoverTool is the one tool of guard's own server.
const recoverTool = "recover"

// MaxArgument is the most bytes of one argument or variable: MAX_ARG_STRLEN
// without its NUL.
const MaxArgument = 128<<10 - 1

type hook struct {
	Type      string   `json:"type"`
	Command   string   `json:"command"`
	Args      []string `json:"args"`
	Timeout   int64    `json:"timeout"`
	OnFailure string   `json:"onFailure,omitempty"`
}

type matcher struct {
	Matcher string `json:"matcher"`
	Hooks   []hook `json:"hooks"`
}

// promptFile is the client's option for a file behind its own prompt. The last
// one counts, so a user's own takes the place of guard's.
const promptFile = "--append-system-prompt-file"

// Files are the session's own files for what stands in no argument; empty: none.
type Files struct {
	Servers string // the user's MCP servers
	Memory  string // the user's instructions
	Helper  string // the command that prints the user's credential, as a shell script
}

// Args are guard's own arguments for the client, each in one piece.
func (in Install) Args(u User, files Files) ([]string, error) {
	args, err := in.args(u, files.Helper)
	if err != nil {
		return nil, err
	}
	if files.Servers != "" {
		args = append(args, "--mcp-config="+files.Servers)
	}
	if files.Memory != "" {
		args = append(args, promptFile+"="+files.Memory)
	}
	return args, nil
}

// args are those that a proof has too, but for the helper.
func (in Install) args(u User, helper string) ([]string, error) {
	text, err := in.settings(u, helper)
	if err != nil {
		return nil, err
	}
	args := []string{"--settings=" + text, "--setting-sources=", "--strict-mcp-config"}
	agents, err := u.agentsArg(filepath.Join(filepath.Dir(u.SettingsFile), "agents"))
	if err != nil {
		return nil, err
	}
	if agents != "" {
		args = append(args, agents)
	}
	if in.Server != "" {
		config, err := in.serverConfig()
		if err != nil {
			return nil, err
		}
		args = append(args, "--mcp-config="+config)
	}
	return args, nil
}

// settings is the one settings object that the client reads. Given as text, it
// is read once: no edit of any file changes it afterwards.
func (in Install) settings(u User, helper string) (string, error) {
	permissions := maps.Clone(u.Permissions)
	if in.Server != "" {
		allow, err := withTool(permissions["allow"], "mcp__"+in.Server+"__"+recoverTool)
		if err != nil {
			return "", err
		}
		if permissions == nil {
			permissions = object{}
		}
		permissions["allow"] = allow
	}
	s := map[string]any{}
	for key, value := range u.More {
		s[key] = value
	}
	if helper != "" {
		s[keyHelper] = "/bin/sh " + shellWord(helper)
	}
	if !in.Bare {
		s["hooks"] = in.hooks()
	}
	if len(permissions) > 0 {
		s["permissions"] = permissions
	}
	text, err := marshal("the session's settings", s)
	if err != nil {
		return "", err
	}
	if len(text)+len("--settings=") > MaxArgument {
		return "", u.tooLong(len(text))
	}
	return string(text), nil
}

// tooLong names the key that is to blame.
func (u User) tooLong(size int) error {
	all := object{}
	maps.Copy(all, u.More)
	for key, value := range u.Permissions {
		all["permissions."+key] = value
	}
	key, largest := all.largest()
	return refuse(verdict.ConfigInvalid, "taking over the settings of", u.SettingsFile,
		fmt.Sprintf("they are %d bytes long, and the kernel takes %d in one argument; the largest key is %s with %d", size, MaxArgument, verdict.Clean(key), largest),
		"make "+verdict.Clean(key)+" in "+shellWord(u.SettingsFile)+" shorter")
}

// hooks are the gate's own entries, one for each event.
func (in Install) hooks() map[string][]matcher {
	hooks := map[string][]matcher{}
	for _, event := range in.decides() {
		hooks[event] = []matcher{{Matcher: "*", Hooks: []hook{in.hook("decide", "block")}}}
	}
	for _, event := range observeEvents {
		hooks[event] = []matcher{{Matcher: "*", Hooks: []hook{in.hook("observe", "")}}}
	}
	return hooks
}

func (in Install) hook(role, onFailure string) hook {
	return hook{
		Type: "command", Command: in.Gate, OnFailure: onFailure, Timeout: in.seconds() + int64(hookMargin/time.Second),
		Args: in.gateArgs("claude", "--role", role, "--deadline", strconv.FormatInt(in.seconds(), 10)),
	}
}

// withTool adds a tool to a list of permissions.
func withTool(list jsontext.Value, tool string) (jsontext.Value, error) {
	var tools []string
	if list != nil {
		if err := json.Unmarshal(list, &tools); err != nil {
			return nil, fmt.Errorf("reading permissions.allow: %w", err)
		}
	}
	return json.Marshal(append(tools, tool))
}

// serverConfig names guard's own MCP server. It is loaded before the first
// request, so that the model can call its tool without a search for it.
func (in Install) serverConfig() (string, error) {
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{in.Server: map[string]any{
		"type": "stdio", "command": in.Guard, "args": []string{"mcp", "--server", in.Server}, "env": in.serverEnv(), "alwaysLoad": true,
	}}}, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("writing the configuration of guard's MCP server: %w", err)
	}
	return string(text), nil
}

// proofArgs make the client ask its model once, with nobody there and nothing
// kept.
var proofArgs = []string{"--no-session-persistence", "--output-format=json", "-p", "Call the tool that you are told to."}

// ProofArgs are the arguments of the proof: guard's own, with its own MCP server
// alone, and an unattended question. The proof needs no credential of the user's.
func (in Install) ProofArgs(u User) ([]string, error) {
	args, err := in.args(u, "")
	return append(args, proofArgs...), err
}
