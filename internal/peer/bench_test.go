package peer

import (
	"path/filepath"
	"testing"

	"leaseguard.internal/internal/testproc"
)

// The parts of a call that happen here: who asks, and the walk up to an anchor
// four levels above.

func BenchmarkAuthenticate(b *testing.B) {
	zoo := testproc.New(b)
	l, err := Listen(filepath.Join(zoo.Dir(), "s"), 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	zoo.Start().Connect(filepath.Join(zoo.Dir(), "s"))
	c, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for b.Loop() {
		p, err := c.Authenticate()
		if err != nil {
			b.Fatal(err)
		}
		_ = p.proc.Close()
		c.peer = Peer{}
	}
}

func BenchmarkLineage(b *testing.B) {
	now, err := kernel()
	if err != nil {
		b.Fatal(err)
	}
	for _, k := range []struct {
		name string
		feat features
	}{{"this kernel", now}, {"pidfd_open and stat", features{}}} {
		b.Run(k.name, func(b *testing.B) {
			zoo := testproc.New(b)
			gate := zoo.Start().Spawn(false, false).Spawn(false, false)
			p, err := open(k.feat, gate.PID)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = p.Close() }()
			for b.Loop() {
				levels := 0
				if err := Ancestors(p, func(*Process) (bool, error) {
					levels++
					return levels == 4, nil
				}); err != nil || levels != 4 {
					b.Fatal(levels, err)
				}
			}
		})
	}
}
