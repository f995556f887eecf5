//go:build hosts

package hosts

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// passGate writes down what the gate is told, and passes.
const passGate = `echo "$5 $(cat)" >> LOG; case "$*" in *observe*) exit 0;; esac; printf '{"pass":true,"context":"guard: \"app-01\" can be rewound"}'`

// What the gate is told of each of Pi's events, and what becomes of its answers.
func TestPiEvents(t *testing.T) {
	t.Parallel()
	event := func(name string, arg object) object { return object{"event": name, "arg": arg} }
	nested := toolCall("grep", object{"pattern": "é\u2028\"", "list": []any{1, nil, true, object{}}})
	nested["arg"].(object)["parentToolCallId"] = "c0"
	s := newStage(t, passGate)
	answers := s.play(load,
		event("session_start", object{"reason": "startup"}),
		toolCall("bash", object{"command": "id"}), bashRan, bashRan, nested,
		event("user_bash", object{"command": "id", "excludeFromContext": false}),
		event("session_before_compact", object{"reason": "threshold", "willRetry": true}), event("session_compact", object{}),
		event("session_before_switch", object{"reason": "new"}), event("session_before_fork", object{"entryId": "e"}), event("session_tree", object{}),
		event("session_shutdown", object{"reason": "quit"}),
	)
	for i, a := range answers {
		if i != 0 && i != 3 && !a.passed() {
			t.Errorf("step %d came to %s", i, a.raw)
		}
	}
	if c := answers[3].Content; len(c) != 2 || c[0].Text != "uid" || c[1].Text != `guard: "app-01" can be rewound` {
		t.Errorf("the model is told %s", answers[3].raw)
	}
	const every = `"session_id":"p1","cwd":"/project","mode":"rpc","home":"/home/u"`
	want := []string{
		`observe {"hook_event_name":"session_start",` + every + `,"source":"startup"}`,
		`decide {"hook_event_name":"tool_call",` + every + `,"tool_name":"bash","tool_use_id":"c1","tool_input":{"command":"id"}}`,
		`observe {"hook_event_name":"tool_result",` + every + `,"tool_name":"bash","tool_use_id":"c1","duration_ms":N,"tool_input":{"command":"id"}}`,
		`observe {"hook_event_name":"tool_result",` + every + `,"tool_name":"bash","tool_use_id":"c1","duration_ms":N,"tool_input":{"command":"id"}}`,
		`decide {"hook_event_name":"tool_call",` + every + `,"tool_name":"grep","tool_use_id":"c1","parent_tool_use_id":"c0","tool_input":{"list":[1,null,true,{}],"pattern":"é` + "\u2028" + `\""}}`,
		`decide {"hook_event_name":"user_bash",` + every + `,"tool_name":"user_bash","tool_input":{"command":"id"}}`,
		`observe {"hook_event_name":"session_before_compact",` + every + `,"reason":"threshold"}`,
		`observe {"hook_event_name":"session_compact",` + every + `}`,
		`observe {"hook_event_name":"session_before_switch",` + every + `,"reason":"new"}`,
		`observe {"hook_event_name":"session_before_fork",` + every + `}`,
		`observe {"hook_event_name":"session_tree",` + every + `}`,
		`observe {"hook_event_name":"session_shutdown",` + every + `,"reason":"quit"}`,
	}
	got := s.log()
	for i, line := range got {
		if before, after, found := strings.Cut(line, `"duration_ms":`); found {
			_, after, _ = strings.Cut(after, ",")
			got[i] = before + `"duration_ms":N,` + after
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the gate was told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A person's shell line is refused in the form that Pi takes for its result.
func TestPiUserBashRefused(t *testing.T) {
	t.Parallel()
	line := object{"event": "user_bash", "arg": object{"command": "id"}}
	answers := newStage(t, observed("echo 'guard: lease_unverified: x' >&2; exit 2")).play(load, line, become("exit 1"), line,
		object{"run": "const fs = require('fs'); fs.rmSync(JSON.parse(process.env.GUARD_PI).gate)"}, line, object{"event": "user_bash", "arg": object{"command": object{"a": 1}}})
	for i, want := range map[int]string{1: "guard: lease_unverified: x", 3: "guard: internal: ", 5: "guard: broker_unavailable: ", 6: "guard: "} {
		if r := answers[i].Result; !strings.HasPrefix(r.Output, want) || r.ExitCode != 126 {
			t.Errorf("step %d: %s, want %q", i, answers[i].raw, want)
		}
	}
}

// An input that could be another one when it runs, or that no JSON can tell, is
// never asked about; and what was judged can't be changed afterwards.
func TestPiInputs(t *testing.T) {
	t.Parallel()
	inputs := map[string]string{
		"a getter": `{ get command() { return "id" } }`, "hidden": `Object.defineProperty({}, "command", { value: "id", enumerable: false })`,
		"a proxy": `new Proxy({ command: "id" }, {})`, "a proxy below": `{ a: new Proxy({}, {}) }`, "a function": `{ command: () => {} }`, "toJSON": `{ command: "rm", toJSON: () => ({ command: "ls" }) }`,
		"a class": `new (class { command = "id" })()`, "a date": `{ at: new Date(0) }`, "a symbol": `{ [Symbol("x")]: 1 }`, "bigint": `{ n: 1n }`, "NaN": `{ n: NaN }`,
		"gaps": `{ l: [1, , 2] }`, "a list with a name": `{ l: Object.assign([1], { x: 2 }) }`, "a list": `["id"]`, "a text": `"id"`, "nothing": `undefined`, "null": `null`,
		"itself": `(() => { const a = {}; a.a = a; return a })()`, "a map": `{ m: new Map([[1, 2]]) }`, "bytes": `{ b: new Uint8Array([1]) }`,
	}
	s := newStage(t, passGate)
	var names []string
	steps := []any{load}
	for name, input := range inputs {
		names = append(names, name)
		steps = append(steps, object{"event": "tool_call", "arg": `{ toolName: "bash", toolCallId: "c1", input: ` + input + ` }`})
	}
	for i, a := range s.play(steps...)[1:] {
		blocked(t, a, "guard: internal: ")
		if !a.Block {
			t.Error(names[i])
		}
	}
	if asked := s.log(); len(asked) != 0 {
		t.Errorf("the gate was asked: %q", asked)
	}
	deep := toolCall("bash", object{"command": "id", "env": object{"A": "1"}, "list": []any{object{"x": 1}}})
	answers := s.play(load, deep, object{"run": `"use strict"; const changed = []; for (const f of [
		() => { arg.input.command = "rm"; }, () => { delete arg.input.command; }, () => { arg.input.more = 1; }, () => { arg.input.env.A = "2"; },
		() => { arg.input.list[0].x = 2; }, () => { arg.input.list.push(1); }, () => { Object.setPrototypeOf(arg.input, { timeout: 1 }); },
	]) { try { f(); changed.push(String(f)); } catch {} } return changed.join()`})
	if answers[2].raw != `""` {
		t.Errorf("changed after it was judged: %s", answers[2].raw)
	}
}

// Large inputs get through whole, and a gate that doesn't read them harms nobody.
func TestPiLargeInput(t *testing.T) {
	t.Parallel()
	large := object{"event": "tool_call", "arg": "{ toolName: 'write', toolCallId: 'c1', input: { content: 'é'.repeat(1 << 20) } }"}
	answers := newStage(t, `[ $(wc -c) -gt 2097152 ] && printf '{"pass":true}'`).play(load, large, become("echo no >&2; exit 2"), large, become("exec sleep 0"), large)
	if !answers[1].passed() {
		t.Errorf("read whole: %s", answers[1].raw)
	}
	blocked(t, answers[3], "no")
	blocked(t, answers[5], "no pass")
}

// Calls beside each other are told apart, to the context that each has.
func TestPiCallsAtOnce(t *testing.T) {
	t.Parallel()
	const gate = `in=$(cat); case "$*" in *observe*) exit 0;; esac; id=${in##*tool_use_id\":\"}; id=${id%%\"*}
case $id in *[02468]) printf '{"pass":true,"context":"for %s"}' $id;; *) echo "not $id" >&2; exit 2;; esac`
	var calls, results []any
	for i := range 32 {
		id := "c" + strconv.Itoa(i)
		call := toolCall("bash", object{"command": "id"})
		call["arg"].(object)["toolCallId"] = id
		calls = append(calls, call)
		results = append(results, object{"event": "tool_result", "arg": object{"toolName": "bash", "toolCallId": id, "input": object{"command": "id"}, "content": []any{}}})
	}
	answers := newStage(t, strings.ReplaceAll(gate, `\\`, `\`)).play(load, object{"at_once": calls}, object{"at_once": results})
	for i := range 32 {
		passed, id := i%2 == 0, "c"+strconv.Itoa(i)
		if strings.Contains(answers[1].raw, `"not `+id+`"`) == passed || strings.Contains(answers[2].raw, `"for `+id+`"`) != passed {
			t.Errorf("call %s: %s\n%s", id, answers[1].raw, answers[2].raw)
		}
	}
}

// A handler that fails is a block, and in its session's last moments too.
func TestPiHandlerFails(t *testing.T) {
	t.Parallel()
	call, line := toolCall("read", object{"path": "a"}), object{"event": "user_bash", "arg": object{"command": "id"}}
	a := newStage(t, passGate).play(load, object{"run": `globalThis.stale = () => { throw new Error("stale") }`}, call, line,
		object{"run": `globalThis.stale = () => { throw undefined }`}, call, line,
		object{"run": `globalThis.stale = undefined; pi.getAllTools = () => { throw new Error("stale") }`}, call)
	for _, i := range []int{2, 5, 8} {
		blocked(t, a[i], "guard: internal: ")
	}
	for _, i := range []int{3, 6} {
		if a[i].Result.ExitCode != 126 {
			t.Errorf("a person's line came to %s", a[i].raw)
		}
	}
}

// A tool that has the name of one of Pi's that read, and isn't it, is blocked.
func TestPiPosedTool(t *testing.T) {
	t.Parallel()
	answers := newStage(t, passGate).play(load, toolCall("read", object{"path": "a"}), object{"run": `globalThis.posed = "read"`}, toolCall("read", object{"path": "a"}), toolCall("find", object{}))
	if !answers[1].passed() {
		t.Errorf("Pi's own read: %s", answers[1].raw)
	}
	blocked(t, answers[3], "another extension")
	blocked(t, answers[4], "another extension") // there is none of that name
}

// TestPiSpoiledProcess: code that spoils the process's own objects after
// the extension was loaded turns no block into a pass, and no input into another.
func TestPiSpoiledProcess(t *testing.T) {
	t.Parallel()
	for i, spoils := range [][]string{
		{
			`Object.prototype.pass = true; Object.prototype.context = "x"; Object.prototype.out = '{"pass":true}'; Object.prototype.status = 0; Object.prototype.why = ""`,          // answers inherited
			`Object.prototype.shell = "/bin/true"; Object.prototype.detached = true; Object.prototype.env = { A: "1" }; Object.prototype.argv0 = "x"; Object.prototype.timeout = 1`, // options inherited
			`Object.prototype.toJSON = () => ({ command: "ls" }); Array.prototype.toJSON = () => []`,                                                                                // toJSON
			`process.env.GUARD_PI = '{"gate":"/bin/true","args":["pi"],"deadline":1,"guard":"/bin/true","server":""}'`,                                                              // the settings
			`for (const k of ["block", "reason", "failed", "result"]) Object.defineProperty(Object.prototype, k, { get: () => undefined, set() {}, configurable: true })`,           // blocks inherited
		},
		{
			`JSON.parse = () => ({ pass: true }); JSON.stringify = () => '{"command":"ls"}'`,                                                                             // what parses
			`require("child_process").spawn = () => { throw new Error("spawned elsewhere") }; require("module").syncBuiltinESMExports()`,                                 // what starts
			`String.prototype.trim = () => ""; String.prototype.slice = () => '{"pass":true}'; Buffer.prototype.toString = () => '{"pass":true}'`,                        // texts
			`Array.prototype.push = function () { return 0 }; Array.prototype.join = () => '"command":"ls"'`,                                                             // lists
			`Object.freeze = (x) => x; Object.hasOwn = () => true; Reflect.ownKeys = () => []; Object.getOwnPropertyDescriptor = () => ({ value: 1, enumerable: true })`, // objects
			`Buffer.concat = () => '{"pass":true}'; process.exit = () => {}`,                                                                                             // buffers
		},
		{
			`globalThis.setTimeout = (f) => f(); globalThis.clearTimeout = () => {}; globalThis.Promise = class { then(f) { f() } }`, // timers and promises
		},
		{
			`Object.prototype.then = function (f) { f(undefined) }`, // thenable
		},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			call := toolCall("bash", object{"command": "rm"})
			s := newStage(t, strings.Replace(passGate, "printf", "echo 'guard: lease_revoked: x' >&2; exit 2; printf", 1))
			steps := []any{load}
			for _, code := range spoils { // one after the other, so that each meets what the others left
				steps = append(steps, object{"run": code}, call)
			}
			answers := s.play(steps...)
			for i := 2; i < len(answers); i += 2 {
				if !strings.Contains(answers[i].raw, `"block":true`) {
					t.Errorf("step %d passed: %s", i, answers[i].raw)
				}
			}
			log := s.log()
			for _, line := range log {
				if !strings.Contains(line, `"tool_input":{"command":"rm"}`) {
					t.Errorf("the gate was told %s", line)
				}
			}
			if len(answers) != len(steps) || len(log) != len(spoils) {
				t.Errorf("%d answers, and the gate was asked %d times", len(answers), len(log))
			}
		})
	}
}
