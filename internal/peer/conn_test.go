package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
)

func TestAuthenticate(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		b := newBench(t, k)
		client := b.Start()
		before := openFiles(t)
		client.Connect(b.path)
		client.Write("hello")
		c := b.accept()
		if _, err := read(c); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("Read before Authenticate: %v, want ErrUnauthenticated", err)
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("Write before Authenticate: %v, want ErrUnauthenticated", err)
		}
		if c.Peer().Alive() {
			t.Error("the peer is known before Authenticate")
		}
		who, err := c.Authenticate()
		if err != nil {
			t.Fatal(err)
		}
		if who.PID() != client.PID || int(who.UID()) != os.Geteuid() || int(who.GID()) != os.Getegid() || !who.Alive() {
			t.Errorf("peer %d of %d:%d, alive %v", who.PID(), who.UID(), who.GID(), who.Alive())
		}
		if again, err := c.Authenticate(); err != nil || again != who {
			t.Errorf("Authenticate again = %+v, %v", again, err)
		}
		if got, err := read(c); err != nil || got != "hello" {
			t.Errorf("Read = %q, %v", got, err)
		}
		client.Hangup()
		if _, err := read(c); !errors.Is(err, io.EOF) {
			t.Errorf("Read at the end: %v, want EOF", err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if who.Alive() {
			t.Error("the peer's process outlives the connection")
		}
		if _, err := c.Authenticate(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Authenticate after Close: %v, want ErrClosed", err)
		}
		if after := openFiles(t); after != before {
			t.Errorf("%d open files, before %d", after, before)
		}
	})
}

func TestI1_DeadConnectorIsNobodyElse(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		b := newBench(t, k)
		parent := b.Start()
		connector := parent.Spawn(false, false)
		connector.Connect(b.path)
		heir := connector.Spawn(true, true)
		late := b.accept()
		// A second connection is authenticated while its connector lives.
		connector.Hangup()
		connector.Connect(b.path)
		heir2 := connector.Spawn(true, true)
		early := b.accept()
		who, err := early.Authenticate()
		if err != nil {
			t.Fatal(err)
		}
		connector.Kill()
		connector.Reap(parent)
		if reuse(b.Zoo, connector.PID) == nil {
			t.Logf("pid %d could not be had again", connector.PID)
		}
		heir.Write("promote")
		heir2.Write("promote")

		// Without SO_PEERPIDFD the new owner of the number may pass for the
		// connector here. The sender of the bytes never does.
		if p, err := late.Authenticate(); err == nil && k.peerPidfd {
			t.Errorf("a connection of the dead is authenticated as %d", p.PID())
		}
		if got, err := read(late); err == nil {
			t.Errorf("read %q from the heir of the dead", got)
		}
		if who.Alive() {
			t.Error("the connector is alive again")
		}
		if got, err := read(early); !errors.Is(err, ErrSender) {
			t.Errorf("read %q, %v; want ErrSender", got, err)
		}
	})
}

func TestI4_OnlyTheConnectorSpeaks(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		t.Run("child", func(t *testing.T) {
			b := newBench(t, k)
			client, c, _ := b.client()
			child := client.Spawn(true, false)
			grandchild := child.Spawn(true, true)
			grandchild.Write("promote")
			if got, err := read(c); !errors.Is(err, ErrSender) {
				t.Errorf("read %q, %v; want ErrSender", got, err)
			}
		})
		t.Run("in turns", func(t *testing.T) {
			b := newBench(t, k)
			client, c, _ := b.client()
			child := client.Spawn(true, false)
			client.Write("own")
			child.Write("smuggled")
			if got, err := read(c); err != nil || got != "own" {
				t.Errorf("read %q, %v; want the connector's bytes alone", got, err)
			}
			if got, err := read(c); !errors.Is(err, ErrSender) {
				t.Errorf("read %q, %v; want ErrSender", got, err)
			}
		})
		t.Run("before authentication", func(t *testing.T) {
			b := newBench(t, k)
			client := b.Start()
			client.Connect(b.path)
			client.Spawn(true, false).Write("smuggled")
			c := b.accept()
			if _, err := c.Authenticate(); err != nil {
				t.Fatal(err)
			}
			if got, err := read(c); !errors.Is(err, ErrSender) {
				t.Errorf("read %q, %v; want ErrSender", got, err)
			}
		})
		t.Run("leaked registration", func(t *testing.T) {
			b := newBench(t, k)
			launcher, c, _ := b.client()
			launcher.Exec(true) // no close-on-exec: the runtime has it now
			tool := launcher.Spawn(true, false)
			tool.Write("promote")
			if err := c.WaitClosed(context.Background()); !errors.Is(err, ErrTalks) {
				t.Errorf("WaitClosed = %v, want ErrTalks", err)
			}
		})
	})
}

func TestI5_DeadPeersAreRefused(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		for _, reaped := range []bool{false, true} {
			b := newBench(t, k)
			client := b.Start()
			client.Connect(b.path)
			client.Write("request")
			client.Kill()
			if reaped {
				client.Reap(nil)
			}
			c := b.accept()
			if p, err := c.Authenticate(); err == nil {
				t.Errorf("reaped %v: a dead peer is authenticated as %d", reaped, p.PID())
			}
			if got, err := read(c); !errors.Is(err, ErrUnauthenticated) {
				t.Errorf("reaped %v: read %q, %v", reaped, got, err)
			}

			client, c, who := b.client()
			client.Write("request")
			client.Kill()
			if reaped {
				client.Reap(nil)
			}
			if got, err := read(c); !errors.Is(err, ErrGone) {
				t.Errorf("reaped %v: read %q, %v of the dead; want ErrGone", reaped, got, err)
			}
			if who.Alive() {
				t.Errorf("reaped %v: the peer is alive", reaped)
			}
		}
	})
}

func TestFilesAreRefused(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		b := newBench(t, k)
		client, c, _ := b.client()
		before := openFiles(t)
		err := client.WriteWithFile("request")
		if k.passRights {
			if err == nil {
				t.Error("the kernel let a file pass")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := read(c); !errors.Is(err, ErrSender) {
			t.Errorf("read %q, %v; want ErrSender", got, err)
		}
		if after := openFiles(t); after != before {
			t.Errorf("%d open files, before %d: one came in", after, before)
		}
	})
}

// Where only the number is known, who came after the connection or is another
// user's process isn't the connector.
func TestOpenByNumberRefuses(t *testing.T) {
	b := newBench(t, features{})
	client := b.Start()
	client.Connect(b.path)
	c := b.accept()
	if _, err := c.openByNumber(client.PID, uint32(os.Geteuid())+1); !errors.Is(err, ErrGone) {
		t.Errorf("another uid: %v, want ErrGone", err)
	}
	c.accepted = 0
	if _, err := c.openByNumber(client.PID, uint32(os.Geteuid())); !errors.Is(err, ErrGone) {
		t.Errorf("younger than the connection: %v, want ErrGone", err)
	}
}
