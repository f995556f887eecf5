package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/sdunit"
	"leaseguard.internal/internal/wire"
)

// fakeScopes is a service manager at the consumer's interface. It really makes
// cgroups, below the one that the test is in.
type fakeScopes struct {
	t     *testing.T
	dir   string // where it makes them; empty: it only says so
	err   error
	hangs bool
	asked []sdunit.Scope
}

func (m *fakeScopes) Connect(context.Context) error { return m.err }
func (m *fakeScopes) Close()                        {}

func (m *fakeScopes) Start(ctx context.Context, s sdunit.Scope) error {
	m.asked = append(m.asked, s)
	if m.hangs {
		<-ctx.Done() // a second
		return ctx.Err()
	}
	if m.err != nil || m.dir == "" {
		return m.err
	}
	dir := filepath.Join(m.dir, s.Unit)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	m.t.Cleanup(func() { // what is in it goes back
		pids, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for _, pid := range strings.Fields(string(pids)) {
			_ = os.WriteFile(filepath.Join(m.dir, "cgroup.procs"), []byte(pid), 0)
		}
		if err := os.Remove(dir); err != nil {
			m.t.Error(err)
		}
	})
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(fmt.Sprint(s.PID)), 0)
}

// manage gives the broker that service manager.
func (f *fixture) manage(m *fakeScopes) *fakeScopes {
	f.t.Helper()
	f.eventually("it knows that there is no service manager", func() bool { return f.fences.level() == "absent" })
	m.t = f.t
	f.fences.manager, f.fences.patience = m, time.Second
	f.fences.failed(nil, 0)
	return m
}

// cgroupDir is the cgroup that this process is in.
func cgroupDir(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a cgroup")
	}
	self, err := peer.Self()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	at, err := self.CgroupPath()
	if err != nil {
		t.Skip(err)
	}
	for _, mount := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(filepath.Join(mount, at, "cgroup.controllers")); err == nil {
			return filepath.Join(mount, at)
		}
	}
	t.Skip("no cgroup version 2 is mounted")
	return ""
}

// A session gets a cgroup of its own, by which also what has slipped out of its
// tree is found.
func TestScopeOfASession(t *testing.T) {
	f := newFixture(t, nil)
	m := f.manage(&fakeScopes{dir: cgroupDir(t)})
	s := f.session()
	if len(m.asked) != 1 || m.asked[0].Unit != "guard-session-"+s.ID+"-1.scope" || m.asked[0].PID != os.Getpid() {
		t.Errorf("the manager was asked for %+v", m.asked)
	}
	st := f.status(nil)
	if st.Broker.Assurance.Cgroup != "scope" || len(st.Sessions) != 1 || st.Sessions[0].Cgroup != "user-scope" {
		t.Errorf("status says %q, %+v", st.Broker.Assurance.Cgroup, st.Sessions)
	}
	out, err := exec.Command("/bin/sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!").Output()
	f.must(err)
	var pid int
	_, err = fmt.Sscan(string(out), &pid)
	f.must(err)
	orphan, err := peer.Open(pid)
	f.must(err)
	defer func() { _ = orphan.Close() }()
	r := f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, Session: s.ID, Kill: true}, nil)
	if r.Error != nil || len(r.Ended) != 1 || r.Ended[0].Fence != "cgroup" || r.Ended[0].Killed != 1 || r.Ended[0].Left != 0 {
		t.Errorf("answer %+v", r)
	}
	if orphan.Alive() {
		t.Error("an orphan lives")
	}
}

// A restarted broker finds the cgroup again, without asking anybody.
func TestScopeAfterRestart(t *testing.T) {
	f := newFixture(t, nil)
	f.manage(&fakeScopes{dir: cgroupDir(t)})
	f.session()
	f.stop()
	f.start(nil)
	if st := f.status(nil); len(st.Sessions) != 1 || st.Sessions[0].Cgroup != "user-scope" {
		t.Errorf("status says %+v", st.Sessions)
	}
}

// Whatever becomes of the cgroup, the launch goes on, and status says it.
func TestLaunchWithoutScope(t *testing.T) {
	tests := []struct {
		name string
		m    fakeScopes
		once bool // the second session isn't asked for
	}{
		{name: "refused", m: fakeScopes{err: errors.New("interactive authentication required")}},
		{name: "said, but not done", m: fakeScopes{}},
		{name: "hangs", m: fakeScopes{hangs: true}, once: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, nil)
			m := f.manage(&tt.m)
			f.session()
			if st := f.status(nil); st.Broker.Assurance.Cgroup != "absent" || st.Sessions[0].Cgroup != "absent" {
				t.Errorf("status says %q, %q", st.Broker.Assurance.Cgroup, st.Sessions[0].Cgroup)
			}
			s := f.sessions.All()[0]
			f.enclose(context.Background(), s)
			if asked := len(m.asked); asked != 2 && !tt.once || asked != 1 && tt.once {
				t.Errorf("the manager was asked %d times", asked)
			}
			f.clock.Advance(scopePause + time.Second)
			m.hangs = false
			f.enclose(context.Background(), s)
			if tt.once && len(m.asked) != 2 {
				t.Error("it is never asked again")
			}
		})
	}
}
