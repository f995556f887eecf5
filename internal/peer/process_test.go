package peer

import (
	"errors"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/proc"
	"leaseguard.internal/internal/testproc"
)

func TestZeroValuesAreNobody(t *testing.T) {
	var p Peer
	if p.Alive() || p.UID() != NoUID || p.GID() != NoUID || p.PID() != 0 || p.Process() != nil {
		t.Errorf("zero Peer: alive %v, uid %d, gid %d, pid %d", p.Alive(), p.UID(), p.GID(), p.PID())
	}
	var none *Process
	if none.Alive() || none.UID() != NoUID || none.PID() != 0 || none.Inode() != 0 || none.StartTime() != 0 || none.Fd() != -1 {
		t.Error("nil Process is somebody")
	}
	if privileged, err := none.Privileged(); !privileged || err == nil {
		t.Errorf("Privileged of nil = %v, %v", privileged, err)
	}
	if none.ID().String() != "" {
		t.Errorf("the zero ID is called %q", none.ID())
	}
	if none.ID().Same(none.ID()) {
		t.Error("the zero ID is the same as itself")
	}
	if _, err := none.Dup(); err == nil {
		t.Error("Dup of nil succeeded")
	}
	if _, err := none.Parent(); err == nil {
		t.Error("Parent of nil succeeded")
	}
	if _, err := none.Exe(); err == nil {
		t.Error("Exe of nil succeeded")
	}
	if err := Ancestors(nil, func(*Process) (bool, error) { return false, nil }); err == nil {
		t.Error("Ancestors of nil succeeded")
	}
	if err := none.Close(); err != nil {
		t.Errorf("Close of nil: %v", err)
	}
}

func TestDetect(t *testing.T) {
	level, err := Detect()
	if err != nil || (level != LevelPIDFS && level != LevelPIDFD) {
		t.Errorf("Detect = %q, %v", level, err)
	}
	for _, tt := range []struct {
		feat features
		want Level
	}{
		{features{peerPidfd: true, pidfs: true}, LevelPIDFS},
		{features{peerPidfd: true}, LevelPIDFD},
		{features{pidfs: true}, LevelPIDFD},
		{features{}, LevelPIDFD},
	} {
		if got := tt.feat.level(); got != tt.want {
			t.Errorf("level of %+v = %q, want %q", tt.feat, got, tt.want)
		}
	}
}

func TestOpen(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		child := testproc.New(t).Start()
		p := mustOpen(t, k, child.PID)
		if !p.Alive() || p.PID() != child.PID || int(p.UID()) != os.Geteuid() || p.Fd() < 0 {
			t.Errorf("alive %v, pid %d, uid %d, fd %d", p.Alive(), p.PID(), p.UID(), p.Fd())
		}
		d, err := proc.Open(child.PID)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		if st, err := d.Stat(); err != nil || st.StartTime != p.StartTime() {
			t.Errorf("start time %d, want %d (%v)", p.StartTime(), st.StartTime, err)
		}
		want, _ := os.Executable() // testproc's children are this program
		if exe, err := p.Exe(); err != nil || exe != want {
			t.Errorf("Exe = %q, %v; want %q", exe, err, want)
		}
		if dir, _ := os.Getwd(); dir != "" {
			if cwd, err := p.Cwd(); err != nil || cwd != dir {
				t.Errorf("Cwd = %q, %v; want %q", cwd, err, dir)
			}
		}
		var file unix.Stat_t
		if err := unix.Stat(want, &file); err != nil {
			t.Fatal(err)
		}
		if st, err := p.ExeFile(); err != nil || st.Ino != file.Ino || st.Dev != file.Dev {
			t.Errorf("ExeFile = %d:%d, %v; want %d:%d", st.Dev, st.Ino, err, file.Dev, file.Ino)
		}
		if (p.Inode() != 0) != k.pidfs {
			t.Errorf("inode %d with pidfs %v", p.Inode(), k.pidfs)
		}
		if id := p.ID().String(); id == "" || id == mustOpen(t, k, os.Getpid()).ID().String() {
			t.Errorf("the ID is called %q, as this process's own", id)
		}
		if again := mustOpen(t, k, child.PID); !p.ID().Same(again.ID()) {
			t.Errorf("IDs of one process differ: %+v, %+v", p.ID(), again.ID())
		}
		if self := mustOpen(t, k, os.Getpid()); p.ID().Same(self.ID()) {
			t.Errorf("IDs of two processes are the same: %+v", p.ID())
		}
	})
}

func TestZombieAndReaped(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		child := testproc.New(t).Start()
		held := mustOpen(t, k, child.PID)
		id := held.ID()
		child.Kill()
		if held.Alive() {
			t.Error("a zombie is alive")
		}
		// It still has its number and can be opened, but it isn't alive.
		if zombie := mustOpen(t, k, child.PID); zombie.Alive() || !zombie.ID().Same(id) {
			t.Errorf("zombie: alive %v, ID %+v, want %+v", zombie.Alive(), zombie.ID(), id)
		}
		child.Reap(nil)
		if held.Alive() {
			t.Error("a reaped process is alive")
		}
		if _, err := held.ExeFile(); !errors.Is(err, ErrGone) {
			t.Errorf("ExeFile of a reaped process: %v, want ErrGone", err)
		}
		if _, err := held.Exe(); !errors.Is(err, ErrGone) {
			t.Errorf("Exe of a reaped process: %v, want ErrGone", err)
		}
		if _, err := held.Parent(); !errors.Is(err, ErrGone) {
			t.Errorf("Parent of a reaped process: %v, want ErrGone", err)
		}
		if !k.pidfs && held.StartTime() == 0 {
			t.Error("the start time is part of the ID and must stay")
		}
		if held.ID() != id {
			t.Errorf("ID changed from %+v to %+v", id, held.ID())
		}
	})
}

func TestOpenOfNobody(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		for _, pid := range []int{0, -1, -9999} {
			if _, err := open(k, pid); err == nil {
				t.Errorf("open(%d) succeeded", pid)
			}
		}
		if _, err := open(k, 1<<30); err == nil {
			t.Error("open of a pid that can't be succeeded")
		}
	})
}

// An anchor is a process, not a program.
func TestExecKeepsTheID(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		child := testproc.New(t).Start()
		p := mustOpen(t, k, child.PID)
		start := p.StartTime()
		child.Exec(false)
		again := mustOpen(t, k, child.PID)
		if !p.Alive() || !p.ID().Same(again.ID()) || again.StartTime() != start {
			t.Errorf("after exec: alive %v, ID %+v, start %d; before %+v, %d", p.Alive(), again.ID(), again.StartTime(), p.ID(), start)
		}
	})
}

func TestI2_RenamesChangeNothing(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		zoo := testproc.New(t)
		anchor := zoo.Start()
		p := mustOpen(t, k, anchor.PID)
		start := p.StartTime()
		for _, name := range []string{"a b", "x) R 1 (y", ")", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
			anchor.Rename(name)
			again := mustOpen(t, k, anchor.PID)
			if !again.ID().Same(p.ID()) || again.StartTime() != start || start == 0 {
				t.Errorf("named %q: ID %+v, start %d; before %+v, %d", name, again.ID(), again.StartTime(), p.ID(), start)
			}
			parent, err := again.Parent()
			if err != nil || parent.PID() != os.Getpid() {
				t.Errorf("named %q: parent %d, %v", name, parent.PID(), err)
			}
			_ = parent.Close()
		}
	})
}

func TestReusedPidIsAnotherProcess(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		zoo := testproc.New(t)
		first := zoo.Start()
		held := mustOpen(t, k, first.PID)
		first.Kill()
		first.Reap(nil)
		second := reuse(zoo, first.PID)
		if second == nil {
			t.Logf("pid %d could not be had again; looking at the dead process alone", first.PID)
		} else if p := mustOpen(t, k, second.PID); k.pidfs && p.ID().Same(held.ID()) {
			// Without pidfs the two may share a tick: what holds then is the pidfd.
			t.Errorf("a reused pid is the same process: %+v", p.ID())
		}
		if held.Alive() {
			t.Error("the dead process lives again")
		}
		if exe, err := held.Exe(); !errors.Is(err, ErrGone) {
			t.Errorf("Exe = %q, %v; want ErrGone", exe, err)
		}
		if parent, err := held.Parent(); !errors.Is(err, ErrGone) {
			t.Errorf("Parent = %d, %v; want ErrGone", parent.PID(), err)
		}
	})
}

func TestReopen(t *testing.T) {
	child := testproc.New(t).Start()
	p, err := Open(child.PID)
	if err != nil {
		t.Fatal(err)
	}
	pid, inode, start := p.PID(), p.Inode(), p.StartTime()
	_ = p.Close()
	for _, tt := range []struct {
		name         string
		inode, start uint64
	}{
		{"another inode", inode + 1, start},
		{"another start time", inode, start + 1},
		{"no start time", inode, 0},
	} {
		if _, err := Reopen(pid, tt.inode, tt.start); !errors.Is(err, ErrGone) {
			t.Errorf("%s: %v, want ErrGone", tt.name, err)
		}
	}
	again, err := Reopen(pid, inode, start)
	if err != nil || !again.Alive() {
		t.Fatalf("Reopen = %v", err)
	}
	_ = again.Close()
	child.Kill()
	if _, err := Reopen(pid, inode, start); !errors.Is(err, ErrGone) {
		t.Errorf("zombie: %v, want ErrGone", err)
	}
}

func TestDupAndClose(t *testing.T) {
	before := openFiles(t)
	p, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	dup, err := p.Dup()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if p.Alive() || p.Fd() != -1 || p.PID() != os.Getpid() || !p.ID().Same(dup.ID()) {
		t.Errorf("closed: alive %v, fd %d, pid %d", p.Alive(), p.Fd(), p.PID())
	}
	if _, err := p.Dup(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Dup after Close: %v, want ErrClosed", err)
	}
	if !dup.Alive() || dup.UID() != p.UID() {
		t.Errorf("the duplicate: alive %v, uid %d", dup.Alive(), dup.UID())
	}
	if parent, err := dup.Parent(); err != nil || parent.PID() != os.Getppid() {
		t.Errorf("Parent of the duplicate = %d, %v", parent.PID(), err)
	} else {
		_ = parent.Close()
	}
	_ = dup.Close()
	if after := openFiles(t); after != before {
		t.Errorf("%d open files, before %d", after, before)
	}
}

// Who polls while another closes must never poll a stranger's descriptor.
func TestCloseUnderUse(t *testing.T) {
	p, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for p.Alive() {
				if parent, err := p.Parent(); err == nil {
					_ = parent.Close()
				}
			}
		})
	}
	_ = p.Close()
	wg.Wait()
}

// By a number two processes mean the same only in one pid namespace.
func TestOursInNumbers(t *testing.T) {
	zoo := testproc.New(t)
	first := zoo.StartInPIDNamespace()
	for _, tt := range []struct {
		name string
		pid  int
		want bool
	}{
		{"this one", os.Getpid(), true},
		{"a child", zoo.Start().PID, true},
		{"first of another", first.PID, false},
		{"second of another", first.Spawn(false, false).PID, false},
	} {
		p, err := Open(tt.pid)
		if err != nil {
			t.Fatal(err)
		}
		if p.OursInNumbers() != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, !tt.want, tt.want)
		}
		_ = p.Close()
		if p.OursInNumbers() {
			t.Errorf("%s: after Close", tt.name)
		}
	}
	if (*Process)(nil).OursInNumbers() {
		t.Error("nobody has numbers")
	}
}
