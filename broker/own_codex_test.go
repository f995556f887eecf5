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

// Each host has its own name for the same server's tool, as it was measured.
func TestRecoveryToolNames(t *testing.T) {
	for runtime, want := range map[string]string{
		"claude": "mcp__guard-0a__recover", "claudex": "mcp__guard-0a__recover", "codex": "mcp__guard_0a__recover", "pi": "guard_0a_recover",
	} {
		if got := recoveryTool(&session.Session{Runtime: runtime, Server: "guard-0a"}); got != want {
			t.Errorf("%s: %s, want %s", runtime, got, want)
		}
		if got := recoveryTool(&session.Session{Runtime: runtime}); got != "" {
			t.Errorf("%s without a server: %s", runtime, got)
		}
	}
}

// TestHostFitsRuntime: what reads in one host's words is nothing in another's
// session; in an exec session the command speaks as it likes.
func TestHostFitsRuntime(t *testing.T) {
	for runtime, own := range map[string]wire.Host{"claude": wire.HostClaude, "claudex": wire.HostClaude, "pi": wire.HostPi, "codex": wire.HostCodex, "exec": 0} {
		for _, host := range []wire.Host{wire.HostClaude, wire.HostCodex, wire.HostPi} {
			c := &call{host: host, session: &session.Session{Runtime: runtime}}
			if err := hostFits(c); (err == nil) != (own == 0 || own == host) {
				t.Errorf("host %d in a session of %s: %v", host, runtime, err)
			}
		}
	}
	if err := hostFits(&call{host: wire.HostPi}); err != nil {
		t.Errorf("outside of all sessions: %v", err)
	}
}
