package proc

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// Capabilities reads the effective capability set from status, one bit each.
func (d Dir) Capabilities() (uint64, error) {
	data, err := d.read("status")
	if err != nil {
		return 0, err
	}
	set, err := ParseCapabilities(data)
	if err != nil {
		return 0, fmt.Errorf("reading status of process %d: %w", d.pid, err)
	}
	return set, nil
}

// ParseCapabilities finds the line CapEff of a status file. The process's name
// stands in a line of its own with its newlines escaped by the kernel.
func ParseCapabilities(status []byte) (uint64, error) {
	for line := range bytes.Lines(status) {
		value, found := bytes.CutPrefix(line, []byte("CapEff:"))
		if !found {
			continue
		}
		set, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 16, 64)
		if err != nil {
			return 0, errors.New("capability set is not a hexadecimal number")
		}
		return set, nil
	}
	return 0, errors.New("there is no line CapEff")
}
