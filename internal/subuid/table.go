package subuid

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"leaseguard.internal/internal/safepath"
)

// Nobody owns what can't be told. It is no user's uid.
const Nobody = ^uint32(0)

// What is read at most of either file.
const (
	maxSubuid = 1 << 20
	maxPasswd = 8 << 20
)

// Table is the present content of the two files. Owner waits for nobody and reads
// nothing; Refresh does, and sees to it that what Owner says is new.
type Table struct {
	subuid, passwd string
	uid            uint32 // whose the files may be, beside root

	mu    sync.Mutex
	seen  [2]stamp
	fault error

	now atomic.Pointer[ranges]
}

// stamp tells one state of a file from another.
type stamp struct {
	info fs.FileInfo
	err  error
}

func (s stamp) same(t stamp) bool {
	if s.info == nil || t.info == nil {
		return s.info == nil && t.info == nil && s.err != nil && t.err != nil && s.err.Error() == t.err.Error()
	}
	return os.SameFile(s.info, t.info) && s.info.ModTime().Equal(t.info.ModTime()) && s.info.Size() == t.info.Size()
}

// System is the table of this machine.
func System() *Table { return New("/etc/subuid", "/etc/passwd", 0) }

// New is a table of other files, which may be uid's too. Before the first Refresh
// everything is Nobody's.
func New(subuid, passwd string, uid uint32) *Table {
	return &Table{subuid: subuid, passwd: passwd, uid: uid}
}

// Refresh reads the files again if they have changed since. The error says why
// the owners of some uids can't be told, for as long as that is so.
func (t *Table) Refresh() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var seen [2]stamp
	for i, path := range []string{t.subuid, t.passwd} {
		info, err := os.Lstat(path)
		seen[i] = stamp{info, err}
	}
	if t.now.Load() != nil && seen[0].same(t.seen[0]) && seen[1].same(t.seen[1]) {
		return t.fault
	}
	r, err := t.read()
	t.now.Store(r)
	t.seen, t.fault = seen, err
	return err
}

func (t *Table) read() (*ranges, error) {
	text, err := safepath.ReadFile(t.passwd, t.uid, maxPasswd)
	if err != nil {
		return &ranges{partly: true}, fmt.Errorf("reading accounts: %w", err)
	}
	people := accounts(text)
	text, err = safepath.ReadFile(t.subuid, t.uid, maxSubuid)
	if errors.Is(err, fs.ErrNotExist) {
		return &ranges{}, nil
	}
	var spans []span
	if err == nil {
		spans, err = parse(text, people)
	}
	if err != nil {
		local := make(map[uint32]bool, len(people))
		for _, uid := range people {
			local[uid] = true
		}
		return &ranges{partly: true, local: local}, fmt.Errorf("reading whose subordinate uids there are: %w; an administrator corrects it; until then who has no account in %s can't launch", err, t.passwd)
	}
	return &ranges{spans: spans}, nil
}

// Owner is the user that a uid counts as: itself, unless it is a subordinate uid.
func (t *Table) Owner(uid uint32) uint32 {
	r := t.now.Load()
	switch {
	case r == nil:
		return Nobody
	case r.partly && !r.local[uid] && uid != 0:
		return Nobody
	}
	i, found := slices.BinarySearchFunc(r.spans, uid, func(s span, uid uint32) int {
		if s.last < uid {
			return -1
		}
		return cmp.Compare(s.first, min(s.first, uid)) // 0 unless it begins after uid
	})
	if found {
		return r.spans[i].owner
	}
	return uid
}
