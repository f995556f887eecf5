package dialect

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

const (
	piBash = `{"hook_event_name":"tool_call","session_id":"p1","cwd":"/w","tool_name":"bash","tool_input":{"command":"touch x"},"tool_use_id":"t1"}`
	piRead = `{"hook_event_name":"tool_call","session_id":"p1","cwd":"/w","home":"/home/u","tool_name":"read","tool_input":{"path":"a"},"tool_use_id":"t1"}`
)

func TestPiTools(t *testing.T) {
	for kind, names := range map[string]string{
		"read": "read grep find ls", "self": "bash edit write powershell codemode user_bash", "lease only": "tool_search",
		"none": "Read READ read\x00 readx Bash bash\n ls2 mcp__files__read guard_0011223344556677_recover Monitor constructor",
	} {
		for _, name := range strings.Split(names, " ") {
			if got := Classify(wire.HostPi, name) == Read; got != (kind == "read") {
				t.Errorf("%q reads: %v", name, got)
			}
			want := map[string]BuiltinKind{"self": ChangesSelf, "lease only": LeaseOnlyTool}[kind]
			if got := Builtin(wire.HostPi, name); got != want {
				t.Errorf("%q is a built-in of kind %d, want %d", name, got, want)
			}
		}
	}
	if Asks(wire.HostPi) || !Asks(wire.HostClaude) || Asks(wire.HostNone) || Completes(wire.HostPi, "AskUserQuestion") {
		t.Error("Pi asks, or completes")
	}
}

func TestPiEvents(t *testing.T) {
	const tool = `,"tool_name":"bash","tool_input":{"command":"id"},"tool_use_id":"t1"`
	for name, known := range piEvents {
		payload := `{"hook_event_name":"` + name + `","session_id":"p1"` + tool + `}`
		for _, role := range []wire.Role{wire.RoleNone, wire.RoleDecide, wire.RoleObserve, 9} {
			_, err := Parse(wire.HostPi, role, []byte(payload))
			if fits := role == known.role; fits != (err == nil) {
				t.Errorf("%s in role %d: error %v", name, role, err)
			}
		}
		if _, err := Parse(wire.HostClaude, known.role, []byte(payload)); !errors.Is(err, ErrMalformed) {
			t.Errorf("Claude knows %s", name)
		}
		ev, _ := Parse(wire.HostPi, known.role, []byte(payload))
		_, lost := ev.LostContext()
		if want := strings.HasPrefix(name, "session_"); lost != want {
			t.Errorf("%s without a source loses context: %v", name, lost)
		}
		if ev.Ran() != (name == "tool_result") || ev.Leaves() != (name == "session_shutdown") || ev.Greets() != (name == "session_start") {
			t.Errorf("%s is taken for another event", name)
		}
	}
	for source, want := range map[string]bool{"startup": false, "reload": true, "new": true, "resume": true, "fork": true, "Startup": true, "x": true} {
		ev, err := Parse(wire.HostPi, wire.RoleObserve, []byte(`{"hook_event_name":"session_start","session_id":"p1","reason":"`+source+`"}`))
		if _, lost := ev.LostContext(); err != nil || lost != want || ev.Source != source {
			t.Errorf("start by %s: source %q, lost %v, %v", source, ev.Source, lost, err)
		}
	}
}

func TestPiFields(t *testing.T) {
	ev, err := Parse(wire.HostPi, wire.RoleDecide, []byte(strings.Replace(piBash, `"cwd"`, `"parent_tool_use_id":"t0","mode":"rpc","new":[1],"cwd"`, 1)))
	if err != nil || ev.Tool != "bash" || ev.Agent != "t0" || ev.Mode != "rpc" || ev.Cwd != "/w" || ev.ToolUse != "t1" || string(ev.Input) != `{"command":"touch x"}` {
		t.Errorf("%+v, %v", ev, err)
	}
	line, err := Parse(wire.HostPi, wire.RoleDecide, []byte(`{"hook_event_name":"user_bash","session_id":"p1","tool_name":"read","tool_input":{"command":"id"}}`))
	if err != nil || line.Tool != "user_bash" || Classify(wire.HostPi, line.Tool) == Read || line.Reads != nil {
		t.Errorf("a person's line is %+v, %v", line, err)
	}
}

// What a reading tool names, in all the ways in which Pi takes a name.
func TestPiReads(t *testing.T) {
	for _, tc := range []struct {
		tool, input string
		want        []string
	}{
		{"read", `{"path":"a"}`, []string{"/w/a"}},
		{"read", `{"path":"/etc/../x"}`, []string{"/x"}},
		{"read", `{"path":"@/etc/x"}`, []string{"/w/@/etc/x", "/etc/x"}},
		{"read", `{"path":"~/x"}`, []string{"/w/~/x", "/home/u/x"}},
		{"read", `{"path":"@~"}`, []string{"/w/@~", "/home/u"}},
		{"read", `{"path":"~other/x"}`, []string{"/w/~other/x"}},
		{"read", `{"path":"file:///etc/x"}`, []string{"/w/file:/etc/x", "/etc/x"}},
		{"read", `{"path":"/a\u00a0b"}`, []string{"/a\u00a0b", "/a b"}},
		{"read", `{}`, nil},
		{"ls", `{}`, []string{"/w"}},
		{"grep", `{"pattern":"x","path":".."}`, []string{"/"}},
		{"find", `{"pattern":"*"}`, []string{"/w"}},
		{"bash", `{"path":"/etc"}`, nil},
	} {
		payload := strings.NewReplacer(`"read"`, `"`+tc.tool+`"`, `{"path":"a"}`, tc.input).Replace(piRead)
		ev, err := Parse(wire.HostPi, wire.RoleDecide, []byte(payload))
		if err != nil || !slices.Equal(ev.Reads, tc.want) {
			t.Errorf("%s %s reads %q, want %q; %v", tc.tool, tc.input, ev.Reads, tc.want, err)
		}
	}
	for _, input := range []string{`{"path":7}`, `{"path":["a","b"]}`, `{"Path":"a"}`} {
		if _, err := Parse(wire.HostPi, wire.RoleDecide, []byte(strings.Replace(piRead, `{"path":"a"}`, input, 1))); err == nil {
			t.Errorf("%s names a path", input)
		}
	}
}

// The exact bytes for the extension. What it isn't sure of is a block.
func TestPiRenderGolden(t *testing.T) {
	call := Event{Kind: ToolCall, Name: "tool_call"}
	const none = `guard: internal: judging the call: no reason came with the verdict `
	for _, tc := range []struct {
		name     string
		role     wire.Role
		ev       Event
		v        verdict.Verdict
		out, err string
	}{
		{"pass", wire.RoleDecide, call, verdict.Verdict{Kind: verdict.Pass}, `{"pass":true}`, ""},
		{"pass with context", wire.RoleDecide, call, verdict.Verdict{Kind: verdict.Pass, Context: saved}, `{"pass":true,"context":"guard: \"app-01\" can be rewound"}`, ""},
		{"deny", wire.RoleDecide, call, verdict.Verdict{Reason: denied}, `{"block":true,"reason":` + jsonDenied + `}`, denied + "\n"},
		{"ask", wire.RoleDecide, call, verdict.Verdict{Kind: verdict.Ask, Reason: asked}, `{"block":true,"reason":` + jsonAsked + `}`, asked + "\n"},
		{"nothing", wire.RoleDecide, call, verdict.Verdict{}, `{"block":true,"reason":"` + none + `deny. Next: guard log"}`, none + "deny. Next: guard log\n"},
		{"pass of what wasn't parsed", wire.RoleDecide, Event{}, verdict.Verdict{Kind: verdict.Pass}, `{"block":true,"reason":"` + none + `pass. Next: guard log"}`, none + "pass. Next: guard log\n"},
		{"observer", wire.RoleObserve, Event{Kind: Observer, Name: "session_start"}, verdict.Verdict{Reason: denied}, "", ""},
	} {
		r := Render(wire.HostPi, tc.role, tc.ev, tc.v)
		if string(r.Out) != tc.out || string(r.Err) != tc.err || (r.Exit == exitDeny) != (tc.err != "") {
			t.Errorf("%s: status %d, stdout %s, stderr %q", tc.name, r.Exit, r.Out, r.Err)
		}
	}
}

// TestS5_PiReadsByExactName: a tool whose name only resembles a reading one needs
// a lease, whatever its input looks like.
func TestS5_PiReadsByExactName(t *testing.T) {
	for _, name := range []string{"Read", "read ", " read", "reads", "read\u0000", "mcp__fs__read", "grep_all", "powershell", "codemode", "user_bash", "mcp__blender__execute_code", "monitor", ""} {
		payload := strings.Replace(piRead, `"read"`, `"`+name+`"`, 1)
		ev, err := Parse(wire.HostPi, wire.RoleDecide, []byte(payload))
		if err == nil && Classify(wire.HostPi, ev.Tool) == Read {
			t.Errorf("%q is taken for a tool that reads", name)
		}
	}
}

// TestP5_PiAmbiguousKeys: what extension and broker could read differently is refused.
func TestP5_PiAmbiguousKeys(t *testing.T) {
	for _, key := range append([]string{"parent_tool_use_id", "reason", "mode", "home"}, commonKeys...) {
		payload := strings.Replace(piBash, `"cwd"`, `"`+strings.ToUpper(key)+`":"x","cwd"`, 1)
		if _, err := Parse(wire.HostPi, wire.RoleDecide, []byte(payload)); !errors.Is(err, strictjson.ErrMalformed) {
			t.Errorf("%s in capitals: %v", key, err)
		}
	}
}

// FuzzParsePi: whatever comes is parsed as another parser reads it or refused, and
// nothing but a pass of a call that was parsed is rendered as one.
func FuzzParsePi(f *testing.F) {
	for _, s := range []string{piBash, piRead, `{"hook_event_name":"session_shutdown","session_id":"p","reason":"quit"}`, strings.Replace(piRead, `"a"`, `"@~/x"`, 1), piBash + "}"} {
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, payload []byte, decide bool) {
		role := wire.RoleObserve
		if decide {
			role = wire.RoleDecide
		}
		ev, err := Parse(wire.HostPi, role, payload)
		for _, v := range everyVerdict {
			r := Render(wire.HostPi, role, ev, v)
			passes := strings.HasPrefix(string(r.Out), `{"pass":true`)
			if passes && (err != nil || !decide || v.Kind != verdict.Pass || ev.Kind != ToolCall) || decide && passes != (r.Exit == 0) {
				t.Fatalf("%+v of %+v is rendered as status %d %s", v, ev, r.Exit, r.Out)
			}
			if decide && !json.Valid(r.Out) {
				t.Fatalf("%q", r.Out)
			}
		}
		if err != nil {
			return
		}
		var other map[string]json.RawMessage
		if err := json.Unmarshal(payload, &other); err != nil {
			t.Fatalf("encoding/json refuses it: %v", err)
		}
		var name string
		if err := json.Unmarshal(other[keyEvent], &name); err != nil || name != ev.Name {
			t.Fatalf("event %q, encoding/json has %q, %v", ev.Name, name, err)
		}
		for _, p := range ev.Reads {
			if len(ev.Cwd) > 0 && ev.Cwd[0] == '/' && p[0] != '/' {
				t.Fatalf("%q is no absolute path", p)
			}
		}
	})
}
