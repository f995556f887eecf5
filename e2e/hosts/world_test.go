//go:build hosts

package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/fakemodel"
)

// patience is how long a client may take for all of one test's run.
const patience = 60 * time.Second

// world is what one client run has: nothing of it is shared with another test.
// A test makes it, gives it a script, and runs the client.
type world struct {
	t       *testing.T
	Dir     string // of the world
	Home    string
	Project string
	Config  string // where the client keeps its user's settings
	State   string // the file of the client's own state
	Records string // what hooks and MCP servers saw
	Marker  string // a file that a tool call makes
	Model   *fakemodel.Server
	Client  string      // default the tested version
	Env     []string    // added to the clean environment
	Until   func() bool // when set, an unattended run is ended as soon as it holds
}

// newWorld makes a world that still lacks its model.
func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "w")
	must(t, err)
	w := &world{
		t: t, Dir: dir, Home: filepath.Join(dir, "home"), Project: filepath.Join(dir, "project"), Records: filepath.Join(dir, "records"),
		Marker: filepath.Join(dir, "marker"), Client: claude,
	}
	w.Config, w.State = filepath.Join(w.Home, ".claude"), filepath.Join(w.Home, ".claude.json")
	for _, d := range []string{w.Home, w.Project, w.Records, w.Config} {
		must(t, os.MkdirAll(d, 0o755))
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // what stays goes with the stage
	return w
}

// script starts the model, and answers the questions that a client asks a new
// user in a terminal.
func (w *world) script(script fakemodel.Script) {
	w.t.Helper()
	var err error
	w.Model, err = fakemodel.Start(script)
	must(w.t, err)
	w.t.Cleanup(func() {
		if err := errors.Join(w.Model.Close(), w.Model.Err()); err != nil {
			w.t.Error(err)
		}
	})
	key := w.Model.Key()
	w.write(w.State, object{
		"hasCompletedOnboarding": true, "theme": "dark", "bypassPermissionsModeAccepted": true,
		"customApiKeyResponses": object{"approved": []string{key[len(key)-20:]}, "rejected": []string{}},
		"projects":              object{w.Project: object{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
	})
}

type object = map[string]any

// at is a file below the world's directory. What is named below home/.claude is
// where this client keeps it.
func (w *world) at(name string) string {
	if rest, ok := strings.CutPrefix(name, "home/.claude/"); ok {
		return filepath.Join(w.Config, rest)
	}
	return filepath.Join(w.Dir, name)
}

func (w *world) write(path string, v any) {
	w.t.Helper()
	data, ok := v.(string)
	if !ok {
		data = string(toJSON(w.t, v))
	}
	must(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(w.t, os.WriteFile(path, []byte(data), 0o644))
}

// environ is all that the client gets: nothing of ours.
func (w *world) environ() []string {
	return append([]string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + w.Home, "LANG=C.UTF-8", "TERM=xterm-256color",
		"ANTHROPIC_BASE_URL=" + w.Model.URL(), "ANTHROPIC_API_KEY=" + w.Model.Key(),
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1",
		"CLAUDE_CODE_TMPDIR=" + w.Dir, // else what background calls say stays in /tmp
	}, w.Env...)
}

// hook is the settings' entry of a recording hook that denies calls of a tool;
// tool "" denies none.
func (w *world) hook(tool, reason string) object {
	return object{"matcher": "*", "hooks": []any{object{
		"type": "command", "command": self, "args": []string{"play-hook", w.Records, tool, reason}, "timeout": 60, "onFailure": "block",
	}}}
}

// watch is inline settings that record every event, and deny calls of a tool.
func (w *world) watch(tool, reason string) string {
	hooks := object{}
	for _, event := range events {
		hooks[event] = []any{w.hook(tool, reason)}
	}
	// Without user settings the client doesn't know that its user has accepted
	// the bypass mode, and asks in a terminal.
	return string(toJSON(w.t, object{"hooks": hooks, "skipDangerousModePermissionPrompt": true}))
}

// events are those that a world records. A hook on WorktreeCreate would have to
// make the worktree itself, so there is none.
var events = []string{
	"PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "PermissionRequest", "PermissionDenied", "PreSkillShellCommand",
	"SessionStart", "SessionEnd", "UserPromptSubmit", "Stop", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "ConfigChange", "CwdChanged",
	"Notification", "TaskCreated", "TaskCompleted",
}

// outcome is how a client's run ended.
type outcome struct {
	Exit           int
	Stdout, Stderr string
}

// run runs the client unattended, with all permissions bypassed, to its end.
func (w *world) run(args ...string) outcome {
	w.t.Helper()
	return w.runAs(append([]string{"-p", "go", "--dangerously-skip-permissions"}, args...)...)
}

// runAs runs the client with exactly these arguments.
func (w *world) runAs(args ...string) outcome {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.Client, args...)
	cmd.Dir, cmd.Env = w.Project, w.environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	must(w.t, cmd.Start())
	if w.Until != nil {
		w.await("the end of what this run is for", w.Until)
		cancel()
		_ = cmd.Wait()
		return outcome{Exit: -1, Stdout: stdout.String(), Stderr: stderr.String()}
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		w.t.Fatalf("the client didn't end in %v; hooks so far %q; it has said\n%s\n%s", patience, names(w.hooks()), &stdout, &stderr)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return outcome{Exit: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}

// as runs a program with exactly these arguments, where the client would be run.
func (w *world) as(program string, args ...string) outcome {
	w.t.Helper()
	d := *w
	d.Client = program
	return d.runAs(args...)
}

// ok demands that the run ended well.
func (w *world) ok(o outcome) {
	w.t.Helper()
	if o.Exit != 0 {
		w.t.Fatalf("the client ended with %d\n%s\n%s", o.Exit, o.Stdout, o.Stderr)
	}
}

// marked tells whether a tool call made the marker.
func (w *world) marked() bool {
	_, err := os.Lstat(w.Marker)
	return err == nil
}

// touch is the input of a Bash call that makes the marker.
func (w *world) touch() string { return string(toJSON(w.t, object{"command": "touch " + w.Marker})) }

// event is one hook's payload.
type event struct {
	Raw       []byte
	Name      string         `json:"hook_event_name"`
	Session   string         `json:"session_id"`
	Tool      string         `json:"tool_name"`
	ToolUse   string         `json:"tool_use_id"`
	Input     jsontext.Value `json:"tool_input"`
	Agent     string         `json:"agent_id"`
	AgentType string         `json:"agent_type"`
	Source    string         `json:"source"`
	Trigger   string         `json:"trigger"`
	Reason    string         `json:"reason"`
	Error     string         `json:"error"`
}

// hooks lists the recorded payloads of the named events in order; without names
// all of them.
func (w *world) hooks(names ...string) []event {
	w.t.Helper()
	var all []event
	for _, data := range w.records("hook") {
		e := event{Raw: data}
		must(w.t, json.Unmarshal(data, &e, lenient))
		if len(names) == 0 || slices.Contains(names, e.Name) {
			all = append(all, e)
		}
	}
	return all
}

// records lists what was recorded under a kind, in order.
func (w *world) records(kind string) [][]byte {
	w.t.Helper()
	entries, err := os.ReadDir(w.Records)
	must(w.t, err)
	var all [][]byte
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !strings.HasSuffix(e.Name(), "-"+kind) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(w.Records, e.Name()))
		must(w.t, err)
		all = append(all, data)
	}
	return all
}

// mcp is an MCP configuration with one stub server of the given tools.
func (w *world) mcp(server string, tools ...string) string {
	return string(toJSON(w.t, object{"mcpServers": object{server: object{
		"type": "stdio", "command": self, "args": append([]string{"play-mcp", w.Records}, tools...),
	}}}))
}

// steps is a script of one conversation, which may be compacted.
func (w *world) steps(steps ...fakemodel.Step) {
	w.t.Helper()
	w.script(fakemodel.Script{Steps: steps, Others: []fakemodel.Conversation{fakemodel.Compaction()}})
}

// results gives what the model was told about each call, in the form of told.
func (w *world) results() []string {
	var all []string
	for _, r := range w.Model.Results() {
		all = append(all, told(r))
	}
	return all
}

// told is "ok: text" or "error: text".
func told(r fakemodel.Result) string {
	if r.IsError {
		return "error: " + r.Text
	}
	return "ok: " + r.Text
}

// await polls until done or for as long as patience allows.
func (w *world) await(what string, done func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("waited %v for %s; hooks so far: %v", patience, what, names(w.hooks()))
		}
	}
}

func names(all []event) []string {
	var out []string
	for _, e := range all {
		out = append(out, strings.TrimRight(fmt.Sprintf("%s %s%s%s%s", e.Name, e.Tool, e.Source, e.Trigger, e.Reason), " "))
	}
	return out
}

// lenient reads what a client writes: a model may say half a surrogate pair, and
// the client's payload then has it.
var lenient = jsontext.AllowInvalidUTF8(true)

func toJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v, json.Deterministic(true))
	must(t, err)
	return data
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
