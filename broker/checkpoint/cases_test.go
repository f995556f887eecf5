package checkpoint

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/zvmsim"
)

func TestZ1_AcceptedIsNotDone(t *testing.T) {
	t.Parallel()
	t.Run("no tag ever", func(t *testing.T) {
		t.Parallel()
		r := rigged(t, setUp{vain: true})
		r.fault("VPG-LOCAL", zvmsim.Faults{Insert: zvmsim.InsertNoTag})
		refusal := r.outcome(ask("s1", "app-01"), verdict.CheckpointFailed, 1)
		if !strings.Contains(refusal.Cause, "didn't appear") {
			t.Errorf("cause %q", refusal.Cause)
		}
	})
	t.Run("tag on another vpg", func(t *testing.T) {
		t.Parallel()
		r := rigged(t, setUp{vain: true})
		r.fault("VPG-LOCAL", zvmsim.Faults{TagOn: "VPG-A"})
		r.outcome(ask("s1", "app-01"), verdict.CheckpointFailed, 1)
	})
	t.Run("done", func(t *testing.T) {
		t.Parallel()
		r := rigged(t, setUp{})
		r.outcome(ask("s1", "app-01"), "", 1)
	})
}

func TestZ2_TokenEndsInMidPoll(t *testing.T) {
	t.Parallel()
	long := func(b *zvmsim.Behaviour) {
		b.Latency[zvmsim.Done] = zvmsim.Range{Min: 2 * time.Second, Max: 2 * time.Second}
	}
	tokens := func(r *rig) int { return r.sim.Count(zvmsim.OpToken) }
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		for _, op := range []string{zvmsim.OpList, zvmsim.OpTask} {
			r := rigged(t, setUp{change: long})
			r.answer(zvmsim.Answer{Op: op, Status: 401, After: 8, Times: 1})
			r.outcome(ask("s1", "app-01"), "", 1)
			if n := tokens(r); n != 2 {
				t.Errorf("%d token requests", n)
			}
			tasks := map[string]bool{}
			for _, q := range r.sim.Requests() {
				if q.Op == zvmsim.OpTask {
					tasks[q.Path] = true
				}
			}
			if len(tasks) != 1 {
				t.Errorf("tasks %v were asked for", tasks)
			}
		}
	})
	t.Run("again after the renewal", func(t *testing.T) {
		t.Parallel()
		r := rigged(t, setUp{change: long})
		r.answer(zvmsim.Answer{Op: zvmsim.OpList, Status: 401, After: 12})
		refusal := r.outcome(ask("s1", "app-01"), verdict.CheckpointFailed, 1)
		if !strings.Contains(refusal.Cause, "credential") || refusal.Next != nextCredential {
			t.Errorf("refusal %+v", refusal)
		}
	})
	t.Run("wall clock jumps", func(t *testing.T) {
		t.Parallel()
		r := rigged(t, setUp{change: long, clock: &jumping{}, timeout: 30 * time.Second})
		r.outcome(ask("s1", "app-01"), "", 1)
	})
	t.Run("short life", func(t *testing.T) {
		t.Parallel()
		r := rigged(t, setUp{change: func(b *zvmsim.Behaviour) {
			b.Latency[zvmsim.Done] = zvmsim.Range{Min: 1200 * time.Millisecond, Max: 1200 * time.Millisecond}
			b.Settings.TokenLife = zvmsim.Span(time.Second)
		}})
		r.outcome(ask("s1", "app-01"), "", 1)
	})
}

// jumping is a clock whose wall time is an hour further at each look.
type jumping struct {
	clock.System
	looks atomic.Int64
}

func (j *jumping) Wall() time.Time {
	return j.System.Wall().Add(time.Duration(j.looks.Add(1)) * time.Hour)
}

func TestZ5_SeveralVPGs(t *testing.T) {
	t.Parallel()
	estate := func(paused string) *zvmsim.Estate {
		e := &zvmsim.Estate{VPGs: []zvmsim.VPG{{Name: "VPG-A"}, {Name: "VPG-B"}, {Name: "VPG-C"}},
			VMs: []zvmsim.VM{{Name: "vm-11", VPGs: []string{"VPG-A", "VPG-B", "VPG-C"}}}}
		for i := range e.VPGs {
			if e.VPGs[i].Name == paused {
				e.VPGs[i].SubStatus = 25
			}
		}
		return e
	}
	all, named := ask("s1", "vm-11"), ask("s1", "vm-11")
	named.Targets[0].VPG = "VPG-A"
	other := ask("s1", "vm-11")
	other.Targets[0].VPG = "vpg-a"
	t.Run("all, one paused", func(t *testing.T) {
		t.Parallel()
		r := rigged(t, setUp{estate: estate("VPG-C")})
		if refusal := r.outcome(all, verdict.CheckpointFailed, 0); refusal.Object != `VPG "VPG-C"` {
			t.Errorf("refusal %+v", refusal)
		}
	})
	t.Run("all, one refuses the insert", func(t *testing.T) {
		t.Parallel()
		r := rigged(t, setUp{estate: estate(""), vain: true})
		r.fault("VPG-B", zvmsim.Faults{Insert: zvmsim.InsertRefused, Code: 500})
		if refusal := r.outcome(all, verdict.CheckpointFailed, 3); refusal.Object != `VPG "VPG-B"` {
			t.Errorf("refusal %+v", refusal)
		}
	})
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		r := rigged(t, setUp{estate: estate("")})
		r.outcome(all, "", 3)
	})
	t.Run("named", func(t *testing.T) {
		t.Parallel()
		r := rigged(t, setUp{estate: estate("VPG-C")})
		r.fault("VPG-B", zvmsim.Faults{Insert: zvmsim.InsertRefused, Code: 500})
		r.outcome(named, "", 1)
	})
	t.Run("named wrongly", func(t *testing.T) {
		t.Parallel()
		r := rigged(t, setUp{estate: estate("")})
		if refusal := r.outcome(other, verdict.CheckpointFailed, 0); !strings.Contains(refusal.Cause, `"VPG-B"`) {
			t.Errorf("cause %q", refusal.Cause)
		}
	})
}

func TestZ7_OnlyAcceptedStatus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status string // JSON; "" is missing
		accept []string
		ok     bool
	}{
		{`1`, nil, true}, {`"MeetingSLA"`, nil, true},
		{`2`, nil, false}, {`3`, nil, false}, {`4`, nil, false}, {`0`, nil, false}, {`5`, nil, false},
		{`99`, nil, false}, {`null`, nil, false}, {`"1"`, nil, false}, {``, nil, false}, {`"meetingsla"`, nil, false},
		{`2`, []string{"MeetingSLA", "NotMeetingSLA"}, true}, {`"NotMeetingSLA"`, []string{"NotMeetingSLA"}, true},
		{`3`, []string{"RpoNotMeetingSLA"}, true}, {`4`, []string{"RpoNotMeetingSLA"}, false},
		{`4`, []string{"HistoryNotMeetingSLA"}, true}, {`1`, []string{"NotMeetingSLA"}, false},
		{`99`, []string{"99", "", "unknown"}, false}, {`"1"`, []string{"1"}, false}, {`null`, []string{"null", ""}, false},
		{`1`, []string{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.status+" with "+strings.Join(tt.accept, " "), func(t *testing.T) {
			t.Parallel()
			r := rigged(t, setUp{accept: tt.accept})
			f := zvmsim.Faults{Status: jsontext.Value(tt.status), OmitStatus: tt.status == ""}
			if tt.status == "" {
				f.Status = nil
			}
			r.fault("VPG-LOCAL", f)
			if tt.ok {
				r.outcome(ask("s1", "app-01"), "", 1)
				return
			}
			if refusal := r.outcome(ask("s1", "app-01"), verdict.CheckpointFailed, 0); !strings.Contains(refusal.Cause, "status") {
				t.Errorf("cause %q", refusal.Cause)
			}
		})
	}
}

func TestSubStatus(t *testing.T) {
	t.Parallel()
	for status, ok := range map[string]bool{
		`0`: true, `6`: true, `"BitmapSync"`: true, `1`: false, `24`: false, `25`: false, `26`: false, `28`: false, `99`: false, `null`: false, `"0"`: false,
	} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			r := rigged(t, setUp{})
			r.fault("VPG-LOCAL", zvmsim.Faults{SubStatus: jsontext.Value(status), Insert: zvmsim.InsertTag})
			if ok {
				r.outcome(ask("s1", "app-01"), "", 1)
			} else {
				r.outcome(ask("s1", "app-01"), verdict.CheckpointFailed, 0)
			}
		})
	}
	r := rigged(t, setUp{accept: []string{"NotMeetingSLA"}})
	r.outcome(ask("s1", "paused-01"), verdict.CheckpointFailed, 0)
}

func TestZ8_OtherPlatformsBeforeAnyPost(t *testing.T) {
	t.Parallel()
	t.Run("only the in-cloud api", func(t *testing.T) {
		t.Parallel()
		r := rigged(t, setUp{change: func(b *zvmsim.Behaviour) { b.Settings.InCloud = true }})
		infos, err := r.Ensure(t.Context(), ask("s1", "app-01"))
		if refusedAs(t, err, verdict.CheckpointUnsupported); infos != nil || r.inserts() != 0 {
			t.Errorf("%+v with %d inserts", infos, r.inserts())
		}
	})
	for _, name := range []string{"win-aws-01", "az-01"} {
		for _, variant := range []zvmsim.Outcome{"", zvmsim.InsertNoTag, zvmsim.InsertFails, zvmsim.InsertRefused, zvmsim.InsertTag} {
			t.Run(name+" "+string(variant), func(t *testing.T) {
				t.Parallel()
				r := rigged(t, setUp{change: func(b *zvmsim.Behaviour) { b.Settings.EnumNames = variant == "" }})
				r.fault("*", zvmsim.Faults{Insert: variant})
				r.outcome(ask("s1", name), verdict.CheckpointUnsupported, 0)
				// A token and one look-up decide, which is what makes it quick.
				if n := len(r.sim.Requests()); n != 2 {
					t.Errorf("%d requests before the refusal", n)
				}
				r.outcome(ask("s1", "app-01", name), verdict.CheckpointUnsupported, 0)
			})
		}
	}
	vcenter := 0
	tests := map[string]*zvmsim.Estate{
		// The platform's number says vCenter, the site's type says otherwise.
		"peer site of type aws":    {Site: zvmsim.Site{Name: "HQ"}, Peers: []zvmsim.Site{{Name: "P", Type: "AWS"}}, VPGs: []zvmsim.VPG{{Name: "V", ProtectedSite: "P", RecoverySite: "HQ", Protected: &vcenter}}},
		"local site of type azure": {Site: zvmsim.Site{Name: "HQ", Type: "Azure"}, VPGs: []zvmsim.VPG{{Name: "V", Protected: &vcenter}}},
	}
	for name, estate := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			estate.VMs = []zvmsim.VM{{Name: "vm", VPGs: []string{"V"}}}
			r := rigged(t, setUp{estate: estate})
			r.outcome(ask("s1", "vm"), verdict.CheckpointUnsupported, 0)
		})
	}
	answers := map[string]zvmsim.Answer{
		"202 without a body": {Status: 202},
		"409":                {Status: 409, Body: `{"errorCode":"X","errorMessage":"VpgManagementTaskIsAlreadyRunning"}`},
		"501":                {Status: 501},
	}
	for name, a := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rigged(t, setUp{vain: true})
			a.Op = zvmsim.OpInsert
			r.answer(a)
			r.outcome(ask("s1", "app-01"), verdict.CheckpointUnsupported, 1)
		})
	}
	t.Run("202 and the tag appears", func(t *testing.T) {
		t.Parallel()
		r := rigged(t, setUp{})
		r.answer(zvmsim.Answer{Op: zvmsim.OpInsert, Status: 202, Executed: true})
		r.outcome(ask("s1", "app-01"), "", 1)
	})
}

func TestF2_TaskNeverEnds(t *testing.T) {
	t.Parallel()
	r := rigged(t, setUp{})
	r.fault("VPG-LOCAL", zvmsim.Faults{Insert: zvmsim.InsertStuck})
	// The budget of the call ends first, and the answer is there at once.
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	_, err := r.Ensure(ctx, ask("s1", "app-01"))
	refusedAs(t, err, verdict.CheckpointTimeout)
	if n := r.inserts(); n != 1 {
		t.Errorf("%d inserts", n)
	}
	r.outcome(ask("s1", "multi-01"), "", 3) // two more: other VPGs aren't held up
}
