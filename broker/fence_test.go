package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/sdunit"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

// fakeScopes is a service manager at the consumer's interface. It really makes
// cgroups, below the one that the test is in.
type fakeScopes struct {
	t     *testing.T
	idle  bool // it only says that it made one
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
	if m.err != nil || m.idle {
		return m.err
	}
	testproc.Cgroup(m.t, s.Unit, s.PID)
	return nil
}

// manage starts the broker again with that service manager.
func (f *fixture) manage(m *fakeScopes) *fakeScopes {
	f.t.Helper()
	m.t = f.t
	f.stop()
	f.manager = m
	f.start(nil)
	return m
}

func needCgroups(t *testing.T) {
	t.Helper()
	if testproc.CgroupDir(t) == "" {
		testproc.Lacks(t, "needs root and cgroup version 2")
	}
}

// A session gets a cgroup of its own, by which also what has slipped out of its
// tree is found.
func TestScopeOfASession(t *testing.T) {
	needCgroups(t)
	f := newFixture(t, nil)
	m := f.manage(&fakeScopes{})
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
	needCgroups(t)
	f := newFixture(t, nil)
	f.manage(&fakeScopes{})
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
		{name: "said, but not done", m: fakeScopes{idle: true}},
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
