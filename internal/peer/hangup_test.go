package peer

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

func TestWaitClosed(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		b := newBench(t, k)
		launcher, c, who := b.client()
		launcher.Exec(false)
		if err := c.WaitClosed(context.Background()); err != nil {
			t.Errorf("after exec: %v", err)
		}
		if !who.Alive() {
			t.Error("the anchor died of its exec")
		}
		_, c, _ = b.client()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := c.WaitClosed(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that ended: %v", err)
		}
	})
}

func TestCancelOnHangup(t *testing.T) {
	b := newBench(t, mustKernel(t))
	t.Run("the peer hangs up", func(t *testing.T) {
		client, c, _ := b.client()
		cancelled := make(chan struct{})
		stop := c.CancelOnHangup(func() { close(cancelled) })
		client.Write("more") // no hangup
		client.Hangup()
		<-cancelled
		stop()
	})
	t.Run("the peer dies before", func(t *testing.T) {
		client, c, _ := b.client()
		client.Kill()
		cancelled := make(chan struct{})
		stop := c.CancelOnHangup(func() { close(cancelled) })
		<-cancelled
		stop()
	})
	t.Run("an heir holds the connection", func(t *testing.T) {
		client, c, _ := b.client()
		client.Spawn(true, false)
		stop := c.CancelOnHangup(func() { t.Error("cancelled") })
		client.Hangup()
		stop()
		stop() // twice does nothing
	})
	t.Run("the peer waits", func(t *testing.T) {
		client, c, _ := b.client()
		stop := c.CancelOnHangup(func() { t.Error("cancelled") })
		client.Write("more")
		stop()
		if err := c.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if got, err := read(c); err != nil || got != "more" {
			t.Errorf("read %q, %v after the watch", got, err)
		}
	})
	t.Run("closed on our side", func(t *testing.T) {
		_, c, _ := b.client()
		_ = c.Close()
		cancelled := make(chan struct{})
		c.CancelOnHangup(func() { close(cancelled) })()
		<-cancelled
	})
	t.Run("half closed", func(t *testing.T) {
		conn, err := net.Dial("unix", b.path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		c := b.accept()
		if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		stop := c.CancelOnHangup(func() { t.Error("cancelled") })
		stop()
	})
}
