package broker

import (
	"slices"
	"strings"
	"sync"
	"time"

	"leaseguard.internal/broker/store"
)

// minPrefix is the least of an id that may stand for all of it.
const minPrefix = 4

// maxEnded bounds the memory of ended sessions. Beyond it, and some more so that
// not each end has to look for the oldest, the oldest are forgotten.
const maxEnded = 10_000

// ended remembers sessions that are over, for guard launch --resume.
type ended struct {
	mu   sync.Mutex
	by   map[string]store.Session
	gone []string          // forgotten here and still in the store
	wait int               // how many of these have to stay there for now
	last map[uint32]string // of each user who had a session in this boot, the last
}

func newEnded() *ended { return &ended{by: map[string]store.Session{}, last: map[uint32]string{}} }

// mark remembers, for this boot and for whatever broker runs in it, that a user
// had a session: the store keeps that one's record.
func (e *ended) mark(user uint32, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last[user] = id
}

func (e *ended) had(user uint32) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last[user] != ""
}

func (e *ended) add(r store.Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// An older generation may be heard of after a newer one.
	if old, known := e.by[r.ID]; known && old.Generation > r.Generation {
		return
	}
	// What a resume asks for; most of a session's text is not.
	e.by[r.ID] = store.Session{ID: r.ID, Generation: r.Generation, UID: r.UID, Runtime: r.Runtime, Alarm: r.Alarm, Started: r.Started}
	if len(e.by) > maxEnded+maxEnded/10 {
		e.forgetOldest(len(e.by) - maxEnded)
	}
}

func (e *ended) forgetOldest(n int) {
	all := make([]store.Session, 0, len(e.by))
	for _, r := range e.by {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b store.Session) int { return a.Started.Compare(b.Started) })
	for _, r := range all[:n] {
		delete(e.by, r.ID)
		e.gone = append(e.gone, r.ID)
	}
}

// find returns the session with that id, or the only one whose id begins so.
func (e *ended) find(prefix string) (found store.Session, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r, exact := e.by[prefix]; exact {
		return r, true
	}
	for id, r := range e.by {
		if len(prefix) < minPrefix || !strings.HasPrefix(id, prefix) {
			continue
		}
		if ok {
			return store.Session{}, false
		}
		found, ok = r, true
	}
	return found, ok
}

func (e *ended) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.by, id)
}

// expire forgets what began before a time.
func (e *ended) expire(before time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, r := range e.by {
		if r.Started.Before(before) {
			delete(e.by, id)
			e.gone = append(e.gone, id)
		}
	}
}

// over hands out, once, the ids that the store is to forget too. One that has
// been resumed since is not among them, and a user's last of this boot waits.
func (e *ended) over(live func(id string) bool) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := make(map[string]bool, len(e.last))
	for _, id := range e.last {
		last[id] = true
	}
	var ids, wait []string
	for _, id := range e.gone {
		switch _, back := e.by[id]; {
		case back || live(id):
		case last[id]:
			wait = append(wait, id)
		default:
			ids = append(ids, id)
		}
	}
	e.gone, e.wait = wait, len(wait)
	return ids
}

// crowd says whether so many are to be forgotten that it is time: whoever launches
// all the time would fill the disk, and the memory of the next broker's start.
func (e *ended) crowd() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.gone)-e.wait > maxEnded/10
}
