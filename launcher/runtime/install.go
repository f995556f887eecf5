package runtime

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
)

// Install is what guard puts into a client of Claude.
type Install struct {
	Gate      string // guard-gate, absolute
	Guard     string // guard, for the recovery tool's server
	Socket    string // broker.sock
	BrokerUID uint32
	Budget    time.Duration // the gate's own deadline for one call
	Server    string        // name of guard's MCP server; empty: there is none
	ServerEnv []string      // where that server finds the broker, name=value
	Bare      bool          // without hooks: the administrator's settings have them
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

// recoverTool is the one tool of guard's own server.
const recoverTool = "recover"

// maxArgument is the most bytes of one argument: MAX_ARG_STRLEN with its NUL.
const maxArgument = 128<<10 - 1

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

// Args are guard's own arguments for the client, each in one piece. servers is
// the file of the user's MCP servers; empty: none.
func (in Install) Args(u User, servers string) ([]string, error) {
	text, err := in.settings(u)
	if err != nil {
		return nil, err
	}
	args := []string{"--settings=" + text, "--setting-sources=", "--strict-mcp-config"}
	if in.Server != "" {
		config, err := in.serverConfig()
		if err != nil {
			return nil, err
		}
		args = append(args, "--mcp-config="+config)
	}
	if servers != "" {
		args = append(args, "--mcp-config="+servers)
	}
	return args, nil
}

// settings is the one settings object that the client reads. Given as text, it
// is read once: no edit of any file changes it afterwards.
func (in Install) settings(u User) (string, error) {
	permissions := object{}
	for key, value := range u.Permissions {
		permissions[key] = value
	}
	if in.Server != "" {
		allow, err := withTool(u.Permissions["allow"], "mcp__"+in.Server+"__"+recoverTool)
		if err != nil {
			return "", err
		}
		permissions["allow"] = allow
	}
	s := map[string]any{}
	if !in.Bare {
		s["hooks"] = in.hooks()
	}
	for key, value := range u.More {
		s[key] = value
	}
	if u.Model != nil {
		s["model"] = u.Model
	}
	if len(permissions) > 0 {
		s["permissions"] = permissions
	}
	text, err := json.Marshal(s, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("writing the session's settings: %w", err)
	}
	if len(text)+len("--settings=") > maxArgument {
		key, size := largest(u)
		return "", refuse(verdict.ConfigInvalid, "taking over the settings of", u.SettingsFile,
			fmt.Sprintf("they are %d bytes long, and the kernel takes %d in one argument; the largest key is %s with %d", len(text), maxArgument, key, size),
			"make "+key+" in "+shellWord(u.SettingsFile)+" shorter")
	}
	return string(text), nil
}

// hooks are the gate's own entries, one for each event.
func (in Install) hooks() map[string][]matcher {
	hooks := map[string][]matcher{}
	for _, event := range decideEvents {
		hooks[event] = []matcher{{Matcher: "*", Hooks: []hook{in.hook("decide", "block")}}}
	}
	for _, event := range observeEvents {
		hooks[event] = []matcher{{Matcher: "*", Hooks: []hook{in.hook("observe", "")}}}
	}
	return hooks
}

func (in Install) hook(role, onFailure string) hook {
	seconds := int64((in.Budget + time.Second - 1) / time.Second)
	return hook{
		Type: "command", Command: in.Gate, OnFailure: onFailure, Timeout: seconds + int64(hookMargin/time.Second),
		Args: []string{"claude", "--socket", in.Socket, "--broker-uid", strconv.FormatUint(uint64(in.BrokerUID), 10),
			"--role", role, "--deadline", strconv.FormatInt(seconds, 10)},
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

func largest(u User) (string, int) {
	key, size := "model", len(u.Model)
	for k, v := range u.Permissions {
		if len(v) > size || len(v) == size && k < key {
			key, size = "permissions."+k, len(v)
		}
	}
	return key, size
}

// serverConfig names guard's own MCP server. It is loaded before the first
// request, so that the model can call its tool without a search for it.
func (in Install) serverConfig() (string, error) {
	env := map[string]string{}
	for _, v := range in.ServerEnv {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{in.Server: map[string]any{
		"type": "stdio", "command": in.Guard, "args": []string{"mcp", "--server", in.Server}, "env": env, "alwaysLoad": true,
	}}}, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("writing the configuration of guard's MCP server: %w", err)
	}
	return string(text), nil
}

// ServersFile is the text of the file with the user's MCP servers. They may
// hold secrets, so they are in no argument.
func (u User) ServersFile() ([]byte, error) {
	text, err := json.Marshal(map[string]any{"mcpServers": u.Servers}, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("writing the list of MCP servers: %w", err)
	}
	return text, nil
}

// proofArgs make the client ask its model once, with nobody there and nothing
// kept.
var proofArgs = []string{"--no-session-persistence", "--output-format=json", "-p", "Call the tool that you are told to."}

// ProofArgs are the arguments of the proof: guard's own, with its own MCP server
// alone, and an unattended question.
func (in Install) ProofArgs(u User) ([]string, error) {
	args, err := in.Args(u, "")
	return append(args, proofArgs...), err
}
