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

// TestAttack29_CodexLine: below Codex no place, program or stdin makes a gate the
// host's own. Only the line that its tools don't inherit does, not far below.
func TestAttack29_CodexLine(t *testing.T) {
	zoo := testproc.New(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	self, err := peer.Self()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	socket := filepath.Join(zoo.Dir(), "s")
	l, err := peer.Listen(socket, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	connected := func(p *testproc.Proc) peer.Peer {
		p.Connect(socket)
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		who, err := conn.Authenticate()
		if err != nil {
			t.Fatal(err)
		}
		return who
	}
	child, apart := connected(zoo.Start()), connected(zoo.StartInPIDNamespace())
	for _, tt := range []struct {
		name   string
		caller peer.Peer
		line   int // who made it; 0: there is none
		host   wire.Host
		steps  int
		gate   string
		own    bool
	}{
		{"started by Codex itself", child, self.PID(), wire.HostCodex, 2, program, true},
		{"below the hook's shell", child, self.PID(), wire.HostCodex, 3, program, true},
		{"below all of the hook's command", child, self.PID(), wire.HostCodex, 5, program, true},
		{"further down", child, self.PID(), wire.HostCodex, 6, program, false},
		{"a tool, which has no line, in a hook's place", child, 0, wire.HostCodex, 5, program, false},
		{"a tool that has become the gate", child, 0, wire.HostCodex, 2, program, false},
		{"a line that it made itself", child, child.PID(), wire.HostCodex, 5, program, false},
		{"in another host's words", child, self.PID(), wire.HostClaude, 2, program, false},
		{"another program, with the line", child, self.PID(), wire.HostCodex, 2, "/bin/sh", false},
		{"a tool in a sandbox, whose numbers are its own", apart, self.PID(), wire.HostCodex, 5, program, false},
		{"no lineage", child, self.PID(), wire.HostCodex, 1, program, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &call{peer: tt.caller, host: tt.host, stdin: tt.line, path: make([]session.Step, tt.steps), session: &session.Session{Runtime: "codex", Anchor: self}}
			if b := (&Broker{gate: tt.gate}); b.hostsOwn(c) != tt.own {
				t.Errorf("own: %v, want %v", !tt.own, tt.own)
			}
		})
	}
}
