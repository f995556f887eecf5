package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/sandbox"
)

// noEtcHook has this test binary be a policy hook that denies to read anything
// below /etc.
const noEtcHook = "hook-no-etc"

// noEtc is what such a hook does: it resolves the path as the host's tool would,
// links too, and denies what it can't place.
func noEtc(stdin io.Reader, stderr io.Writer) int {
	var in struct {
		Cwd   string         `json:"cwd"`
		Tool  string         `json:"tool_name"`
		Input map[string]any `json:"tool_input"`
	}
	if err := json.NewDecoder(stdin).Decode(&in); err != nil {
		return 1
	}
	deny := func(why string) int {
		fmt.Fprintln(stderr, why)
		return 2
	}
	at := in.Cwd
	keys := []string{"path", "pattern"}
	if in.Tool == "Read" {
		keys = []string{"file_path"}
	}
	for _, key := range keys {
		value, given := in.Input[key]
		text, is := value.(string)
		if given && !is || in.Tool == "Read" && text == "" || !filepath.IsAbs(at) {
			return deny("no path")
		}
		path := text
		if !filepath.IsAbs(path) {
			path = filepath.Join(at, path)
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		if path = filepath.Clean(path); path == "/" || path == "/etc" || strings.HasPrefix(path, "/etc/") {
			return deny("not below /etc: " + path)
		}
		if key == "path" {
			at = path
		}
	}
	return 0
}

// hooked starts a world with policy hooks of the user's, all of them trusted.
func hooked(t *testing.T, hooks map[string]string) *world {
	t.Helper()
	w := prepare(t, setting{})
	type handler map[string]any
	var groups []map[string]any
	var ids []string
	for id, spec := range hooks {
		matcher, script, _ := strings.Cut(spec, "\n")
		h := handler{"id": id, "type": "command", "command": filepath.Join(w.Dir, id), "timeoutMs": 10_000}
		if script == noEtcHook {
			h["command"], h["args"] = os.Args[0], []string{noEtcHook}
		} else {
			script = strings.NewReplacer("@gate", programs.Gate, "@socket", w.Paths.BrokerSocket, "@uid", fmt.Sprint(os.Getuid()), "@dir", w.Dir).Replace(script)
			w.Must(os.WriteFile(filepath.Join(w.Dir, id), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
		}
		groups, ids = append(groups, map[string]any{"matcher": matcher, "hooks": []handler{h}}), append(ids, id)
	}
	text, err := json.Marshal(map[string]any{"version": 1, "hooks": map[string]any{"PreToolUse": groups}})
	w.Must(err)
	w.Must(os.WriteFile(filepath.Join(filepath.Dir(w.Paths.Config), "hooks.json"), text, 0o600))
	w.Must(w.StartBroker(w.Ctx()))
	for _, id := range ids {
		w.Run("hooks", "trust", id, "--yes")
	}
	w.agent = w.launch()
	return w
}

// TestHooksStory: real hooks, started by the real gate for calls of a session.
func TestHooksStory(t *testing.T) {
	again := `printf '%s' '{"hook_event_name":"PreToolUse","session_id":"host-1","tool_name":"Read","tool_input":{}}' | `
	gate := `@gate claude --socket @socket --broker-uid @uid --role decide --deadline 20`
	w := hooked(t, map[string]string{
		"no-push": "Bash\nread -r line; case \"$line\" in *'git push'*) echo 'push blocked by fixture' >&2; exit 2;; esac",
		"no-etc":  "Read|Grep|Glob\n" + noEtcHook,
		"noisy":   powerOff + "\necho 'loading rules...'; echo '{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",\"permissionDecision\":\"deny\"}}'",
		"silent":  "Edit\necho '{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",\"permissionDecision\":\"allow\"}}'",
		"itself":  "WebFetch\n" + again + gate + ` > @dir/itself.out 2> @dir/itself.err; echo $? > @dir/itself.status`,
		"agent":   "WebSearch\ncp /bin/sh @dir/claude; " + again + `@dir/claude -c 'exec "$@"' sh ` + gate + ` > @dir/agent.out 2> @dir/agent.err; echo $? > @dir/agent.status`,
		"stubborn": "Write\n" + `(setsid sh -c 'trap "" TERM; echo $$ > @dir/pid.tmp; mv @dir/pid.tmp @dir/pid; while :; do sleep 1; done' &)
			while [ ! -e @dir/pid ]; do sleep 0.01; done; echo no >&2; exit 2`,
	})
	denied := func(t *testing.T, tool, input, code string, words ...string) {
		t.Helper()
		w.T = t
		reason := w.expect(w.call(tool, input), "deny", code)
		for _, word := range words {
			if !strings.Contains(reason, word) {
				t.Errorf("reason %q lacks %q", reason, word)
			}
		}
	}
	t.Run("reads are judged without a lease", func(t *testing.T) {
		w.Must(os.Symlink("/etc/passwd", filepath.Join(w.Dir, "link")))
		for _, input := range []string{
			`{"file_path":"/etc/passwd"}`, `{"file_path":"/tmp/../etc//./passwd"}`, `{"file_path":"\u002fetc/passwd"}`, `{}`, `{"file_path":""}`,
			`{"file_path":"` + w.Dir + `/link"}`, `{"file_path":["/etc/passwd"]}`,
		} {
			denied(t, "Read", input, "policy_denied", "no-etc")
		}
		denied(t, "Glob", `{"pattern":"/etc/**"}`, "policy_denied", "/etc")
		denied(t, "Read", `{"file_path":7}`, "malformed")
		w.expect(w.call("Read", `{"file_path":"/proc/version"}`), "pass", "")
		if r := w.record(); len(r.Policies) != 1 || r.Policies[0].Status != "allowed" || r.Policies[0].ID != "no-etc" {
			t.Errorf("on record are %+v", r.Policies)
		}
	})
	t.Run("a lease comes first", func(t *testing.T) { denied(t, "Bash", `{"command":"git push"}`, "lease_unverified") })
	w.T = t
	w.Run("approve", w.agent.Session)
	t.Run("M39 denied, and why", func(t *testing.T) {
		denied(t, "Bash", `{"command":"git push"}`, "policy_denied", "no-push", "push blocked by fixture")
		r := w.record()
		if len(r.Policies) != 1 || r.Policies[0].Status != "denied" || r.Policies[0].Exit != 2 || !strings.HasPrefix(r.Policies[0].Hash, "sha256:") || len(r.Checkpoint) != 0 {
			t.Errorf("on record are %+v", r)
		}
		w.expect(w.call("Bash", `{"command":"git status"}`), "pass", "")
	})
	t.Run("F5 a line before the decision", func(t *testing.T) {
		denied(t, powerOff, `{"vm_name":"db-01"}`, "policy_unavailable", "noisy", "no decision")
	})
	t.Run("T6 an allowance is none", func(t *testing.T) {
		w.T = t
		if a := w.call("Edit", `{}`); bytes.Contains(a.Out, []byte("permissionDecision\"")) || a.Exit != 0 {
			t.Errorf("the host is told %s", a.Out)
		}
	})
	for _, tc := range []struct{ id, tool string }{{"itself", "WebFetch"}, {"agent", "WebSearch"}} {
		t.Run("W9 a hook that asks: "+tc.id, func(t *testing.T) {
			w.T = t
			w.expect(w.call(tc.tool, `{}`), "pass", "")
			status, err := os.ReadFile(filepath.Join(w.Dir, tc.id+".status"))
			w.Must(err)
			reason, err := os.ReadFile(filepath.Join(w.Dir, tc.id+".err"))
			w.Must(err)
			if string(status) != "2\n" || sandbox.Code(string(reason)) != "nested_runtime" {
				t.Errorf("what a hook started was answered %s%s", status, reason)
			}
		})
	}
	t.Run("a grandchild that holds on", func(t *testing.T) {
		denied(t, "Write", write, "policy_denied", "stubborn", "no")
		pid, err := os.ReadFile(filepath.Join(w.Dir, "pid"))
		w.Must(err)
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			t.Errorf("it lives: %s", stat)
		}
	})
	t.Run("M17 W6 what changed doesn't run", func(t *testing.T) {
		w.T = t
		w.Must(os.WriteFile(filepath.Join(w.Dir, "silent"), []byte("#!/bin/sh\ntouch "+w.Dir+"/ran\n"), 0o700))
		denied(t, "Edit", `{}`, "policy_unavailable", "silent", "guard hooks trust")
		if _, err := os.Stat(filepath.Join(w.Dir, "ran")); err == nil {
			t.Error("it ran")
		}
	})
}

// TestHooksOfManyCalls: calls at once, each with hooks of its own.
func TestHooksOfManyCalls(t *testing.T) {
	w := hooked(t, map[string]string{
		"a": "Read\nsleep 0.05; read -r line; case \"$line\" in *deny*) exit 2;; esac",
		"b": "Read\nsleep 0.05",
	})
	var orders []sandbox.Order
	for i := range 12 {
		word := []string{"pass", "deny"}[i%2]
		orders = append(orders, w.agent.Gate("decide", fmt.Appendf(nil, `{"hook_event_name":"PreToolUse","session_id":"host-1","tool_name":"Read","tool_input":{"file_path":"/tmp/%s"}}`, word)))
	}
	began := time.Now()
	answers, err := w.agent.Do(w.Ctx(), orders...)
	w.Must(err)
	for i, a := range answers {
		w.expect(a, []string{"pass", "deny"}[i%2], "")
	}
	t.Logf("12 calls with 2 hooks each took %v", time.Since(began))
}
