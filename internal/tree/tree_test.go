package tree

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/peer"
)

// What a tool can leave behind. Each script ends up in so many sleepers.
var leftovers = []struct {
	name   string
	script string
	n      int
	root   bool
}{
	{name: "a child", script: `exec SLEEP`, n: 1},
	{name: "a background job of a shell that has ended", script: `SLEEP & exit`, n: 1},
	{name: "forked twice, in a process session of its own", script: `setsid sh -c 'setsid SLEEP & exit' & exit`, n: 1},
	{name: "ignores SIGTERM, SIGHUP and SIGINT", script: `trap '' TERM HUP INT; SLEEP & SLEEP`, n: 2},
	{name: "stopped", script: `SLEEP & while ! grep -q sleep /proc/$!/comm; do :; done; kill -STOP $!; wait`, n: 1},
	{name: "deeper than a lineage may be", script: `d() { if [ $1 = 0 ]; then SLEEP; else ( d $(($1-1)); : ); fi; }; d 100`, n: 1},
	{name: "a pipeline", script: `SLEEP | SLEEP | SLEEP`, n: 3},
	{name: "another user's", script: `setpriv --reuid 65534 --clear-groups SLEEP & SLEEP`, n: 2, root: true},
}

func TestEnd(t *testing.T) {
	for _, tt := range leftovers {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root && os.Geteuid() != 0 {
				t.Skip("needs root to change the user")
			}
			g := newGrove(t)
			g.run(tt.script)
			g.grown(tt.n)
			if out := g.end(g.target()); out.Killed < tt.n || out.Left != 0 {
				t.Errorf("outcome %+v, want at least %d killed", out, tt.n)
			}
			g.standing()
		})
	}
}

// Several trees are ended by the same looks, and each gets its own count.
func TestEndSeveral(t *testing.T) {
	one, two := newGrove(t), newGrove(t)
	one.run(`exec SLEEP`)
	two.run(`exec SLEEP`)
	two.run(`exec SLEEP`)
	other := newGrove(t)
	other.run(`exec SLEEP`)
	one.grown(1)
	two.grown(2)
	other.grown(1)
	out := End(context.Background(), one.target(), two.target())
	if out[0] != (Outcome{Killed: 1}) || out[1] != (Outcome{Killed: 2}) {
		t.Errorf("outcomes %+v", out)
	}
	one.standing()
	two.standing()
	if len(other.sleepers()) != 1 {
		t.Error("a process of a third tree was ended")
	}
}

// A bomb whose processes restart each other: killed one by one it grows again.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	g := newGrove(t)
	g.run(`b() { if [ $1 = 0 ]; then exec SLEEP; fi;
		while [ -e GO ]; do (b $(($1-1))) & (b $(($1-1))) & wait; done; }; b 7`)
	g.grown(128)
	killed := 0
	for range 5 { // on a machine that is busy the time may be over first, and that is told
		out := g.end(g.target())
		if killed += out.Killed; out.Left == 0 {
			break
		}
	}
	if killed < 255 {
		t.Errorf("%d killed, want 255", killed)
	}
	g.standing()
}

// One that is never twice the same: each process starts the next and ends. It is
// caught, or told of.
func TestRunner(t *testing.T) {
	g := newGrove(t)
	ran := g.dir + "/ran"
	runs := func() bool { _, err := os.Stat(ran); return err == nil }
	g.run(`r() { echo > DIR/ran; [ -e GO ] && (r) & exit; }; r`)
	for range 3 {
		eventually(t, "it runs", runs)
		_ = os.Remove(ran)
	}
	out := g.end(g.target())
	_ = os.Remove(ran)
	time.Sleep(50 * time.Millisecond) // in which it would run a hundred times
	if out.Left == 0 && runs() {
		t.Errorf("outcome %+v, but it runs on", out)
	}
	t.Logf("outcome %+v", out)
}

// What was proved is ended, wherever it hangs by then; what left before is not.
func TestMovesOut(t *testing.T) {
	g := newGrove(t)
	g.run("renounce")
	g.run(`SLEEP & exit`)
	stranger := g.grown(1)[0]
	g.run(`setsid SLEEP & echo $! > DIR/child; echo $$ > DIR/parent; wait`)
	g.grown(2)
	h := newHunt([]Target{g.target()})
	defer h.close()
	g.must(h.avoidSelf())
	eventually(t, "both are stopped", func() bool { _, err := h.look(); g.must(err); return stopped(h) == 2 })
	parent, err := peer.Open(number(t, g.dir+"/parent"))
	g.must(err)
	defer func() { _ = parent.Close() }()
	child := number(t, g.dir+"/child")
	g.must(parent.Signal(unix.SIGKILL))
	eventually(t, "the child has another parent", func() bool {
		p, err := peer.Open(child)
		g.must(err)
		defer func() { _ = p.Close() }()
		return p.ParentPID() != parent.PID()
	})
	h.finish()
	left := g.sleepers()
	if len(left) != 1 || left[0] != stranger {
		t.Errorf("left are %v, want only %d, which left the tree before", left, stranger)
	}
	if out := h.outcomes()[0]; out.Left != 0 || out.Killed == 0 {
		t.Errorf("outcome %+v", out)
	}
}

func stopped(h *hunt) (n int) {
	for _, v := range h.held {
		if v.stopped {
			n++
		}
	}
	return n
}

func number(t *testing.T, file string) (n int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(text), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// What a zombie leaves behind counts as gone, and one whose lineage isn't to the
// anchor is never touched: here a sibling, a parent, and the test itself.
func TestOnlyTheTree(t *testing.T) {
	g, sibling := newGrove(t), newGrove(t)
	sibling.run(`exec SLEEP`)
	sibling.grown(1)
	if out := g.end(g.target()); out != (Outcome{}) {
		t.Errorf("outcome %+v of an empty tree", out)
	}
	if len(sibling.sleepers()) != 1 {
		t.Error("a process of another tree was ended")
	}
}

func TestMercy(t *testing.T) {
	t.Parallel()
	g := newGrove(t)
	g.run(`echo $$ > DIR/shelter; SLEEP & setsid sh -c 'SLEEP; :' & wait`)
	g.run(`echo $$ > DIR/spare; mkfifo DIR/fifo; SLEEP & exec 3<>DIR/fifo; read x <&3`)
	g.run(`echo $$ > DIR/later; exec SLEEP`)
	g.run(`exec SLEEP`)
	g.grown(5)
	shelter, spare, later := number(t, g.dir+"/shelter"), number(t, g.dir+"/spare"), number(t, g.dir+"/later")
	target := g.target()
	target.Mercy = func(p *peer.Process) Mercy {
		switch p.PID() {
		case shelter:
			return Shelter
		case spare:
			return Spare
		case later:
			return Later
		}
		return None
	}
	if out := g.end(target); out != (Outcome{Killed: 3, Left: 5}) {
		t.Errorf("outcome %+v, want 3 killed, and the spared one, the sheltered ones left", out)
	}
	if left := g.sleepers(); len(left) != 2 {
		t.Errorf("left are %v, want those below the one that shelters", left)
	}
	if err := unix.Kill(spare, 0); err != nil {
		t.Errorf("the one that was spared: %v", err)
	}
}

// One that is spared while it waits for an answer is ended once it doesn't.
func TestSparedNoMore(t *testing.T) {
	t.Parallel()
	g := newGrove(t)
	g.run(`SLEEP; :`)
	g.grown(1)
	looks, target := 0, g.target()
	target.Mercy = func(*peer.Process) Mercy {
		if looks++; looks < 20 {
			return Spare
		}
		return None
	}
	// The shell ends by itself when what it waits for is killed first.
	if out := g.end(target); out.Killed == 0 || out.Left != 0 || out.Err != nil {
		t.Errorf("outcome %+v, want them killed", out)
	}
	g.standing()
}

// A host's hook begins as a process that nobody can tell from others: the
// anchor's children aren't touched at first sight.
func TestNewbornMayBecomeAHook(t *testing.T) {
	t.Parallel()
	g := newGrove(t)
	g.run(`exec SLEEP`)
	hook := g.grown(1)[0]
	looks, target := 0, g.target()
	target.Mercy = func(*peer.Process) Mercy {
		if looks++; looks > 3 {
			return Spare // it has asked by now
		}
		return None
	}
	if out := g.end(target); out != (Outcome{Left: 1}) {
		t.Errorf("outcome %+v", out)
	}
	if st, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", hook)); err != nil || bytes.Contains(st, []byte(") T ")) {
		t.Errorf("it was touched: %s %v", st, err)
	}
	_ = End(context.Background(), g.target())
}

// One that ends by itself is not killed.
func TestLaterEndsByItself(t *testing.T) {
	g := newGrove(t)
	g.run(`while [ -e DIR/wait ] || ! [ -e DIR/seen ]; do sleep 0.01; done; echo > DIR/finished`)
	target := g.target()
	target.Mercy = func(*peer.Process) Mercy {
		_ = os.WriteFile(g.dir+"/seen", nil, 0o600)
		return Later
	}
	if out := g.end(target); out.Left != 0 {
		t.Errorf("outcome %+v", out)
	}
	if _, err := os.Stat(g.dir + "/finished"); err != nil {
		t.Error("it was ended before it had finished")
	}
}

// The one who ends a tree may stand in it: neither it nor what is above it is
// ended.
func TestEnderInsideTheTree(t *testing.T) {
	t.Parallel()
	g := newGrove(t)
	g.run(`exec SLEEP`)
	g.grown(1)
	g.run(fmt.Sprintf(`echo %d | %s=ender %s > DIR/told; echo > DIR/after`, g.anchor.PID(), play, "/proc/"+fmt.Sprint(os.Getpid())+"/exe"))
	eventually(t, "it is done", func() bool { _, err := os.Stat(g.dir + "/after"); return err == nil })
	if text, _ := os.ReadFile(g.dir + "/told"); string(text) != "1 0 <nil>\n" {
		t.Errorf("the ender said %q", text)
	}
	g.standing()
}

// An anchor that has ended: what was known below it is ended, with what is below
// that.
func TestKept(t *testing.T) {
	t.Parallel()
	g := newGrove(t)
	g.run(`SLEEP & SLEEP & wait`)
	g.grown(2)
	below, err := Below(100, g.target())
	g.must(err)
	defer func() {
		for _, p := range below[0] {
			_ = p.Close()
		}
	}()
	if len(below[0]) != 3 {
		t.Fatalf("%d processes below, want 3", len(below[0]))
	}
	for _, p := range below[0] {
		if st, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID())); err != nil || bytes.Contains(st, []byte(") T ")) {
			t.Errorf("looking stopped process %d: %s %v", p.PID(), st, err)
		}
	}
	g.must(g.in.Close())
	_ = g.cmd.Wait()
	if out := g.end(Target{Anchor: g.anchor, Kept: below[0]}); out != (Outcome{Killed: 3}) {
		t.Errorf("outcome %+v, want 3 killed", out)
	}
	if left := g.sleepers(); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

func TestBelowIsBounded(t *testing.T) {
	g := newGrove(t)
	g.run(`SLEEP & SLEEP & SLEEP & SLEEP & wait`)
	g.grown(4)
	below, err := Below(2, g.target())
	g.must(err)
	if len(below[0]) != 2 {
		t.Errorf("%d processes are held, want 2", len(below[0]))
	}
	for _, p := range below[0] {
		_ = p.Close()
	}
}

// More than can be held at once are ended in turns.
func TestEndInTurns(t *testing.T) {
	t.Parallel()
	g := newGrove(t)
	for range 12 {
		g.run(`exec SLEEP`)
	}
	g.grown(12)
	h := newHunt([]Target{g.target()})
	defer h.close()
	h.limit = 5
	g.must(h.run(context.Background()))
	if out := h.outcomes()[0]; out != (Outcome{Killed: 12}) {
		t.Errorf("outcome %+v, want 12 killed", out)
	}
	g.standing()
}

// A caller that gives up leaves nothing stopped behind.
func TestEndOfPatience(t *testing.T) {
	g := newGrove(t)
	g.run(`SLEEP & SLEEP & wait`)
	g.grown(2)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if out := End(ctx, g.target())[0]; out.Killed != 3 || out.Left != 0 {
		t.Errorf("outcome %+v", out)
	}
	g.standing()
}

// A broker of another uid: CAP_KILL is enough, and without it what belongs to
// other users is counted as left.
func TestOtherUsers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root to change the user")
	}
	for _, tt := range []struct {
		name string
		caps []uintptr
		want string
	}{
		{"with CAP_KILL alone", []uintptr{unix.CAP_KILL}, "2 0 <nil>\n"},
		{"without", nil, "1 1 <nil>\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGrove(t)
			g.run(`setpriv --reuid 65534 --clear-groups SLEEP & setpriv --reuid 65533 --clear-groups SLEEP & exit`)
			g.grown(2)
			cmd := copyOf("ender")
			as(cmd, 65534, tt.caps...)
			cmd.Stdin = strings.NewReader(fmt.Sprintln(g.anchor.PID()))
			out, err := cmd.Output()
			if err != nil || string(out) != tt.want {
				t.Errorf("the ender said %q, %v; want %q", out, err, tt.want)
			}
		})
	}
}

// Processes that can't be seen must not look like none.
func TestHiddenProcesses(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount /proc")
	}
	g := newGrove(t)
	g.run(`exec SLEEP`)
	g.grown(1)
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c",
		`mount -t proc -o hidepid=invisible proc /proc && exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps +kill --ambient-caps +kill "$0"`, copyPath(t))
	cmd.Env, cmd.Stdin = append(os.Environ(), play+"=ender"), strings.NewReader(fmt.Sprintln(g.anchor.PID()))
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "0 0 "+ErrHidden.Error()+"\n" {
		t.Errorf("the ender said %q, %v", out, err)
	}
}

// copyPath puts the test program where every user can start it.
func copyPath(t *testing.T) string {
	t.Helper()
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "tree")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := dir + "/ender"
	if err := os.WriteFile(path, program, 0o755); err != nil { // #nosec G306 -- to be started by others
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // #nosec G302 -- likewise
		t.Fatal(err)
	}
	return path
}
