package broker

import (
	"os"
	"path/filepath"
	"testing"

	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

// Of what looks like the host's own event each part is asked for: above all who
// made the gate's stdin, since an orphan has the anchor for its parent too.
func TestAttack28_WhoMadeStdin(t *testing.T) {
	zoo := testproc.New(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.Executable()
	must(err)
	self, err := peer.Self()
	must(err)
	defer func() { _ = self.Close() }()
	gone := zoo.Start()
	ended, err := peer.Open(gone.PID)
	must(err)
	defer func() { _ = ended.Close() }()
	gone.Kill()
	l, err := peer.Listen(filepath.Join(zoo.Dir(), "s"), 0o600)
	must(err)
	defer func() { _ = l.Close() }()
	connected := func(p *testproc.Proc) peer.Peer {
		p.Connect(filepath.Join(zoo.Dir(), "s"))
		conn, err := l.Accept()
		must(err)
		t.Cleanup(func() { _ = conn.Close() })
		who, err := conn.Authenticate()
		must(err)
		return who
	}
	child, apart := connected(zoo.Start()), connected(zoo.StartInPIDNamespace())
	detached := connected(zoo.Start().Spawn(false, true))
	tests := []struct {
		name   string
		caller peer.Peer
		anchor *peer.Process
		stdin  int // who made it
		steps  int
		gate   string
		own    bool
	}{
		{"the host's", child, self, self.PID(), 2, program, true},
		{"a parent's that has ended, then adopted", child, self, ended.PID(), 2, program, false},
		{"its own", child, self, child.PID(), 2, program, false},
		{"nobody's", child, self, 0, 2, program, false},
		{"below a tool", child, self, self.PID(), 3, program, false},
		{"another program", child, self, self.PID(), 2, "/bin/sh", false},
		{"no such program", child, self, self.PID(), 2, "/none", false},
		{"an anchor that has ended", child, ended, ended.PID(), 2, program, false},
		{"another pid namespace, where the number is anybody's", apart, self, self.PID(), 2, program, false},
		{"nobody", peer.Peer{}, self, self.PID(), 2, program, false},
	}
	for name, pi := range map[string]struct {
		caller peer.Peer
		host   wire.Host
		own    bool
	}{
		"Pi's": {child, wire.HostPi, true}, "of a tool of Pi's": {detached, wire.HostPi, false}, "of Pi, in another host's words": {child, wire.HostClaude, false},
	} {
		c := &call{peer: pi.caller, host: pi.host, stdin: self.PID(), path: make([]session.Step, 2), session: &session.Session{Runtime: "pi", Anchor: self}}
		if b := (&Broker{gate: program}); b.hostsOwn(c) != pi.own {
			t.Errorf("%s: own: %v, want %v", name, !pi.own, pi.own)
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := &Broker{gate: tt.gate}
			c := &call{peer: tt.caller, host: wire.HostClaude, stdin: tt.stdin, path: make([]session.Step, tt.steps), session: &session.Session{Runtime: "claude", Anchor: tt.anchor}}
			if b.hostsOwn(c) != tt.own {
				t.Errorf("own: %v, want %v", !tt.own, tt.own)
			}
			if c.host = wire.HostCodex; b.hostsOwn(c) {
				t.Error("a tool of Claude's speaks for Codex, whose hooks stand further down")
			}
		})
	}
}
