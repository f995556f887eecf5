package peer

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fill connects to the socket without waiting, until its queue is full.
func fill(t *testing.T, path string) (fds []int) {
	t.Helper()
	for range 4 * backlog {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		if errors.Is(err, unix.EAGAIN) {
			_ = unix.Close(fd)
			return fds
		}
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
		t.Cleanup(func() { _ = unix.Close(fd) })
	}
	t.Fatal("the queue has no end")
	return nil
}

// TestDialWaitsItsTurn: a queue that others fill is waited for and is no broker
// that is missing. Waiting ends with its context.
func TestDialWaitsItsTurn(t *testing.T) {
	b := newBench(t, mustKernel(t))
	if err := b.l.Crowd(3); err != nil {
		t.Fatal(err)
	}
	waiting := len(fill(t, b.path))
	if waiting > 4 {
		t.Fatalf("%d connections wait, want a few", waiting)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Dial(short, b.path, uint32(os.Geteuid())); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUntrusted) {
		t.Errorf("nobody takes it: %v, want ErrUnavailable", err)
	}
	open, stop := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := Dial(open, b.path, uint32(os.Geteuid()))
		left <- err
	}()
	stop()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v, want its context's error", err)
	}
	done := make(chan error, 1)
	go func() {
		conn, err := Dial(t.Context(), b.path, uint32(os.Geteuid()))
		if err == nil {
			err = conn.Close()
		}
		done <- err
	}()
	for range waiting + 1 { // whoever waits is woken by the first that is taken
		b.accept()
	}
	if err := <-done; err != nil {
		t.Errorf("after room was made: %v", err)
	}
}

// TestState tells who has left from who has said something first.
func TestState(t *testing.T) {
	for _, tt := range []struct {
		name string
		play func(conn int)
		want State
	}{
		{"says nothing", func(int) {}, State{Silent: true}},
		{"has left", func(fd int) { _ = unix.Close(fd) }, State{Left: true, Silent: true, Half: true}},
		{"says no more", func(fd int) { _ = unix.Shutdown(fd, unix.SHUT_WR) }, State{Silent: true, Half: true}},
		{"has sent", func(fd int) { _, _ = unix.Write(fd, []byte("x")) }, State{}},
		{"has sent and left", func(fd int) { _, _ = unix.Write(fd, []byte("x")); _ = unix.Close(fd) }, State{}},
		{"has sent and says no more", func(fd int) { _, _ = unix.Write(fd, []byte("x")); _ = unix.Shutdown(fd, unix.SHUT_WR) }, State{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, mustKernel(t))
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.Connect(fd, &unix.SockaddrUnix{Name: b.path}); err != nil {
				t.Fatal(err)
			}
			c := b.accept()
			tt.play(fd)
			if got := c.State(); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestRemains: what a peer has sent that had ended is there to see, and nothing
// more of it can be had.
func TestRemains(t *testing.T) {
	for _, when := range []string{"before the look", "after the look"} {
		t.Run(when, func(t *testing.T) {
			b := newBench(t, mustKernel(t))
			p := b.Start()
			p.Connect(b.path)
			c := b.accept()
			if when == "after the look" {
				if _, err := c.Authenticate(); err != nil {
					t.Fatal(err)
				}
			}
			p.Write("last words")
			p.Kill()
			_, err := c.Authenticate()
			if when == "after the look" {
				_, err = c.Read(make([]byte, 4))
			}
			if err == nil {
				t.Fatal("a dead peer was heard")
			}
			if uid, sent := c.Remains(); uid != uint32(os.Geteuid()) || string(sent) != "last words" {
				t.Errorf("uid %d has left %q", uid, sent)
			}
		})
	}
}
