package hookrun

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"leaseguard.internal/internal/wire"
)

// stubborn is a grandchild that outlives its parent, ignores SIGTERM, has left
// the group and the session, and holds the hook's output.
const stubborn = `(setsid sh -c 'trap "" TERM HUP INT; echo $$ > "$1.tmp"; mv "$1.tmp" "$1"; while :; do sleep 1; done' sh "$1" &)
while [ ! -e "$1" ]; do sleep 0.01; done
`

// TestM33_W5_Grandchild: the grandchild of a hook is dead within 3 s of the
// timeout, however the hook itself ends; a hook that exits with status 2 has
// denied all the same.
func TestM33_W5_Grandchild(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		then   string
		status wire.HookStatus
		reason string
	}{
		"root exits with status 2":                 {"echo no >&2; exit 2", wire.HookDenied, "no"},
		"root exits with status 0":                 {"exit 0", wire.HookFailed, "holds its output"},
		"root denies in JSON":                      {`echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny"}}'`, wire.HookDenied, "denied this"},
		"root hangs":                               {"sleep 100", wire.HookFailed, "1000 ms"},
		"root ignores SIGTERM":                     {`trap "" TERM; while :; do sleep 1; done`, wire.HookFailed, "1000 ms"},
		"root denies when it is told to end":       {`trap "echo late >&2; exit 2" TERM; while :; do sleep 0.01; done`, wire.HookDenied, "late"},
		"root passes when it is told to end":       {`trap "exit 0" TERM; while :; do sleep 0.01; done`, wire.HookFailed, "1000 ms"},
		"root has stopped itself":                  {`kill -STOP $$`, wire.HookFailed, "1000 ms"},
		"root exits, and the grandchild is silent": {"exit 2", wire.HookDenied, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid := t.TempDir() + "/pid"
			h := script(t, stubborn+tc.then)
			h.Args, h.TimeoutMS = []string{pid}, 1000
			r := start(t)
			r.send(wire.HookJob{Hooks: []wire.Hook{h}}, line)
			got := r.results()[0]
			if alive(number(t, pid)) {
				t.Error("the grandchild lives")
			}
			want(t, got, tc.status, tc.reason)
			if took := time.Duration(got.DurationUS) * time.Microsecond; took > 4*time.Second {
				t.Errorf("it took %v", took)
			}
			r.answer(pass)
		})
	}
}

// TestM34_OutputAfterTheRoot: what a hook has left running may still write for a
// while, and then counts.
func TestM34_OutputAfterTheRoot(t *testing.T) {
	t.Parallel()
	h := script(t, `(sleep 0.2; echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"from behind"}}') &`)
	want(t, run(t, h)[0], wire.HookDenied, "from behind")
}

// A hook's end takes nothing from another that still runs, even where that has
// orphans of its own.
func TestOneUnitForEachHook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := script(t, stubborn+"sleep 100")
	bad.Args, bad.TimeoutMS = []string{dir + "/bad"}, 300
	good := script(t, `(setsid sh -c 'echo $$ > "$1.tmp"; mv "$1.tmp" "$1"; while [ ! -e "$1.go" ]; do sleep 0.01; done; echo ok > "$1.done"' sh "$1" &)
		while [ ! -e "$2.dead" ]; do sleep 0.01; done
		touch "$1.go"; while [ ! -e "$1.done" ]; do sleep 0.01; done; echo orphan lived >&2; exit 2`)
	good.Args = []string{dir + "/good", dir + "/bad"}
	r := start(t)
	r.send(wire.HookJob{Hooks: []wire.Hook{bad, good}}, line)
	pid, orphan := number(t, dir+"/bad"), number(t, dir+"/good")
	for end := time.Now().Add(20 * time.Second); alive(pid) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if alive(pid) || !alive(orphan) {
		t.Errorf("the late hook's grandchild lives: %v; the other's: %v", alive(pid), alive(orphan))
	}
	if err := os.WriteFile(dir+"/bad.dead", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	res := r.results()
	want(t, res[0], wire.HookFailed, "300 ms")
	want(t, res[1], wire.HookDenied, "orphan lived")
	r.answer(pass)
}

// TestW8_TotalTimeIsBounded: as many slow hooks as a call can meet take no longer
// than all together may.
func TestW8_TotalTimeIsBounded(t *testing.T) {
	t.Parallel()
	h := script(t, `sleep 100`)
	h.TimeoutMS = 30_000
	hooks := make([]wire.Hook, 256)
	for i := range hooks {
		hooks[i] = h
	}
	r := start(t)
	r.send(wire.HookJob{Hooks: hooks, TotalMS: 400}, line)
	for _, res := range r.results() {
		want(t, res, wire.HookFailed, "400 ms")
	}
	r.answer(pass)
}

// TestM35_Abort: whatever tells that the call is over ends what runs, and no
// result counts any more.
func TestM35_Abort(t *testing.T) {
	t.Parallel()
	early := wire.Reply{Kind: wire.KindAnswer, Exit: 2, Out: []byte(`{"early":1}`), Err: []byte("early\n")}
	for name, abort := range map[string]func(*runner){
		"the broker hangs up":      func(r *runner) { _ = r.conn.Close() },
		"the host ends the gate":   func(r *runner) { _ = r.cmd.Process.Signal(syscall.SIGTERM) },
		"a person interrupts it":   func(r *runner) { _ = r.cmd.Process.Signal(syscall.SIGINT) },
		"the broker answers":       func(r *runner) { r.answer(early) },
		"the broker sends rubbish": func(r *runner) { _, _ = r.conn.Write([]byte("HTTP/1.1 200 OK\r\n\r\n{}....")) },
	} {
		for _, n := range []int{1, 2} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				pid := t.TempDir() + "/pid"
				h := script(t, stubborn+"sleep 100")
				h.Args = []string{pid}
				hooks := []wire.Hook{h, script(t, "exit 0")}[:n]
				r := start(t)
				r.send(wire.HookJob{Hooks: hooks}, line)
				grandchild := number(t, pid)
				abort(r)
				if status := r.wait(); status != exitDeny || r.out.Len() == 0 || r.err.Len() == 0 {
					t.Errorf("status %d, out %q, err %q", status, r.out.String(), r.err.String())
				}
				if strings.Contains(name, "answers") && r.out.String() != `{"early":1}` {
					t.Errorf("out %q", r.out.String())
				}
				if alive(grandchild) {
					t.Error("what the hook has started lives")
				}
			})
		}
	}
}

// What a killed runner leaves is the session's anchor's; the hook itself dies.
func TestHookDiesWithARunnerThatIsKilled(t *testing.T) {
	t.Parallel()
	pid := t.TempDir() + "/pid"
	h := script(t, `echo $$ > "$1.tmp"; mv "$1.tmp" "$1"; sleep 100`)
	h.Args = []string{pid}
	r := start(t)
	r.send(wire.HookJob{Hooks: []wire.Hook{h}}, line)
	hook := number(t, pid)
	_ = r.cmd.Process.Kill()
	r.wait()
	for end := time.Now().Add(20 * time.Second); alive(hook) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if alive(hook) {
		t.Error("the hook lives")
	}
}
