//go:build failpoint

package broker

import (
	"slices"
	"testing"

	"leaseguard.internal/broker/store"
	"leaseguard.internal/internal/failpoint"
)

// TestStoredSessionKeepsBoth: an alarm that is raised while the disk takes its
// time over something else of the session takes nothing of that back, nor the
// other way round.
func TestStoredSessionKeepsBoth(t *testing.T) {
	f := newFixture(t, nil)
	id := f.session().ID
	s := f.sessions.ByID(id)
	f.eventually("the store knows that it is launched", func() bool { return storedSession(f.Broker, id).Launched })
	reached, goOn := make(chan struct{}), make(chan struct{})
	first := true
	defer failpoint.Watch(func(point string) error {
		if point == "store/before-begin" && first {
			first = false
			close(reached)
			<-goOn
		}
		return nil
	})()
	read := make(chan struct{})
	go func() { defer close(read); f.ask("Read") }() // its gate is heard for the first time
	<-reached
	s.Lock("an alarm")
	f.saveSession(s)
	close(goOn)
	<-read
	f.eventually("the alarm is stored", func() bool { return storedSession(f.Broker, id).Alarm != "" })
	if got := storedSession(f.Broker, id); !got.GateSeen || !got.Launched {
		t.Errorf("stored: %+v", got)
	}
}

// storedSession is the session as the store has it.
func storedSession(b *Broker, id string) store.Session {
	all, err := b.store.Sessions()
	i := slices.IndexFunc(all, func(s store.Session) bool { return s.ID == id })
	if err != nil || i < 0 {
		return store.Session{}
	}
	return all[i]
}
