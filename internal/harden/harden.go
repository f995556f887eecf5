// Package harden takes from the broker's own process what an attacker of the
// same uid would use against it. It runs before anything secret is read.
//
// Against an attacker who may trace or kill the broker it is no boundary: that
// needs a uid of its own.
package harden

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process makes the process untraceable by its own uid, without core files,
// without a way to gain privileges, with private files and with as many file
// descriptors as its hard limit allows. Limits that a service manager has set so
// already are left alone: its filter of system calls may forbid to touch them.
func Process() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("making the process undumpable: %w", err)
	}
	if err := noNewPrivileges(); err != nil {
		return fmt.Errorf("giving up new privileges: %w", err)
	}
	unix.Umask(0o077)
	if err := limit(unix.RLIMIT_CORE, func(unix.Rlimit) unix.Rlimit { return unix.Rlimit{} }); err != nil {
		return fmt.Errorf("forbidding core files: %w", err)
	}
	if err := limit(unix.RLIMIT_NOFILE, func(l unix.Rlimit) unix.Rlimit { return unix.Rlimit{Cur: l.Max, Max: l.Max} }); err != nil {
		return fmt.Errorf("raising the limit of open files: %w", err)
	}
	return nil
}

// noNewPrivileges is each thread's own: those that run already are told too, as
// far as a program without cgo can do that, which is how releases are built.
func noNewPrivileges() error {
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)
	if errno == unix.ENOTSUP {
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	if errno != 0 {
		return errno
	}
	return nil
}

// limit changes a limit if it isn't as wanted.
func limit(which int, want func(unix.Rlimit) unix.Rlimit) error {
	var now unix.Rlimit
	if err := unix.Getrlimit(which, &now); err != nil {
		return err
	}
	if next := want(now); next != now {
		return unix.Setrlimit(which, &next)
	}
	return nil
}
