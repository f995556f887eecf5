package proc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// ErrMalformed is what every parse error wraps: the kernel wrote something that
// isn't understood. The caller treats the process as unknown.
var ErrMalformed = errors.New("not understood")

// Stat is what matters of /proc/PID/stat.
type Stat struct {
	PID       int
	Name      string // chosen by the process itself, any bytes
	State     byte
	PPID      int
	StartTime uint64 // field 22: ticks since boot
}

// Positions of the fields that are read, counted from the state, which is the
// first after the name.
const (
	fieldState = 0
	fieldPPID  = 1
	fieldStart = 19
)

// ParseStat reads a line of /proc/PID/stat. The name stands in parentheses and
// may itself hold blanks, line feeds and parentheses: only the last ")" of the
// whole text ends it, since nothing after it can hold one.
func ParseStat(data []byte) (Stat, error) {
	begin := bytes.IndexByte(data, '(')
	end := bytes.LastIndexByte(data, ')')
	if begin < 0 || end < begin {
		return Stat{}, fmt.Errorf("name without parentheses: %w", ErrMalformed)
	}
	st := Stat{Name: string(data[begin+1 : end])}
	var err error
	if st.PID, err = number(bytes.TrimSpace(data[:begin])); err != nil {
		return Stat{}, fmt.Errorf("pid: %w", err)
	}
	fields := bytes.Fields(data[end+1:])
	if len(fields) <= fieldStart {
		return Stat{}, fmt.Errorf("%d fields after the name: %w", len(fields), ErrMalformed)
	}
	if s := fields[fieldState]; len(s) != 1 || s[0]|0x20 < 'a' || s[0]|0x20 > 'z' {
		return Stat{}, fmt.Errorf("state %q: %w", fields[fieldState], ErrMalformed)
	}
	st.State = fields[fieldState][0]
	if st.PPID, err = number(fields[fieldPPID]); err != nil {
		return Stat{}, fmt.Errorf("parent: %w", err)
	}
	if st.StartTime, err = strconv.ParseUint(string(fields[fieldStart]), 10, 64); err != nil {
		return Stat{}, fmt.Errorf("start time %q: %w", fields[fieldStart], ErrMalformed)
	}
	return st, nil
}

// Status is what matters of /proc/PID/status. The kernel escapes line feeds in
// the name there, so that no process can add a line.
type Status struct {
	UIDs [4]uint32 // real, effective, saved, file system
	// Caps are the capabilities that it has, or that a program which it executes
	// may come by: the permitted, effective, inheritable and ambient sets
	// together. They count in its own user namespace: see IDMaps.
	Caps uint64
	// Numbers is how many it has in pid namespaces, from that of the /proc that
	// was read down to its own. It is zero where the kernel doesn't say.
	Numbers int
}

// EUID returns the effective uid.
func (s Status) EUID() uint32 { return s.UIDs[1] }

// capSets are the lines that make up Caps. The bounding set gives nothing by
// itself.
var capSets = []string{"CapInh", "CapPrm", "CapEff", "CapAmb"}

// ParseStatus reads the text of /proc/PID/status.
func ParseStatus(data []byte) (Status, error) {
	var st Status
	seen := map[string]int{}
	for line := range bytes.Lines(data) {
		key, rest, _ := bytes.Cut(line, []byte(":"))
		name := string(key)
		switch {
		case name == "Uid":
			if err := st.parseUIDs(bytes.Fields(rest)); err != nil {
				return Status{}, err
			}
		case name == "NSpid":
			st.Numbers += len(bytes.Fields(rest))
			continue
		case slices.Contains(capSets, name):
			set, err := strconv.ParseUint(string(bytes.TrimSpace(rest)), 16, 64)
			if err != nil {
				return Status{}, fmt.Errorf("capabilities %q: %w", rest, ErrMalformed)
			}
			st.Caps |= set
		default:
			continue
		}
		seen[name]++
	}
	for _, name := range append([]string{"Uid"}, capSets...) {
		if seen[name] != 1 {
			return Status{}, fmt.Errorf("%d lines %s: %w", seen[name], name, ErrMalformed)
		}
	}
	return st, nil
}

func (s *Status) parseUIDs(fields [][]byte) error {
	if len(fields) != len(s.UIDs) {
		return fmt.Errorf("%d uids: %w", len(fields), ErrMalformed)
	}
	for i, f := range fields {
		uid, err := strconv.ParseUint(string(f), 10, 32)
		if err != nil {
			return fmt.Errorf("uid %q: %w", f, ErrMalformed)
		}
		s.UIDs[i] = uint32(uid)
	}
	return nil
}

// number reads a pid: no sign, and within the kernel's own type.
func number(text []byte) (int, error) {
	n, err := strconv.ParseUint(string(text), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("number %q: %w", text, ErrMalformed)
	}
	return int(n), nil
}
