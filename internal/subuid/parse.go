// Package subuid says whose a subordinate uid is. /etc/subuid gives users ranges
// of uids that they may become in a user namespace of their own, and with a
// set-uid program also outside of it. So one person is tens of thousands of users
// to who counts by uid; Table.Owner makes them one again.
//
//   - A uid in nobody's range is its own.
//   - A range of root's is one user, which isn't root: root's power over it says
//     nothing about what its processes may do.
//   - Where ranges of several users overlap, and where the owner has no account in
//     /etc/passwd, it is Nobody's.
//   - A line that isn't understood, or a file that can't be read or that others
//     could have written, leaves only the uids of /etc/passwd their own; all others
//     are Nobody's. A file that isn't there has no ranges.
//
// What it doesn't see: ranges from another source (subid in nsswitch.conf).
package subuid

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// span are uids of one owner, the last one included.
type span struct{ first, last, owner uint32 }

// ranges are the content of the files. The zero value has none.
type ranges struct {
	spans  []span          // in order, none over another
	partly bool            // only the owners of local are known
	local  map[uint32]bool // uids with an account
}

// accounts are the uids of passwd's users. The first of a name counts, as it does
// for who looks it up.
func accounts(text []byte) map[string]uint32 {
	people := map[string]uint32{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimRight(line, "\n"), ":")
		if len(f) != 7 {
			continue
		}
		uid, err := strconv.ParseUint(f[2], 10, 32)
		if _, twice := people[f[0]]; err == nil && !twice {
			people[f[0]] = uint32(uid)
		}
	}
	return people
}

// parse reads lines of OWNER:FIRST:COUNT, where OWNER is a name or a uid.
func parse(text []byte, people map[string]uint32) ([]span, error) {
	var spans []span
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		s, some, err := parseLine(line, people)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if some {
			spans = append(spans, s)
		}
	}
	return merged(spans), nil
}

func parseLine(line string, people map[string]uint32) (s span, some bool, err error) {
	f := strings.Split(line, ":")
	if len(f) != 3 || f[0] == "" {
		return span{}, false, fmt.Errorf("%q is not OWNER:FIRST:COUNT", line)
	}
	first, err1 := strconv.ParseUint(f[1], 10, 32)
	count, err2 := strconv.ParseUint(f[2], 10, 32)
	if err1 != nil || err2 != nil || first+count > 1<<32-1 {
		return span{}, false, fmt.Errorf("%q has no range of uids", line)
	}
	if count == 0 {
		return span{}, false, nil
	}
	return span{uint32(first), uint32(first + count - 1), owner(f[0], uint32(first), people)}, true, nil
}

// owner is who an entry's name or number means. Where it could be two, it is
// nobody.
func owner(name string, first uint32, people map[string]uint32) uint32 {
	uid, named := people[name]
	number, err := strconv.ParseUint(name, 10, 32)
	switch {
	case named && err == nil && uint32(number) != uid, !named && err != nil:
		return Nobody
	case !named:
		uid = uint32(number)
	}
	if uid == 0 {
		return first
	}
	return uid
}

// merged puts spans into order. Those that overlap become one: their owner's, or
// nobody's if they have several.
func merged(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return int(int64(a.first) - int64(b.first)) })
	var out []span
	for _, s := range spans {
		if len(out) == 0 || out[len(out)-1].last < s.first {
			out = append(out, s)
			continue
		}
		last := &out[len(out)-1]
		if last.owner != s.owner {
			last.owner = Nobody
		}
		last.last = max(last.last, s.last)
	}
	return out
}
