package zvmsim

import (
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"leaseguard.internal/internal/clock"
)

// maxStuck is far enough away to be never.
const maxStuck = 1000 * time.Hour

// listCheckpoints serves GET /v1/vpgs/ID/checkpoints.
func (s *Server) listCheckpoints(c *call) reply {
	if rep, bad := s.noGroup(c); bad {
		return rep
	}
	from, to := time.Time{}, time.Unix(1<<40, 0)
	for key, bound := range map[string]*time.Time{"startdate": &from, "enddate": &to} {
		if text := c.query[key]; text != "" {
			t, err := s.parseDate(text)
			if err != nil {
				return s.malformed("failed parsing %q as a date", text)
			}
			*bound = t
		}
	}
	rows := []obj{}
	for _, p := range c.group.points {
		if !p.time.Before(from) && !p.time.After(to) {
			rows = append(rows, p.object())
			s.shows(c, p)
		}
	}
	return ok(rows)
}

// shows notes the first list answer that has an insert's tag in it.
func (s *Server) shows(c *call, p point) {
	if !p.tagged {
		return
	}
	for _, i := range s.inserts {
		if i.tag == p.tag && i.vpg == c.group && i.visible == p.born && !i.shown {
			i.shown, i.read, i.readSeq = true, c.now, c.rec.Seq
			c.shows = append(c.shows, i)
		}
	}
}

// checkpointStats serves GET /v1/vpgs/ID/checkpoints/stats.
func (s *Server) checkpointStats(c *call) reply {
	if rep, bad := s.noGroup(c); bad {
		return rep
	}
	points := c.group.points
	if len(points) == 0 {
		return ok(obj{{"Earliest", nil}, {"Latest", nil}})
	}
	return ok(obj{{"Earliest", points[0].object()}, {"Latest", points[len(points)-1].object()}})
}

// insertCheckpoint serves POST /v1/vpgs/ID/checkpoints. It accepts as many
// equal tags as come, as the ZVM does.
func (s *Server) insertCheckpoint(c *call) reply {
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return message(http.StatusUnsupportedMediaType, "the body must be application/json")
	}
	tag, err := tagOf(c.body)
	c.rec.Tag = tag
	if rep, bad := s.noGroup(c); bad {
		return rep
	}
	if err != nil || strings.TrimSpace(tag) == "" {
		return s.malformed("the checkpoint name is missing or empty")
	}
	if s.now.Settings.Viewer {
		return message(http.StatusForbidden, "the role of this account lacks the permission Manage VPG")
	}
	f := s.faults(c.group)
	outcome := c.group.outcome(f)
	if outcome == InsertRefused {
		code := f.Code
		if code == 0 {
			code = http.StatusInternalServerError
		}
		return message(code, "inserting a checkpoint into VPG %s is not possible", c.group.spec.Name)
	}
	i := s.plan(c, tag, outcome)
	s.remember(i)
	c.insert, c.rec.Task = i, i.task
	if i.outcome == InsertTag {
		target := c.group
		if other := s.groupByName(f.TagOn); other != nil {
			target = other
		}
		target.pending = append(target.pending, i)
		target.advance(s, c.now)
	}
	return ok(jsonText(i.task))
}

// plan fixes, at the POST's arrival, when its task ends and its tag appears.
func (s *Server) plan(c *call, tag string, outcome Outcome) *insert {
	done := s.latency(c.group, Done).draw()
	visible := max(0, done+s.latency(c.group, Visible).draw())
	if outcome == InsertFails {
		done = s.latency(c.group, Fail).draw()
	}
	if outcome == InsertStuck {
		done = maxStuck
	}
	return &insert{
		tag: tag, vpg: c.group, seq: c.rec.Seq, received: c.now, outcome: outcome,
		task: fmt.Sprintf("%s.%s", guid("task", fmt.Sprint(c.rec.Seq, "/", random())), s.estate.Site.ID),
		ends: c.now.Add(done), visible: c.now.Add(visible),
	}
}

// outcome is what becomes of an insert into the VPG.
func (g *group) outcome(f Faults) Outcome {
	switch {
	case f.Insert != "":
		return f.Insert
	case *g.spec.Protected == entities["AWS"] || *g.spec.Protected == entities["Azure"]:
		return InsertNoTag
	case g.stands(f):
		return InsertStuck
	default:
		return InsertTag
	}
}

// tagOf reads the body's only property, in either spelling.
func tagOf(body []byte) (string, error) {
	var b struct {
		Name string `json:"checkpointName,case:ignore"`
	}
	err := json.Unmarshal(body, &b)
	return b.Name, err
}

// oneTask serves GET /v1/tasks/ID.
func (s *Server) oneTask(c *call) reply {
	i := s.insertByTask(c.arg)
	if life := time.Duration(s.now.Settings.TaskLife); i == nil || life > 0 && c.now >= i.ends.Add(life) {
		return message(http.StatusNotFound, "task %q was not found", c.arg)
	}
	c.rec.Tag, c.rec.Task = i.tag, i.task
	state, progress, reason := i.state(c.now)
	var completed any
	if state != taskInProgress {
		completed = stamp(s.zvmTime(i.ends))
	}
	return ok(obj{
		{"TaskIdentifier", i.task},
		{"Type", "InsertTaggedCP"},
		{"Status", obj{{"State", enum{state, taskStateNames}}, {"Progress", progress}}},
		{"Started", stamp(s.zvmTime(i.received))},
		{"Completed", completed},
		{"CompleteReason", reason},
		{"InitiatedBy", s.info.ClientID},
		{"IsCancellable", false},
		{"RelatedEntities", obj{
			{"Vpgs", []obj{{{"identifier", i.vpg.spec.ID}, {"type", "VpgApi"}}}},
			{"Sites", []obj{}}, {"Hosts", []obj{}}, {"FlrSessions", []obj{}},
		}},
		{"Link", s.link(i.task, "/v1/tasks/"+i.task, "TaskApi")},
	})
}

const (
	taskInProgress = 1
	taskFailed     = 4
	taskCompleted  = 6
)

var taskStateNames = []string{
	"FirstUnusedValue", "InProgress", "WaitingForUserInput", "Paused", "Failed", "Stopped", "Completed", "Cancelling",
}

// state is how far an insert's task is: progress goes to 50 while it works.
func (i *insert) state(now clock.Instant) (state, progress int, reason any) {
	switch {
	case now < i.ends:
		return taskInProgress, int(50 * now.Sub(i.received) / i.ends.Sub(i.received)), nil
	case i.outcome == InsertFails:
		return taskFailed, 50, "Checkpoint insertion failed: the protected site does not support tagged checkpoints."
	default:
		return taskCompleted, 100, ""
	}
}

// dateForms are what the API reads, from the whole form down to the year.
// Without a zone a date is in the server's local time.
var dateForms = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04Z", "2006-01-02T15:04",
	"2006-01-02T15", "2006-01-02", "2006-01", "2006",
}

func (s *Server) parseDate(text string) (time.Time, error) {
	zone := time.FixedZone("", int(time.Duration(s.now.Settings.LocalOffset)/time.Second))
	for _, form := range dateForms {
		in := zone
		if strings.HasSuffix(form, "Z") { // a letter of the form, not the zone that it stands for
			in = time.UTC
		}
		if t, err := time.ParseInLocation(form, text, in); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("reading date %q: no known form", text)
}
