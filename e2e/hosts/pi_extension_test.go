//go:build hosts

package hosts

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

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
