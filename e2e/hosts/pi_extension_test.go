//go:build hosts

package hosts

import (
	"bytes"
	"context"
	_ "embed" // for the harness
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	host "leaseguard.internal/launcher/runtime"
)

//go:embed testdata/pi_harness.mjs
var piHarness string

// stage is guard's extension alone, under the pinned node, as the loader of the
// pinned Pi loads it; Pi is played, and its gate is a shell script.
type stage struct {
	t         *testing.T
	dir, gate string
	with      object // over the defaults of GUARD_PI
	env       []string
	exit      int // of the played Pi
}

func newStage(t *testing.T, gate string) *stage {
	t.Helper()
	dir, err := os.MkdirTemp("", "x")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &stage{t: t, dir: dir, gate: filepath.Join(dir, "gate"), with: object{}}
	must(t, os.WriteFile(s.extension(), host.PiExtension, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "harness.mjs"), []byte(piHarness), 0o644))
	if gate != "" {
		must(t, os.WriteFile(s.gate, []byte("#!/bin/sh\n"+strings.ReplaceAll(gate, "LOG", filepath.Join(dir, "log"))), 0o755))
	}
	return s
}

func (s *stage) extension() string { return filepath.Join(s.dir, "guard.js") }

// log is what the gate has written down, line by line.
func (s *stage) log() []string {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// answer is what a step came to: nothing, which lets a call pass, or more.
type answer struct {
	Block   bool   `json:"block"`
	Reason  string `json:"reason"`
	Threw   string `json:"threw"`
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	Result struct {
		Output   string `json:"output"`
		ExitCode int    `json:"exitCode"`
	} `json:"result"`
	raw string
}

func (a answer) passed() bool { return a.raw == "null" }

// settings are what the launcher puts into GUARD_PI.
func (s *stage) settings() object {
	all := object{"gate": s.gate, "args": []string{"pi", "--socket", "/s"}, "deadline": 20, "guard": "/bin/false", "server": ""}
	for k, v := range s.with {
		all[k] = v
	}
	return all
}

// play carries steps out and returns what came of each, as far as Pi lived.
func (s *stage) play(steps ...any) (answers []answer) {
	s.t.Helper()
	jiti := filepath.Join(filepath.Dir(piScript), "../../../../jiti/lib/jiti.mjs")
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, piNode, filepath.Join(s.dir, "harness.mjs"), jiti, s.extension(), string(toJSON(s.t, steps)))
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=/home/u", "JITI_FS_CACHE=false", "GUARD_PI=" + string(toJSON(s.t, s.settings()))}, s.env...)
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	s.exit = cmd.ProcessState.ExitCode()
	for _, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		if line == "" {
			continue
		}
		a := answer{raw: line}
		if line[0] == '{' {
			must(s.t, json.Unmarshal([]byte(line), &a, lenient))
		}
		answers = append(answers, a)
	}
	if len(answers) == 0 {
		s.t.Fatalf("the played Pi said nothing: %v\n%s", err, errs.String())
	}
	return answers
}

var (
	load    = object{"load": true}
	bashRan = object{"event": "tool_result", "arg": object{"toolName": "bash", "toolCallId": "c1", "input": object{"command": "id"}, "content": []any{object{"type": "text", "text": "uid"}}}}
)

func toolCall(tool string, input any) object {
	return object{"event": "tool_call", "arg": object{"toolName": tool, "toolCallId": "c1", "input": input}}
}

// judge asks about one call, with steps before it, after the extension was loaded.
func (s *stage) judge(before ...any) answer {
	s.t.Helper()
	answers := s.play(append(append([]any{load}, before...), toolCall("bash", object{"command": "id"}))...)
	if answers[0].raw != `"loaded"` {
		s.t.Fatalf("not loaded: %s", answers[0].raw)
	}
	return answers[len(answers)-1]
}

// observed is a gate that takes what it is told and answers calls with the rest.
func observed(gate string) string {
	return "cat >/dev/null; case \"$*\" in *observe*) exit 0;; esac\n" + gate
}

// TestF3_PiGateFails, with F5 below: whatever a gate does but pass in full, the
// call is blocked, and the model is told why.
func TestF3_PiGateFails(t *testing.T) {
	t.Parallel()
	const pass = `printf '{"pass":true}'`
	gates := map[string]struct{ gate, told string }{
		"exit 1":                {"exit 1", "internal"},
		"exit 1 after a pass":   {pass + "; exit 1", "internal"},
		"exit 2 in silence":     {"exit 2", "internal"},
		"exit 2 after a pass":   {pass + "; echo no >&2; exit 2", "no"},
		"exit 2 with a reason":  {"echo 'guard: deadline: x' >&2; exit 2", "deadline"},
		"exit 255":              {"exit 255", "internal"},
		"silence":               {"exit 0", "internal"},
		"killed":                {"kill -9 $$", "internal"},
		"killed after a pass":   {pass + "; kill -9 $$", "internal"},
		"garbage":               {"echo garbage", "internal"},
		"half an object":        {`printf '{"pass":tr'`, "internal"},
		"another host's pass":   {`printf '{}'`, "internal"},
		"a block with status 0": {`printf '{"block":true,"reason":"x"}'`, "internal"},
		"not true":              {`printf '{"pass":"true"}'`, "internal"},
		"one":                   {`printf '{"pass":1}'`, "internal"},
		"pass and block":        {`printf '{"pass":true,"block":true}'`, "internal"},
		"a list":                {`printf '[{"pass":true}]'`, "internal"},
		"null":                  {`printf null`, "internal"},
		"a context that isn't":  {`printf '{"pass":true,"context":1}'`, "internal"},
		"a context of another":  {`printf '{"__proto__":{"context":"x"},"pass":true}'`, "internal"},
		"too much":              {`head -c 300000 /dev/zero`, "internal"},
		"too much on stderr":    {pass + `; head -c 300000 /dev/zero >&2`, "internal"},
		"endless":               {`cat /dev/zero`, "internal"},
		"no program":            {"", "internal"},
	}
	var names []string
	steps := []any{load}
	for name, tc := range gates {
		names = append(names, name)
		steps = append(steps, become(observed(tc.gate)), toolCall("bash", object{"command": "id"}))
	}
	fs := func(code string) object {
		return object{"run": `const fs = require("fs"), gate = JSON.parse(process.env.GUARD_PI).gate; ` + code}
	}
	call := toolCall("bash", object{"command": "id"})
	steps = append(steps, become(observed(pass)), call, fs("fs.chmodSync(gate, 0o644)"), call, fs("fs.rmSync(gate)"), call, fs("fs.mkdirSync(gate)"), call)
	answers := newStage(t, observed(pass)).play(steps...)
	if len(answers) != len(steps) {
		t.Fatalf("%d answers to %d steps", len(answers), len(steps))
	}
	for i, name := range names {
		t.Run(name, func(t *testing.T) { blocked(t, answers[2+2*i], gates[name].told) })
	}
	rest := answers[len(answers)-8:]
	if !rest[1].passed() {
		t.Fatalf("without a fault: %s", rest[1].raw)
	}
	for i, name := range []string{"not executable", "missing", "a directory"} {
		t.Run(name, func(t *testing.T) { blocked(t, rest[3+2*i], "broker_unavailable") })
	}
}

// become puts another gate in the place of the one that was there.
func become(gate string) object {
	code := `const fs = require("fs"), gate = JSON.parse(process.env.GUARD_PI).gate; fs.rmSync(gate); fs.writeFileSync(gate, arguments_, { mode: 0o755 })`
	return object{"run": strings.ReplaceAll(code, "arguments_", strconv.Quote("#!/bin/sh\n"+gate))}
}

// TestF5_PiNoise: a pass with anything around it is none.
func TestF5_PiNoise(t *testing.T) {
	t.Parallel()
	const pass = `{"pass":true}`
	noise := map[string]string{
		"before": "loading rules...\n" + pass, "a line after": pass + "\n", "two objects": pass + pass, "two lines": pass + "\n" + pass,
		"a mark": "\xef\xbb\xbf" + pass, "NUL": pass + "\x00", "blanks": `{ "pass": true }`, "a key twice": `{"pass":true,"pass":true}`,
		"another order": `{"context":"x","pass":true}`, "one key more": `{"pass":true,"context":"x","more":1}`, "an escape": `{"p\u0061ss":true}`,
	}
	s := newStage(t, "")
	must(t, os.WriteFile(s.gate, []byte("#!/bin/sh\n"+observed("cat "+s.dir+"/text")), 0o755))
	var names []string
	steps := []any{load}
	for name, text := range noise {
		names = append(names, name)
		steps = append(steps, object{"run": `require("fs").writeFileSync("` + s.dir + `/text", ` + strconv.QuoteToASCII(text) + `)`}, toolCall("bash", object{}))
	}
	answers := s.play(steps...)
	for i, name := range names {
		t.Run(name, func(t *testing.T) { blocked(t, answers[2+2*i], "no pass") })
	}
}

func blocked(t *testing.T, a answer, told string) {
	t.Helper()
	if !a.Block || !strings.Contains(a.Reason, told) || len(a.Reason) > 1100 {
		t.Errorf("not blocked, or without a word of %q: %s", told, a.raw)
	}
}

// TestF3_PiGateHangs: a gate that doesn't answer, and one that leaves somebody
// behind who holds its output, block when their time is over, and Pi, which has
// nothing else to do, doesn't end meanwhile.
func TestF3_PiGateHangs(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for name, gate := range map[string]string{
		"silence": "exec sleep 60", "after a pass": `printf '{"pass":true}'; exec sleep 60`, "a child of it": `sleep 60 & printf '{"pass":true}'; exit 0`,
		"deaf to signals": `trap '' TERM INT HUP; exec sleep 60`,
	} {
		s := newStage(t, observed(gate))
		s.with["deadline"] = 1
		all.Go(func() {
			if a := s.judge(); !a.Block || !strings.Contains(a.Reason, "guard: deadline: ") {
				t.Errorf("%s: %s", name, a.raw)
			}
		})
	}
	all.Wait()
}

// A call that its user gives up is blocked at once.
func TestPiCallAborted(t *testing.T) {
	t.Parallel()
	s := newStage(t, observed("exec sleep 60"))
	a := s.judge(object{"run": "const c = new AbortController(); globalThis.signal = c.signal; setTimeout(() => c.abort(), 200)"})
	blocked(t, a, "aborted")
}

// Without all that it needs the extension isn't loaded, and Pi doesn't start.
func TestPiSettings(t *testing.T) {
	t.Parallel()
	table := map[string]struct {
		env  string // in place of the whole variable
		with object
		told string
	}{
		"empty":            {env: "GUARD_PI=", told: "no JSON"},
		"no JSON":          {env: "GUARD_PI={", told: "no JSON"},
		"null":             {env: "GUARD_PI=null", told: "no JSON object"},
		"a list":           {env: "GUARD_PI=[]", told: "no JSON object"},
		"nothing in it":    {env: "GUARD_PI={}", told: "gate"},
		"cached":           {env: "JITI_FS_CACHE=true", told: "cache"},
		"gate relative":    {with: object{"gate": "guard-gate"}, told: "gate"},
		"gate a list":      {with: object{"gate": []string{"/x"}}, told: "gate"},
		"gate with NUL":    {with: object{"gate": "/x\x00y"}, told: "gate"},
		"guard missing":    {with: object{"guard": nil}, told: "guard"},
		"args of another":  {with: object{"args": []string{"claude"}}, told: "args"},
		"args a text":      {with: object{"args": "pi"}, told: "args"},
		"args no texts":    {with: object{"args": []any{"pi", 1}}, told: "args"},
		"deadline zero":    {with: object{"deadline": 0}, told: "deadline"},
		"deadline long":    {with: object{"deadline": 571}, told: "deadline"},
		"deadline in part": {with: object{"deadline": 1.5}, told: "deadline"},
		"deadline a text":  {with: object{"deadline": "20"}, told: "deadline"},
		"server of a path": {with: object{"server": "../0123456789abc"}, told: "server"},
		"server and more":  {with: object{"server": "0123456789abcdef\n"}, told: "server"},
		"server a list":    {with: object{"server": []string{}}, told: "server"},
		"env a list":       {with: object{"env": []string{}}, told: "env"},
		"env of numbers":   {with: object{"env": object{"A": 1}}, told: "env"},
		"recovery fails":   {with: object{"server": "0123456789abcdef"}, told: "recovery tool"},
	}
	s := newStage(t, observed("exit 1"))
	var names []string
	var steps []any
	for name, tc := range table {
		names = append(names, name)
		env, value, whole := strings.Cut(tc.env, "=")
		if !whole {
			given := s.settings()
			for k, v := range tc.with {
				given[k] = v
			}
			env, value = "GUARD_PI", string(toJSON(t, given))
		}
		steps = append(steps, object{"run": fmt.Sprintf("process.env[%q] = %s; process.env.JITI_FS_CACHE ??= 'false'", env, strconv.QuoteToASCII(value))}, load,
			object{"run": "process.env.JITI_FS_CACHE = 'false'"})
	}
	answers := s.play(steps...)
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			if a := answers[1+3*i]; !strings.Contains(a.Threw, table[name].told) {
				t.Errorf("loaded, or without a word of %q: %s", table[name].told, a.raw)
			}
		})
	}
}
