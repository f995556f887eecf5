package broker

import (
	"leaseguard.internal/internal/lookup"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/runtimes"
	"leaseguard.internal/internal/wire"
)

// hostsOwn says whether the event comes from the host itself: the caller is the
// installed gate, a child of the anchor, on a socketpair that the anchor made.
// Anybody below the anchor may start the gate with a payload of his own; that
// is judged like any other call, but proves and opens nothing. In an exec
// session the command calls the gate as it likes, so every descendant counts.
//
// Neither half is enough: an orphan that the anchor has adopted is its child, and
// its tools have socketpairs of it as well. The gate names who made its own, by
// number. The anchor lives and is older than what is below it, so the number was
// its own when the gate read it; a gate of another pid namespace, where it may be
// anybody's, is not believed. What a host writes to a server's stdin holds what the
// agent chose, and the server may shut it off behind that: then, as a gate, it has
// all that is asked for. Nothing that the kernel shows tells it from a hook.
//
// Codex gives its hooks pipes, and sessions and groups of their own as its tools
// have. It starts them through a shell that closes what the gate can't, and with
// the line that the launcher left open, which it closes for its tools: who has
// that in place of stdin was started as a hook. A process that may trace the
// anchor may take the line from it, as it may do anything else in its name.
func (b *Broker) hostsOwn(c *call) bool {
	if c.session.Runtime == runtimes.Exec {
		return true
	}
	anchor, between := c.session.Anchor, 0
	switch {
	case c.host != hostOf[c.session.Runtime], c.host == wire.HostPi && !inSession(c.peer.Process(), anchor):
		return false
	case c.host == wire.HostCodex:
		between = hookShell
	}
	return len(c.path) >= 2 && len(c.path) <= 2+between && c.stdin != 0 && c.stdin == anchor.PID() && b.installedGate(c) &&
		c.peer.Process().OursInNumbers() && anchor.Alive()
}

// hookShell is how many processes stand between Codex and its gate: a shell, what
// ends a gate that hangs, and the shell that reads the gate's answer.
const hookShell = 3

// inSession says whether a process is in the anchor's own process session. Pi
// starts each of its tools in one of their own, which nobody leaves for another's.
func inSession(p, anchor *peer.Process) bool {
	mine, err := p.SessionID()
	if err != nil {
		return false
	}
	anchors, err := anchor.SessionID()
	return err == nil && mine == anchors
}

// installedGate says whether the caller runs the gate that stands beside the
// broker: that very file, whatever name somebody's own mounts give to another.
//
// In system mode the broker can't see which program another user's process runs.
// There the gate's file has a group of its own and the set-group-id bit: who
// connects with that group was started as that file, since nothing else gives it.
func (b *Broker) installedGate(c *call) bool {
	switch {
	case c.gate:
	case b.opt.Paths.Mode == paths.System:
		c.gate = c.peer.GID() == b.opt.Paths.GateGID && c.peer.Alive()
	default:
		c.gate = b.isGate(c.peer.Process())
	}
	return c.gate
}

func (b *Broker) isGate(p *peer.Process) bool {
	runs, err := p.ExeFile()
	if err != nil {
		return false
	}
	gate, err := lookup.Link(b.gate) // our own
	return err == nil && gate == runs
}
