package peer

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/testproc"
)

func TestChildOf(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		zoo := testproc.New(t)
		opened := func(p *testproc.Proc) *Process {
			t.Helper()
			process, err := open(k, p.PID)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = process.Close() })
			return process
		}
		top := zoo.Start()
		top.Subreaper()
		middle := top.Spawn(false, false)
		low := middle.Spawn(false, true)
		a, b, c := opened(top), opened(middle), opened(low)
		if !b.ChildOf(a) || !c.ChildOf(b) {
			t.Error("a child is none")
		}
		for name, is := range map[string]bool{
			"grandchild": c.ChildOf(a), "itself": b.ChildOf(b), "parent": a.ChildOf(b), "of nobody": b.ChildOf(nil), "nobody": (*Process)(nil).ChildOf(a),
		} {
			if is {
				t.Errorf("%s counts as a child", name)
			}
		}
		middle.Kill()
		if c.ChildOf(b) {
			t.Error("it is a child of one that has ended")
		}
		middle.Reap(top)
		if !c.ChildOf(a) || c.ChildOf(b) {
			t.Error("the orphan's new parent isn't known")
		}
	})
}

func TestCgroupAndGroup(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		p, err := open(k, os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.Close() }()
		id, err := p.CgroupID()
		gid, gidErr := p.EGID()
		if !k.getInfo {
			if !errors.Is(err, ErrUnsupported) || !errors.Is(gidErr, ErrUnsupported) {
				t.Errorf("CgroupID: %v, EGID: %v", err, gidErr)
			}
			return
		}
		if err != nil || gidErr != nil || id == 0 || gid != uint32(os.Getegid()) { // #nosec G115 -- the kernel's gids are 32 bits
			t.Errorf("CgroupID = %d, %v; EGID = %d, %v", id, err, gid, gidErr)
		}
		path, err := p.CgroupPath()
		if err != nil {
			t.Fatal(err)
		}
		for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			var st unix.Stat_t
			var fs unix.Statfs_t
			if unix.Statfs(mount, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC && unix.Stat(mount+path, &st) == nil && st.Ino != id {
				t.Errorf("the directory %q is cgroup %d, the process is in %d", mount+path, st.Ino, id)
			}
		}
	})
	zoo := testproc.New(t)
	gone := zoo.Start()
	p, err := Open(gone.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	gone.Kill()
	if id, err := p.CgroupID(); err == nil {
		t.Errorf("one that has ended is in cgroup %d", id)
	}
}
