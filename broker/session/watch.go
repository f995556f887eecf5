package session

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/peer"
)

// watcher is one epoll over the anchors' pidfds, which stay open until it lets
// go of them.
type watcher struct {
	mu    sync.Mutex
	epoll int // -1 while nobody watches
	wake  int // eventfd that ends the wait
	held  map[int]*Session
	fds   map[*Session]int
}

func newWatcher() watcher {
	return watcher{epoll: -1, wake: -1, held: map[int]*Session{}, fds: map[*Session]int{}}
}

// Watch calls exited for each session whose anchor has ended, once, one after
// the other, also for those that ended before it was called. A zombie has ended:
// nobody has to reap it first. exited must not wait for anything slow.
//
// Watch returns nil at the end of ctx. Any error means that ends go unseen: the
// broker can't go on then.
func (r *Registry) Watch(ctx context.Context, exited func(*Session)) error {
	if err := r.watch.run(ctx, exited); err != nil {
		return fmt.Errorf("watching anchors: %w", err)
	}
	return nil
}

func (w *watcher) run(ctx context.Context, exited func(*Session)) error {
	epoll, wake, err := w.start()
	if err != nil {
		return err
	}
	defer w.stop()
	defer context.AfterFunc(ctx, w.interrupt)()
	var events [64]unix.EpollEvent
	for {
		n, err := unix.EpollWait(epoll, events[:], -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		for _, ev := range events[:max(n, 0)] {
			if int(ev.Fd) == wake {
				return nil
			}
			if s := w.take(int(ev.Fd)); s != nil {
				exited(s)
			}
		}
	}
}

// start makes the epoll and puts all that are held into it.
func (w *watcher) start() (epoll, wake int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.epoll >= 0 {
		return -1, -1, errors.New("they are watched already")
	}
	if epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return -1, -1, fmt.Errorf("making an epoll: %w", err)
	}
	if wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		_ = unix.Close(epoll)
		return -1, -1, fmt.Errorf("making an eventfd: %w", err)
	}
	err = enter(epoll, wake)
	for fd := range w.held {
		err = errors.Join(err, enter(epoll, fd))
	}
	if err != nil {
		_, _ = unix.Close(epoll), unix.Close(wake)
		return -1, -1, err
	}
	w.epoll, w.wake = epoll, wake
	return epoll, wake, nil
}

func (w *watcher) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = unix.Close(w.epoll), unix.Close(w.wake)
	w.epoll, w.wake = -1, -1
}

// interrupt ends the wait of run, if it still runs.
func (w *watcher) interrupt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wake >= 0 {
		_, _ = unix.Write(w.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

func enter(epoll, fd int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)} //nolint:gosec // the kernel's descriptors are that small
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("adding descriptor %d to the epoll: %w", fd, err)
	}
	return nil
}

// add begins to hold the session's anchor.
func (w *watcher) add(s *Session) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	fd := s.Anchor.Fd()
	if fd < 0 {
		return peer.ErrGone
	}
	if w.epoll >= 0 {
		if err := enter(w.epoll, fd); err != nil {
			return err
		}
	}
	w.held[fd], w.fds[s] = s, fd
	return nil
}

// drop lets go of the session's anchor.
func (w *watcher) drop(s *Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release(s)
}

// take answers an event: it lets go of the anchor and returns its session. A
// number that has become another anchor's since the event is left alone, since
// that one lives or has an event of its own.
func (w *watcher) take(fd int) *Session {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.held[fd]
	if s == nil || s.Anchor.Alive() {
		return nil
	}
	w.release(s)
	return s
}

func (w *watcher) release(s *Session) {
	fd, ok := w.fds[s]
	delete(w.fds, s)
	if !ok || w.held[fd] != s {
		return
	}
	delete(w.held, fd)
	if w.epoll >= 0 {
		_ = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_DEL, fd, nil)
	}
}
