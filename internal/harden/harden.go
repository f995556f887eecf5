// Package harden takes from the broker's own process what an attacker of the
// same uid would use against it. It runs before anything secret is read.
//
// Against an attacker who may trace or kill the broker it is no boundary: that
// needs a uid of its own.
package harden

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Process makes the process untraceable by its own uid, without core files,
// without a way to gain privileges, with private files and with as many file
// descriptors as its hard limit allows.
func Process() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("making the process undumpable: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up new privileges: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbidding core files: %w", err)
	}
	unix.Umask(0o077)
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	files.Cur = files.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("raising the limit of open files: %w", err)
	}
	return nil
}
