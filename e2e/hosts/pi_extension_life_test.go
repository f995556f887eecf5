//go:build hosts

package hosts

import (
	"os"
	"strings"
	"sync"
	"testing"
)

// What the gate could not be told comes first when it can be again; until then
// nothing passes.
func TestPiOwedEvent(t *testing.T) {
	t.Parallel()
	s := newStage(t, passGate)
	call := toolCall("bash", object{"command": "id"})
	answers := s.play(load, become("exit 1"), object{"event": "session_before_compact", "arg": object{"reason": "manual"}}, call,
		become("case \"$*\" in *observe*) exit 1;; esac; printf '{\"pass\":true}'"), call,
		become(strings.ReplaceAll(passGate, "LOG", s.dir+"/log")), call, call)
	blocked(t, answers[3], "what happened before")
	blocked(t, answers[5], "what happened before")
	if !answers[7].passed() || !answers[8].passed() {
		t.Errorf("after it was told: %s", answers[7].raw)
	}
	if log := s.log(); len(log) != 3 || !strings.Contains(log[0], "session_before_compact") {
		t.Errorf("the gate was told %q", log)
	}
}

// What is about to be loaded again makes sure that it will be: Pi would go on
// without it.
func TestPiComesBack(t *testing.T) {
	t.Parallel()
	down := object{"event": "session_shutdown", "arg": object{"reason": "new"}}
	for name, code := range map[string]string{
		"deleted": `require("fs").rmSync(process.argv[3])`, "changed": `require("fs").appendFileSync(process.argv[3], "//")`,
		"replaced": `const fs = require("fs"); fs.rmSync(process.argv[3]); fs.writeFileSync(process.argv[3], "export default () => {}")`,
		"unread":   `process.getBuiltinModule("fs").chmodSync(process.argv[3], 0)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, passGate)
			if answers := s.play(load, object{"run": code}, down, load); len(answers) != 2 || s.exit != 1 {
				t.Errorf("Pi went on: %d steps, status %d", len(answers), s.exit)
			}
		})
	}
	t.Run("in time", func(t *testing.T) { // both at once: they mostly wait
		t.Parallel()
		wait := func(ms string) object { return object{"run": "return new Promise((r) => setTimeout(r, " + ms + "))"} }
		back, away := newStage(t, passGate), newStage(t, passGate)
		var both sync.WaitGroup
		both.Go(func() {
			if answers := back.play(load, down, load, wait("11000"), toolCall("bash", object{"command": "id"})); len(answers) != 5 || !answers[4].passed() || back.exit != 0 {
				t.Errorf("loaded again: %d steps, status %d", len(answers), back.exit)
			}
		})
		both.Go(func() {
			if answers := away.play(load, down, wait("60000")); len(answers) != 2 || away.exit != 1 {
				t.Errorf("not loaded again: %d steps, status %d", len(answers), away.exit)
			}
		})
		both.Wait()
	})
}

// The recovery tool as the extension offers it, against a server of fixed lines.
func TestPiRecoveryTool(t *testing.T) {
	t.Parallel()
	const name = "guard_0123456789abcdef_recover"
	server := `echo "$* env $(env | grep -c SECRET) $HOME" >> LOG
read a; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; read b; read c
echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"recover","description":"Gets it back.","inputSchema":{"type":"object","properties":{}}}]}}'
n=3; while read line; do echo "$line" >> LOG; case $line in
*begin*) echo '{"jsonrpc":"2.0","id":'$n',"result":{"content":[{"type":"text","text":"granted"}]}}';;
*refuse*) echo '{"jsonrpc":"2.0","id":'$n',"result":{"isError":true,"content":[{"type":"text","text":"guard: refused"}]}}';;
*error*) echo '{"jsonrpc":"2.0","id":'$n',"error":{"code":1,"message":"no such tool"}}';;
*garbage*) echo 'garbage';;
*end*) exit 0;; esac; n=$((n+1)); done`
	tool := func(token string) object { return object{"tool": name, "arg": object{"token": token}} }
	s := newStage(t, passGate)
	must(t, os.WriteFile(s.dir+"/guard", []byte("#!/bin/sh\n"+strings.ReplaceAll(server, "LOG", s.dir+"/server")), 0o755))
	s.with["server"], s.with["guard"], s.with["env"] = "0123456789abcdef", s.dir+"/guard", object{"HOME": "/home/g", "PATH": "/usr/bin:/bin"}
	s.env = []string{"SECRET=1"}
	answers := s.play(load, tool("begin"), load, tool("begin"), tool("refuse"), tool("error"), tool("garbage"), tool("begin"), tool("end"),
		object{"at_once": []any{tool("begin"), tool("begin")}})
	want := []string{`"loaded"`, "granted", `"loaded"`, "granted", "guard: refused", "no such tool", "no JSON", "granted", "has ended", "granted"}
	for i, a := range answers {
		if !strings.Contains(a.raw, want[i]) {
			t.Errorf("step %d: %s, want %q", i, a.raw, want[i])
		}
	}
	log, err := os.ReadFile(s.dir + "/server")
	must(t, err)
	if started := strings.Count(string(log), "mcp --server guard-0123456789abcdef env 0 /home/g\n"); started != 3 {
		t.Errorf("the server was started %d times, want once and again after each of two ends:\n%s", started, log)
	}
}
