package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// The one client and the servers are kept on different processors, as a gate that
// a host has just started and the broker are. Left alone, the kernel puts a pair
// that wakes each other now on one processor and now on two, which makes a
// difference of thrice what is measured.

// split divides the processors that this program may use: one for the client, the
// others for servers. Where there is one alone, both have it.
type split struct{ client, servers, all unix.CPUSet }

// processors is asked before anything is bound.
var processors = sync.OnceValues(func() (s split, err error) {
	if err := unix.SchedGetaffinity(0, &s.all); err != nil {
		return s, fmt.Errorf("asking for our processors: %w", err)
	}
	for cpu := range len(s.all) * strconv.IntSize {
		switch {
		case !s.all.IsSet(cpu):
		case s.client.Count() == 0:
			s.client.Set(cpu)
		default:
			s.servers.Set(cpu)
		}
	}
	if s.servers.Count() == 0 {
		s.servers = s.all
	}
	return s, nil
})

// keep binds all threads of a process to processors; later ones come from these.
func keep(pid int, on *unix.CPUSet) error {
	for range 2 { // a thread may have been made while we went through them
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if err := unix.SchedSetaffinity(id, on); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("binding thread %d: %w", id, err)
			}
		}
	}
	return nil
}

// apart binds the servers, and returns what lets them run where they like again.
func apart(pids ...int) (together func() error, err error) {
	s, err := processors()
	if err != nil {
		return nil, err
	}
	each := func(on *unix.CPUSet) error {
		for _, pid := range pids {
			if err := keep(pid, on); err != nil {
				return err
			}
		}
		return nil
	}
	return func() error { return each(&s.all) }, each(&s.servers)
}
