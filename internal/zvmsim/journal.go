package zvmsim

import (
	"slices"
	"strconv"
	"time"

	"leaseguard.internal/internal/clock"
)

// interval is the distance of automatic checkpoints.
const interval = 5 * time.Second

// point is one checkpoint. Its time is ZVM time in whole seconds.
type point struct {
	id     int64
	time   time.Time
	tag    string
	tagged bool
	born   clock.Instant
}

// insert is a POST that was accepted, and what becomes of it.
type insert struct {
	tag      string
	task     string
	vpg      *group
	seq      int // of the request
	received clock.Instant
	delay    time.Duration // before the POST's answer
	outcome  Outcome
	ends     clock.Instant // of the task
	visible  clock.Instant // of the tag, where it appears
	shown    bool          // the tag has been in an answer
	read     clock.Instant // arrival of the first list request that showed it
	readSeq  int
	readOwn  time.Duration
}

// group is a VPG at run time. Its journal is brought up to an instant whenever
// somebody looks.
type group struct {
	spec    VPG
	vms     []*VM
	points  []point
	lastID  int64
	next    clock.Instant // of the next automatic checkpoint
	pending []*insert     // tags that will appear here
}

// stands tells whether replication is halted, so that no checkpoint is made: the
// peer is disconnected or the VPG paused, or a fault says so.
func (g *group) stands(f Faults) bool {
	return f.Halted || g.spec.SubStatus >= 24 && g.spec.SubStatus <= 26
}

func (g *group) keeps() time.Duration { return time.Duration(g.spec.JournalMinutes) * time.Minute }

// fill makes the history that a VPG has when the simulator starts. Ids begin
// where the position in the estate puts them: they are unique per VPG only.
func (g *group) fill(s *Server, position int, now clock.Instant) {
	g.lastID = int64(7000 + 180*position)
	g.next = now.Add(-g.keeps())
	if g.stands(Faults{}) {
		now = now.Add(-10 * time.Minute)
	}
	g.run(s, now, true)
}

// advance makes what has come about until now and drops what the journal no
// longer holds.
func (g *group) advance(s *Server, now clock.Instant) {
	stands := g.stands(s.faults(g))
	g.run(s, now, !stands)
	if stands && g.next <= now { // what wasn't made is not made up for
		g.next = now.Add(interval)
	}
	g.expire(now)
}

// run adds checkpoints in the order of time.
func (g *group) run(s *Server, now clock.Instant, automatic bool) {
	for {
		due := g.earliest(now)
		switch {
		case automatic && g.next <= now && (due == nil || g.next <= due.visible):
			g.add(s, g.next, "", false)
			g.next = g.next.Add(interval)
		case due != nil:
			g.add(s, due.visible, due.tag, true)
			g.pending = slices.DeleteFunc(g.pending, func(i *insert) bool { return i == due })
		default:
			return
		}
	}
}

// earliest returns the first tag that is due, nil for none.
func (g *group) earliest(now clock.Instant) *insert {
	var first *insert
	for _, i := range g.pending {
		if i.visible <= now && (first == nil || i.visible < first.visible) {
			first = i
		}
	}
	return first
}

func (g *group) add(s *Server, at clock.Instant, tag string, tagged bool) {
	g.lastID++
	g.points = append(g.points, point{g.lastID, s.zvmTime(at).Truncate(time.Second), tag, tagged, at})
}

func (g *group) expire(now clock.Instant) {
	oldest := now.Add(-g.keeps())
	keep := 0
	for keep < len(g.points) && g.points[keep].born < oldest {
		keep++
	}
	g.points = slices.Delete(g.points, 0, keep)
}

func (p point) object() obj {
	o := obj{
		{"CheckpointIdentifier", strconv.FormatInt(p.id, 10)},
		{"TimeStamp", stamp(p.time)},
		{"Tag", nil},
		{"Type", 0},
	}
	if p.tagged {
		o[2].value, o[3].value = p.tag, 1
	}
	return o
}
