package zvmsim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Behaviour is how a simulator acts at its start, and again after a reset.
type Behaviour struct {
	Latency  Latency           `json:"latency"`
	Settings Settings          `json:"settings"`
	Faults   map[string]Faults `json:"faults"` // by VPG name; "*" for those that have none of their own
	Answers  []Answer          `json:"answers"`
}

// Operations, as recorded in Request.Op and named in Latency and Answer.
const (
	OpToken  = "token"
	OpVMs    = "vms"
	OpVPGs   = "vpgs"
	OpSites  = "sites" // own site, peers, server time, value lists
	OpList   = "list"  // reading a VPG's checkpoints
	OpInsert = "insert"
	OpTask   = "task"
	OpOther  = "other" // whatever the simulator doesn't serve; it has no latency and takes no Answer
)

// Keys of Latency beside the operations: how an insert's task goes on.
const (
	Done    = "done"    // from the POST's arrival to the end of the task
	Visible = "visible" // from the end of the task to the tag in the list; below zero: before it
	Fail    = "fail"    // from the POST's arrival to the failure, with InsertFails
)

var (
	operations  = []string{OpToken, OpVMs, OpVPGs, OpSites, OpList, OpInsert, OpTask}
	latencyKeys = append(slices.Clone(operations), Done, Visible, Fail)
)

// Latency holds a delay per operation and the times of an insert's task. A key
// that is missing is no delay.
type Latency map[string]Range

func (l Latency) check() error {
	for key, r := range l {
		if !slices.Contains(latencyKeys, key) {
			return fmt.Errorf("latency %q isn't known: want one of %s", key, strings.Join(latencyKeys, ", "))
		}
		if r.Max > time.Hour || r.Min < 0 && key != Visible || r.Min < -time.Hour {
			return fmt.Errorf("latency %q is out of range: want 0s to 1h (visible may be negative)", key)
		}
	}
	return nil
}

// Outcome is what becomes of an insert.
type Outcome string

// Outcomes. The empty one is InsertNoTag where the protected site is AWS or
// Azure, InsertTag elsewhere, and InsertStuck while replication stands.
const (
	InsertTag     Outcome = "tag"        // the task completes and the tag appears
	InsertNoTag   Outcome = "no_tag"     // the task completes and no tag ever appears (variant a)
	InsertFails   Outcome = "task_fails" // the task fails with a reason (variant b)
	InsertRefused Outcome = "refused"    // the POST itself is answered with an error (variant c)
	InsertStuck   Outcome = "stuck"      // the task stays in progress for ever
)

var outcomes = []Outcome{"", InsertTag, InsertNoTag, InsertFails, InsertRefused, InsertStuck}

// Faults is how one VPG departs from the ordinary. The zero value doesn't.
type Faults struct {
	Insert     Outcome        `json:"insert,omitzero"`
	Code       int            `json:"code,omitzero"`        // HTTP status of InsertRefused, default 500
	TagOn      string         `json:"tag_on,omitzero"`      // the tag appears on this VPG in place of the right one
	Status     jsontext.Value `json:"status,omitzero"`      // sent as it stands in place of the status: 2, "MeetingSLA", null
	SubStatus  jsontext.Value `json:"sub_status,omitzero"`  // likewise
	OmitStatus bool           `json:"omit_status,omitzero"` // no status at all
	Latency    Latency        `json:"latency,omitzero"`     // before the server's
	Halted     bool           `json:"halted,omitzero"`      // replication stands: no checkpoint is made, and inserts stay in progress
	Testing    bool           `json:"testing,omitzero"`     // a failover test runs; checkpoints go on
}

func (f Faults) check() error {
	if !slices.Contains(outcomes, f.Insert) {
		return fmt.Errorf("insert %q isn't known: want tag, no_tag, task_fails, refused or stuck", f.Insert)
	}
	if f.Code != 0 && (f.Code < 400 || f.Code > 599) {
		return fmt.Errorf("code %d isn't an error status: want 400 to 599", f.Code)
	}
	for _, v := range []jsontext.Value{f.Status, f.SubStatus} {
		if v != nil && !v.IsValid() {
			return fmt.Errorf("status %q isn't JSON: want a number, a quoted name or null", string(v))
		}
	}
	return f.Latency.check()
}

// Answer replaces or disturbs what chosen requests get. The first answer that
// fits counts.
type Answer struct {
	Op       string `json:"op"`
	VPG      string `json:"vpg,omitzero"`      // only requests for this VPG
	After    int    `json:"after,omitzero"`    // let so many requests through first
	Times    int    `json:"times,omitzero"`    // then act on so many; 0 is all
	Status   int    `json:"status,omitzero"`   // the HTTP status; 0 leaves the real answer
	Body     string `json:"body,omitzero"`     // as it stands; one that begins with < is sent as HTML
	Executed bool   `json:"executed,omitzero"` // do the work before answering so
	Reset    bool   `json:"reset,omitzero"`    // reset the connection in place of an answer
	Cut      bool   `json:"cut,omitzero"`      // send half of the body, then close
	Delay    Span   `json:"delay,omitzero"`    // on top of the latency; 1h is a hang
	Slow     Span   `json:"slow,omitzero"`     // the body comes in pieces over this time
}

func (a Answer) check() error {
	if !slices.Contains(operations, a.Op) {
		return fmt.Errorf("answer for op %q: want one of %s", a.Op, strings.Join(operations, ", "))
	}
	if a.Status != 0 && (a.Status < 200 || a.Status > 599) {
		return fmt.Errorf("answer with status %d: want 200 to 599", a.Status)
	}
	if a.After < 0 || a.Times < 0 || a.Delay < 0 || a.Slow < 0 {
		return fmt.Errorf("answer for op %q: after, times, delay and slow can't be negative", a.Op)
	}
	return nil
}

func (b Behaviour) check() error {
	if err := b.Latency.check(); err != nil {
		return err
	}
	if err := b.Settings.check(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(b.Faults)) {
		if err := b.Faults[name].check(); err != nil {
			return fmt.Errorf("faults of vpg %q: %w", name, err)
		}
	}
	for _, a := range b.Answers {
		if err := a.check(); err != nil {
			return err
		}
	}
	return nil
}

func (b Behaviour) clone() Behaviour {
	b.Latency = maps.Clone(b.Latency)
	b.Faults = maps.Clone(b.Faults)
	b.Answers = slices.Clone(b.Answers)
	for name, f := range b.Faults {
		f.Latency = maps.Clone(f.Latency)
		b.Faults[name] = f
	}
	if b.Latency == nil {
		b.Latency = Latency{}
	}
	if b.Faults == nil {
		b.Faults = map[string]Faults{}
	}
	return b
}
