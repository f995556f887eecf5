package broker

import (
	"context"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/agenttest"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/wire"
)

// hookInput is the line on a hook's stdin, as a hook reads it.
type hookInput struct {
	Version int            `json:"schema_version"`
	Event   string         `json:"hook_event_name"`
	Session string         `json:"session_id"`
	Turn    string         `json:"turn_id"`
	Run     string         `json:"run_id"`
	ToolUse string         `json:"tool_use_id"`
	Tool    string         `json:"tool_name"`
	Input   map[string]any `json:"tool_input"`
	Cwd     string         `json:"cwd"`
	Mode    string         `json:"permission_mode"`
	Origin  string         `json:"origin"`
}

func readLine(t *testing.T, line string) (in hookInput) {
	t.Helper()
	if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "}\n") {
		t.Errorf("no one line: %q", line)
	}
	if err := json.Unmarshal([]byte(line), &in, json.RejectUnknownMembers(true)); err != nil {
		t.Errorf("%v in %s", err, line)
	}
	return in
}

// TestM31_FieldsOfEachHost: what a hook reads of a call, host by host.
func TestM31_FieldsOfEachHost(t *testing.T) {
	f, _ := hookedFixture(t, nil)
	f.session()
	s := f.sessions.All()[0]
	tool := `"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","tool_input":{"a":"\u0000b"}`
	for name, tc := range map[string]struct {
		host    wire.Host
		payload string
		want    string
	}{
		"Claude": {wire.HostClaude, `{` + tool + `,"tool_use_id":"tu","prompt_id":"p","cwd":"/w","permission_mode":"plan"}`,
			`"session_id":"s","turn_id":"p","run_id":"p","tool_use_id":"tu","tool_name":"Bash","tool_input":{"a":"\u0000b"},"cwd":"/w","permission_mode":"plan","origin":"provider"`},
		"Claude, a subagent": {wire.HostClaude, `{` + tool + `,"prompt_id":"p","agent_id":"a-7"}`,
			`"session_id":"s","turn_id":"p","run_id":"a-7","tool_use_id":"","tool_name":"Bash","tool_input":{"a":"\u0000b"},"cwd":"/","permission_mode":"default","origin":"provider"`},
		"Claude, as little as there may be": {wire.HostClaude, `{` + tool + `,"cwd":7}`,
			`"session_id":"s","turn_id":"s","run_id":"s","tool_use_id":"","tool_name":"Bash","tool_input":{"a":"\u0000b"},"cwd":"/","permission_mode":"default","origin":"provider"`},
		"Claude, a cwd that is no place": {wire.HostClaude, `{` + tool + `,"cwd":"x/\n\u2028\"../"}`,
			`"session_id":"s","turn_id":"s","run_id":"s","tool_use_id":"","tool_name":"Bash","tool_input":{"a":"\u0000b"},"cwd":"x/\n` + "\u2028" + `\"../","permission_mode":"default","origin":"provider"`},
		"Codex": {wire.HostCodex, `{` + tool + `,"turn_id":"t1","cwd":"/w","permission_mode":"bypassPermissions"}`,
			`"session_id":"s","turn_id":"t1","run_id":"t1","tool_use_id":"","tool_name":"Bash","tool_input":{"a":"\u0000b"},"cwd":"/w","permission_mode":"bypassPermissions","origin":"provider"`},
		"Pi": {wire.HostPi, strings.Replace(`{`+tool+`,"mode":"rpc"}`, "PreToolUse", "tool_call", 1),
			`"session_id":"s","turn_id":"s","run_id":"s","tool_use_id":"","tool_name":"Bash","tool_input":{"a":"\u0000b"},"cwd":"/","permission_mode":"default","origin":"provider"`},
		"Pi, a call of a script's": {wire.HostPi, strings.Replace(`{`+tool+`,"parent_tool_use_id":"up"}`, "PreToolUse", "tool_call", 1),
			`"session_id":"s","turn_id":"s","run_id":"s","tool_use_id":"","tool_name":"Bash","tool_input":{"a":"\u0000b"},"cwd":"/","permission_mode":"default","origin":"code_mode"`},
	} {
		t.Run(name, func(t *testing.T) {
			ev, err := dialect.Parse(tc.host, wire.RoleDecide, []byte(tc.payload))
			if err != nil {
				t.Fatal(err)
			}
			c := &call{host: tc.host, session: s, event: ev}
			before, after := hookLine(c)
			line := string(before) + string(ev.Input) + string(after)
			if want := `{"schema_version":1,"hook_event_name":"PreToolUse",` + tc.want + "}\n"; line != want {
				t.Errorf("a hook reads\n%swant\n%s", line, want)
			}
			if in := readLine(t, line); in.Input["a"] != "\x00b" { // P2
				t.Errorf("the input is %q", in.Input)
			}
		})
	}
}

// TestP2_HooksGetTheWholeInput: as the host wrote it, but on one line; large ones
// too.
func TestP2_HooksGetTheWholeInput(t *testing.T) {
	f, s := hookedFixture(t, nil)
	f.verified()
	s.set(met("no-rm"))
	rm := func(_ wire.HookJob, line string) []wire.HookResult {
		if text, _ := readLine(t, line).Input["command"].(string); strings.Contains(text, "rm") {
			return []wire.HookResult{denied("no rm")}
		}
		return []wire.HookResult{allowed}
	}
	f.expect(f.judged(f.call("Bash", `{"command":"echo a\u0000rm b"}`), rm), "policy_denied")
	f.expect(f.judged(f.call("Bash", "{\n \"command\" :\r\n\t\"echo a\"\n}"), rm), "")
	large := strings.Repeat("x", 3<<20)
	f.expect(f.judged(f.call("Bash", `{"command":"`+large+`rm"}`), rm), "policy_denied")
	f.expect(f.judged(f.call("Bash", `{"command":"`+large+`"}`), rm), "")
}

// noEtc is a policy that denies to read anything below /etc. What it can't place
// it denies.
func noEtc(t *testing.T) play {
	return func(_ wire.HookJob, line string) []wire.HookResult {
		in := readLine(t, line)
		dir, is := in.Cwd, path.IsAbs(in.Cwd)
		if !is {
			return []wire.HookResult{denied("no directory")}
		}
		for _, key := range []string{"file_path", "path", "pattern"} {
			value, given := in.Input[key]
			text, is := value.(string)
			if given && !is || key == "file_path" && in.Tool == "Read" && text == "" {
				return []wire.HookResult{denied("no path")}
			}
			if !path.IsAbs(text) {
				text = path.Join(dir, text)
			}
			text = path.Clean(text)
			if text == "/etc" || strings.HasPrefix(text, "/etc/") || text == "/" || strings.Contains(text, "\x00") {
				return []wire.HookResult{denied("not below /etc")}
			}
			if key == "path" {
				dir = text
			}
		}
		return []wire.HookResult{allowed}
	}
}

// TestReadsBelowEtcAreDenied: in each spelling that a payload can carry the policy
// has what it needs, and what isn't understood never passes.
func TestReadsBelowEtcAreDenied(t *testing.T) {
	f, s := hookedFixture(t, nil)
	f.session()
	s.set(met("no-etc"))
	for _, tc := range []struct{ name, tool, cwd, input, code string }{
		{"plain", "Read", `"/w"`, `{"file_path":"/etc/passwd"}`, "policy_denied"},
		{"dots", "Read", `"/w"`, `{"file_path":"/tmp/../etc/./passwd"}`, "policy_denied"},
		{"slashes", "Read", `"/w"`, `{"file_path":"//etc///passwd"}`, "policy_denied"},
		{"relative to the directory", "Read", `"/w"`, `{"file_path":"../etc/passwd"}`, "policy_denied"},
		{"a directory below", "Read", `"/etc"`, `{"file_path":"passwd"}`, "policy_denied"},
		{"escaped", "Read", `"/w"`, `{"file_path":"\u002fetc\u002Fpasswd"}`, "policy_denied"},
		{"escaped key", "Read", `"/w"`, `{"file\u005fpath":"/etc/passwd"}`, "policy_denied"},
		{"escaped directory", "Read", `"\u002fetc"`, `{"file_path":"passwd"}`, "policy_denied"},
		{"NUL behind", "Read", `"/w"`, `{"file_path":"/etc/passwd\u0000.txt"}`, "policy_denied"},
		{"no path", "Read", `"/w"`, `{}`, "policy_denied"},
		{"empty path", "Read", `"/w"`, `{"file_path":""}`, "policy_denied"},
		{"null", "Read", `"/w"`, `{"file_path":null}`, "malformed"},
		{"a number", "Read", `"/w"`, `{"file_path":5}`, "malformed"},
		{"an object", "Read", `"/w"`, `{"file_path":{"a":"/etc/passwd"}}`, "malformed"},
		{"a list of two", "Read", `"/w"`, `{"file_path":["/tmp/x","/etc/passwd"]}`, "malformed"},
		{"a list of one", "Read", `"/w"`, `{"file_path":["/etc/passwd"]}`, "policy_denied"},
		{"too long to be a path", "Read", `"/w"`, `{"file_path":"/etc/` + strings.Repeat("a/../", 1000) + `passwd"}`, "policy_denied"},
		{"twice", "Read", `"/w"`, `{"file_path":"/tmp/x","file_path":"/etc/passwd"}`, "malformed"},
		{"half a surrogate", "Read", `"/w"`, `{"file_path":"/etc/\ud800"}`, "malformed"},
		{"a directory that is a number", "Read", `7`, `{"file_path":"etc/passwd"}`, "policy_denied"},
		{"a relative directory", "Read", `"etc"`, `{"file_path":"passwd"}`, "policy_denied"},
		{"a search in it", "Grep", `"/w"`, `{"pattern":"root","path":"/etc"}`, "policy_denied"},
		{"a search from it", "Grep", `"/etc"`, `{"pattern":"root"}`, "policy_denied"},
		{"a pattern that names it", "Glob", `"/w"`, `{"pattern":"/etc/**"}`, "policy_denied"},
		{"a pattern relative to it", "Glob", `"/w"`, `{"pattern":"etc/*","path":"/"}`, "policy_denied"},
		{"a pattern that leads there", "Glob", `"/w"`, `{"pattern":"../etc/*"}`, "policy_denied"},
		{"another file", "Read", `"/w"`, `{"file_path":"/tmp/etc/passwd"}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.t = t
			req := f.call(tc.tool, tc.input)
			req.Body = []byte(strings.Replace(string(req.Body), `{"hook`, `{"cwd":`+tc.cwd+`,"hook`, 1))
			f.expect(f.judged(req, noEtc(t)), tc.code)
		})
	}
	f.t = t
	for name, body := range map[string]string{"nothing": "", "half": `{"tool_name":"Read"`, "a list": "[]", "two": `{}{}`} {
		if r := f.judged(wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide, Body: []byte(body)}, noRunner(t)); r.Exit != 2 {
			t.Errorf("%s passes", name)
		}
	}
}

// TestM30_W9_Recursion: a call from below what runs hooks is denied, and why. It
// isn't a pass, and no hook runs for it.
func TestM30_W9_Recursion(t *testing.T) {
	f, s := hookedFixture(t, nil)
	f.verified()
	s.set(met("h"))
	agent, err := agenttest.Start()
	f.must(err)
	defer agent.Kill()
	// Of the hook it is that the agent is a child: this process is the runner.
	r := f.judged(f.call("Write", `{}`), func(wire.HookJob, string) []wire.HookResult {
		for _, tool := range []string{"Read", "Write"} {
			req := f.call(tool, `{}`)
			req.Body = []byte(strings.Replace(string(req.Body), `"s"`, `"another"`, 1)) // it doesn't speak for the host
			got, err := agent.Send(f.opt.Paths, req)
			f.must(err)
			f.expect(got, "nested_runtime")
			if !strings.Contains(string(got.Err), "policy hook") {
				t.Errorf("the reason is %s", got.Err)
			}
		}
		return []wire.HookResult{allowed}
	})
	f.expect(r, "")
	got, err := agent.Send(f.opt.Paths, f.call("Write", `{}`))
	f.must(err)
	if got.Kind == wire.KindAnswer && strings.Contains(string(got.Err), "policy hook") {
		t.Errorf("after the hooks it is denied: %s", got.Err)
	}
}

// TestW8_PlacesOfHooks: one session's hooks take no more than its share, and who
// waits for a place waits within its budget.
func TestW8_PlacesOfHooks(t *testing.T) {
	f, _ := hookedFixture(t, nil)
	f.session()
	s := f.sessions.All()[0]
	c := &call{session: s, set: f.settings()}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var give []func()
	for range maxHooksSession / maxHooksCall {
		g, err := f.hookPlace(t.Context(), c, maxHooksCall)
		f.must(err)
		give = append(give, g)
	}
	if _, err := f.hookPlace(ctx, c, 1); err == nil {
		t.Error("a session has more than its share")
	}
	for _, g := range give {
		g()
	}
	g, err := f.hookPlace(t.Context(), c, maxHooksCall)
	f.must(err)
	g()
}

// TestM35_RunnerHangsUp: a gate that ends while its hooks run frees what its call
// has taken.
func TestM35_RunnerHangsUp(t *testing.T) {
	f, s := hookedFixture(t, nil)
	f.verified()
	s.set(met("h"))
	for range 3 * maxHooksSession {
		conn := f.dial()
		_, err := conn.Write(wire.AppendRequest(nil, f.call("Write", `{}`)))
		f.must(err)
		_, err = wire.ReadReply(conn, wire.MaxOutput)
		f.must(err)
		_, err = conn.Write(wire.AppendRequest(nil, wire.Request{Kind: wire.KindHooksReady}))
		f.must(err)
		_, _, err = wire.ReadHookJob(conn)
		f.must(err)
		f.must(conn.Close())
	}
	f.expect(f.judged(f.call("Write", `{}`), results(allowed)), "")
	self := f.sessions.All()[0].Anchor.ID()
	f.eventually("nothing is taken for a runner any more", func() bool { return !f.runners.has(self) })
}

// TestM28_JobOfTheConfiguration: a runner gets PATH and times of the configuration
// and the definitions in their order.
func TestM28_JobOfTheConfiguration(t *testing.T) {
	f, s := hookedFixture(t, func(c *config.Config) { c.Hooks.Path = "/opt/bin" })
	f.verified()
	s.set(met("b"), met("a"))
	f.judged(f.call("Write", `{}`), func(job wire.HookJob, _ string) []wire.HookResult {
		budget := f.settings().config.Launch.Budget.Milliseconds()
		if job.Path != "/opt/bin" || job.Hooks[0].ID != "b" || job.Hooks[1].ID != "a" || job.TotalMS >= job.AnswerMS || job.AnswerMS > budget || job.TotalMS < budget/2 {
			t.Errorf("the job is %+v", job)
		}
		return []wire.HookResult{allowed, allowed}
	})
}

func FuzzReadResults(f *testing.F) {
	f.Add([]byte(`{"results":[{"status":"allowed","reason":"","exit":0,"signal":"","duration_us":1}]}`), 1)
	f.Fuzz(func(t *testing.T, body []byte, n int) {
		if r, err := readResults(body, n); err == nil && len(r) != n {
			t.Errorf("%d results for %d hooks", len(r), n)
		}
	})
}
