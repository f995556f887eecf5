package proc

import (
	"bytes"
	"fmt"
	"strconv"
)

// IDMap says which ids exist in a process's user namespace: uid_map or gid_map.
// The ids are those of the reader's namespace.
type IDMap []IDRange

// IDRange is one line of an IDMap: First and the Count-1 ids above it.
type IDRange struct{ Inside, First, Count uint32 }

// Covers says whether an id of the reader's namespace exists in that one.
func (m IDMap) Covers(id uint32) bool {
	for _, r := range m {
		if id >= r.First && id-r.First < r.Count {
			return true
		}
	}
	return false
}

// IDMaps reads which uids and gids the process's user namespace has. Everybody
// may read that; which namespace it is, only who may trace the process.
func (d Dir) IDMaps() (uids, gids IDMap, err error) {
	for _, f := range []struct {
		name string
		to   *IDMap
	}{{"uid_map", &uids}, {"gid_map", &gids}} {
		data, err := d.read(f.name)
		if err != nil {
			return nil, nil, err
		}
		if *f.to, err = ParseIDMap(data); err != nil {
			return nil, nil, fmt.Errorf("reading %s of process %d: %w", f.name, d.pid, err)
		}
	}
	return uids, gids, nil
}

// ParseIDMap reads the text of uid_map or gid_map. Before a namespace has been
// given its ids the text is empty, and covers none.
func ParseIDMap(data []byte) (IDMap, error) {
	var m IDMap
	for line := range bytes.Lines(data) {
		fields := bytes.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("%d fields of an id map: %w", len(fields), ErrMalformed)
		}
		var n [3]uint32
		for i, f := range fields {
			v, err := strconv.ParseUint(string(f), 10, 32)
			if err != nil {
				return nil, fmt.Errorf("id map %q: %w", f, ErrMalformed)
			}
			n[i] = uint32(v)
		}
		m = append(m, IDRange{Inside: n[0], First: n[1], Count: n[2]})
	}
	return m, nil
}
