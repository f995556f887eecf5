package broker

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/policysim"
	"leaseguard.internal/internal/wire"
)

// TestO9_X5_NoFileDecidesWhoIsGoverned: a session is judged because its broker's
// configuration says so. What lies around on the agent's side, or is taken away
// there, and what its environment says, changes nothing.
func TestO9_X5_NoFileDecidesWhoIsGoverned(t *testing.T) {
	t.Setenv("_OMNIGENT_SERVER_URL", "http://127.0.0.1:9")
	t.Setenv("_OMNIGENT_RELAY_URL", "http://127.0.0.1:9")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:9")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:9")
	f, sim := servedFixture(t, has("forbidden", "no"))
	f.session()
	for _, name := range []string{"bridge.json", "tool_relay.json", "tool_relay.env", "permission_hook.json"} {
		f.must(os.WriteFile(filepath.Join(f.dir, name), []byte(`{"active_session_id":null}`), 0o600))
	}
	f.expect(f.pre("Read", `{"file_path":"/forbidden"}`), "policy_denied")
	for _, name := range []string{"bridge.json", "tool_relay.json", "tool_relay.env", "permission_hook.json"} {
		f.must(os.Remove(filepath.Join(f.dir, name)))
	}
	f.expect(f.pre("Read", `{"file_path":"/forbidden"}`), "policy_denied")
	f.expect(f.pre("Read", `{"file_path":"/x"}`), "")
	if n := len(sim.Seen()); n != 3 {
		t.Errorf("the server was asked %d times", n)
	}
}

// TestO10_X2_X3_X11_MalformedIsDenied: what isn't understood whole is denied, and
// no part of it is judged in its place.
func TestO10_X2_X3_X11_MalformedIsDenied(t *testing.T) {
	f, sim := servedFixture(t)
	f.session()
	const head = `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Read","tool_input":`
	for name, payload := range map[string]string{
		"no JSON": "x", "empty": "", "a list": "[1]", "a number": "7", "half": head, "deep": head + strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 601),
		"lone surrogate": head + `{"file_path":"\ud800"}}`, "broken UTF-8": head + "{\"file_path\":\"\xff\"}}",
		"input a list": head + `["/etc/shadow"]}`, "input a string": head + `"/etc/shadow"}`, "input null": head + `null}`, "no input": `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Read"}`,
		"two inputs": head + `{},"tool_input":{"file_path":"/etc/shadow"}}`, "prompt in another case": `{"hook_event_name":"UserPromptSubmit","session_id":"s","Prompt":"x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			f.expect(f.send(wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide, Body: []byte(payload)}), "malformed")
		})
	}
	if n := len(sim.Seen()); n != 0 {
		t.Errorf("the server was asked %d times about what isn't understood", n)
	}
}

// TestX15_EveryEvaluationIsRecorded: a denial, a failure and a pass of the server
// are in the chained record of their call, by the evaluation's id.
func TestX15_EveryEvaluationIsRecorded(t *testing.T) {
	f, sim := servedFixture(t, has("forbidden", "because secret-words"))
	f.session()
	f.pre("Read", `{"file_path":"/forbidden"}`)
	sim.Fail(policysim.Status(404, ""))
	f.pre("Read", `{"file_path":"/secret-path"}`)
	f.pre("Read", `{"file_path":"/fine"}`)
	f.prompt(`"forbidden"`)
	f.gave("Read", `"forbidden"`)
	ids := map[string]string{}
	for _, e := range sim.Seen() {
		ids[e.ID] = e.Phase
	}
	found := map[string]audit.PolicyResult{}
	f.eventually("all is recorded", func() bool {
		f.must(f.audit.Flush(context.Background()))
		f.must(audit.Read(f.opt.Paths.AuditDir, func(r audit.Record, line []byte) error {
			for _, p := range r.Policies {
				found[p.Hash] = p
			}
			if strings.Contains(string(line), "secret-path") {
				t.Errorf("the input is recorded: %s", line)
			}
			return nil
		}))
		return len(found) == len(ids)
	})
	count := map[string]int{}
	for id, p := range found {
		if ids[id] != p.Matcher || p.Kind != audit.PolicyServer {
			t.Errorf("%s has %+v", id, p)
		}
		count[p.Status+" "+p.Decision]++
	}
	if count["denied deny"] != 2 || count["denied pass"] != 1 || count["failed deny"] != 1 || count["allowed pass"] != 1 || len(ids) != 5 {
		t.Errorf("recorded %v of %d", count, len(ids))
	}
}
