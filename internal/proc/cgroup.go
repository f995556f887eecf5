package proc

import (
	"bytes"
	"fmt"
	"path"
	"strings"
)

// Cgroup reads the path of the process's cgroup (version 2), from the root of
// that hierarchy.
func (d Dir) Cgroup() (string, error) {
	data, err := d.read("cgroup")
	if err != nil {
		return "", err
	}
	p, err := ParseCgroup(data)
	if err != nil {
		return "", fmt.Errorf("reading cgroup of process %d: %w", d.pid, err)
	}
	return p, nil
}

// ParseCgroup finds the line of version 2 in /proc/PID/cgroup. A path from which
// the cgroup can't be reached, since it lies outside of our own cgroup namespace
// or has been removed, is an error.
func ParseCgroup(data []byte) (string, error) {
	const deleted = " (deleted)"
	found := ""
	for line := range bytes.Lines(data) {
		rest, is := bytes.CutPrefix(line, []byte("0::"))
		if !is {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("two cgroups: %w", ErrMalformed)
		}
		found = string(bytes.TrimSuffix(rest, []byte("\n")))
	}
	if found == "" || !path.IsAbs(found) || path.Clean(found) != found || strings.HasSuffix(found, deleted) {
		return "", fmt.Errorf("cgroup %q: %w", found, ErrMalformed)
	}
	return found, nil
}
