package checkpoint

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/zerto"
	"leaseguard.internal/internal/zvmsim"
)

// rig is a simulator, the real client of it, and a service that uses that.
type rig struct {
	*Service
	t   testing.TB
	sim *zvmsim.Server
}

type setUp struct {
	preset  string // default fast
	estate  *zvmsim.Estate
	change  func(*zvmsim.Behaviour)
	accept  []string // default MeetingSLA
	timeout time.Duration
	clock   clock.Clock
	vain    bool // no tag will come: its grace is short
}

// rigged starts all three.
func rigged(t testing.TB, up setUp) *rig {
	t.Helper()
	if up.preset == "" {
		up.preset = "fast"
	}
	b, err := zvmsim.Preset(up.preset)
	if err != nil {
		t.Fatal(err)
	}
	if up.change != nil {
		up.change(&b)
	}
	sim, err := zvmsim.Start(zvmsim.Options{Dir: t.TempDir(), Behaviour: &b, Estate: up.estate})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	if up.clock == nil {
		up.clock = clock.System{}
	}
	info := sim.Info()
	client, err := zerto.New(zerto.Config{
		URL: info.URL, CAFile: info.CAFile, ClientID: info.ClientID, Secret: info.ClientSecret,
		UID: uint32(os.Getuid()),
	}, up.clock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if up.accept == nil {
		up.accept = []string{"MeetingSLA"}
	}
	if up.timeout == 0 {
		up.timeout = 30 * time.Second
	}
	s := New(client, up.clock, Options{AcceptStatus: up.accept, Timeout: up.timeout})
	s.pace.fast, s.pace.task, s.pace.grace = 10*time.Millisecond, 20*time.Millisecond, 5*time.Second
	if up.vain {
		s.pace.grace = 100 * time.Millisecond
	}
	t.Cleanup(s.Close)
	return &rig{s, t, sim}
}

// inserts returns how many inserts the ZVM was sent, whatever it said.
func (r *rig) inserts() int { return r.sim.Count(zvmsim.OpInsert) }

func (r *rig) answer(a zvmsim.Answer) {
	r.t.Helper()
	if err := r.sim.Answer(a); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) fault(vpg string, f zvmsim.Faults) {
	r.t.Helper()
	if err := r.sim.Set(vpg, f); err != nil {
		r.t.Fatal(err)
	}
}

// outcome is what a case comes to: a code ("" is confirmed) after so many POSTs.
func (r *rig) outcome(req Request, code verdict.Code, posts int) Refusal {
	r.t.Helper()
	infos, err := r.Ensure(context.Background(), req)
	if n := r.inserts(); n != posts {
		r.t.Errorf("%d inserts were sent, want %d", n, posts)
	}
	for _, q := range r.sim.Requests() {
		if q.Op == zvmsim.OpOther || strings.Contains(strings.Join(q.Headers, " "), "Zic-") {
			r.t.Errorf("asked %s %s with %q", q.Method, q.Path, q.Headers)
		}
	}
	if code == "" {
		if err != nil || len(infos) == 0 {
			r.t.Fatalf("%+v, %v", infos, err)
		}
		return Refusal{}
	}
	if code != verdict.VMUnknown && infos != nil {
		r.t.Errorf("a refusal comes with %+v", infos)
	}
	refusal, ok := err.(*Refusal) //nolint:errorlint // Ensure's own type, unwrapped
	if !ok || refusal.Code != code || refusal.Object == "" || refusal.Cause == "" || refusal.Next == "" {
		r.t.Fatalf("error %v, want %s", err, code)
	}
	return *refusal
}

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
		b.Latency[zvmsim.Done] = zvmsim.Range{Min: time.Second, Max: time.Second}
	}
	tokens := func(r *rig) int { return r.sim.Count(zvmsim.OpToken) }
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		for _, op := range []string{zvmsim.OpList, zvmsim.OpTask} {
			r := rigged(t, setUp{change: long})
			r.answer(zvmsim.Answer{Op: op, Status: 401, After: 12, Times: 1})
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

func TestZ4_NamesAreComparedHere(t *testing.T) {
	t.Parallel()
	estate := func() *zvmsim.Estate {
		e := &zvmsim.Estate{VPGs: []zvmsim.VPG{{Name: "V1"}, {Name: "V2"}}, VMs: []zvmsim.VM{
			{Name: "PROD-db", VPGs: []string{"V1"}}, {Name: "prod-DB", VPGs: []string{"V2"}},
			{Name: "exact", VPGs: []string{"V1"}}, {Name: "EXACT", VPGs: []string{"V2"}},
			{Name: "twin", VPGs: []string{"V1"}}, {Name: "twin", VPGs: []string{"V2"}},
		}}
		for range 40 {
			e.VMs = append(e.VMs, zvmsim.VM{Name: "other-" + newTag("")[11:], VPGs: []string{"V1"}})
		}
		return e
	}
	ignore := func(b *zvmsim.Behaviour) { b.Settings.Filters = "ignore" }
	tests := map[string]struct {
		name   string
		change func(*zvmsim.Behaviour)
		code   verdict.Code
		cause  string
		posts  int
	}{
		"1 two in other cases":        {"prod-db", nil, verdict.VMAmbiguous, "PROD-db", 0},
		"1 two of one name":           {"twin", nil, verdict.VMAmbiguous, `VPG "V2"`, 0},
		"2 filter ignored, exact one": {"exact", ignore, "", "", 1},
		"2 filter ignored, none":      {"ghost", ignore, verdict.VMUnknown, "protects no machine", 0},
		"2 filter ignored, two":       {"twin", ignore, verdict.VMAmbiguous, "2 machines", 0},
		"2 substrings":                {"exac", func(b *zvmsim.Behaviour) { b.Settings.Filters = "substring" }, verdict.VMUnknown, "", 0},
		"3 empty list":                {"ghost", nil, verdict.VMUnknown, "protects no machine", 0},
		"4 status 400":                {"ghost", func(b *zvmsim.Behaviour) { b.Settings.UnknownVM400 = true }, verdict.VMUnknown, "400", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rigged(t, setUp{estate: estate(), change: tt.change})
			refusal := r.outcome(ask("s1", tt.name), tt.code, tt.posts)
			if tt.code != "" && !strings.Contains(refusal.Cause, tt.cause) {
				t.Errorf("cause %q, want %q in it", refusal.Cause, tt.cause)
			}
			if n := r.sim.Count(zvmsim.OpVMs); n != 1 {
				t.Errorf("the look-up was sent %d times", n)
			}
		})
	}
}

func TestIdentifiers(t *testing.T) {
	t.Parallel()
	r := rigged(t, setUp{})
	rows, err := r.zvm.VMs(t.Context(), zerto.Query{Name: "twin"})
	if err != nil || len(rows) != 2 {
		t.Fatalf("%+v, %v", rows, err)
	}
	by := func(id string) Request {
		return Request{Session: "s1", Targets: []catalog.Target{{Name: id, Kind: catalog.ByIdentifier}}}
	}
	r.outcome(by(rows[0].ID), "", 1)
	r.outcome(by(rows[0].ID[:36]+".vm-9999"), verdict.VMUnknown, 1)
	r.outcome(by("twin"), verdict.VMUnknown, 1)
	r.outcome(by(strings.ToUpper(rows[0].ID)), verdict.VMAmbiguous, 1)
	r.outcome(ask("s1", ""), verdict.VMUnknown, 1)
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
			for _, names := range []bool{false, true} {
				t.Run(name+" "+string(variant), func(t *testing.T) {
					t.Parallel()
					r := rigged(t, setUp{change: func(b *zvmsim.Behaviour) { b.Settings.EnumNames = names }})
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

// TestLostAnswerIsLookedFor has the connection reset after the insert was
// executed: the trap in which a repeated POST inserts twice.
func TestLostAnswerIsLookedFor(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]zvmsim.Answer{
		"reset": {Reset: true, Executed: true}, "500": {Status: 500, Executed: true}, "cut": {Cut: true}, "html": {Status: 200, Body: "<html>", Executed: true},
		"hangs": {Delay: zvmsim.Span(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rigged(t, setUp{})
			a.Op = zvmsim.OpInsert
			r.answer(a)
			r.outcome(ask("s1", "app-01"), "", 1)
		})
	}
	t.Run("reset before it was executed", func(t *testing.T) {
		t.Parallel()
		r := rigged(t, setUp{vain: true})
		r.answer(zvmsim.Answer{Op: zvmsim.OpInsert, Reset: true})
		r.outcome(ask("s1", "app-01"), verdict.CheckpointFailed, 1)
	})
}

func TestRefusalsOfTheZVM(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer zvmsim.Answer
		code   verdict.Code
		next   string
		posts  int
	}{
		"viewer may not insert":       {zvmsim.Answer{Op: zvmsim.OpInsert, Status: 403}, verdict.CheckpointFailed, nextRole, 1},
		"no token: 400":               {zvmsim.Answer{Op: zvmsim.OpToken, Status: 400, Body: `{"error":"invalid_grant"}`}, verdict.CheckpointFailed, nextCredential, 0},
		"no token: 401":               {zvmsim.Answer{Op: zvmsim.OpToken, Status: 401}, verdict.CheckpointFailed, nextCredential, 0},
		"no token endpoint":           {zvmsim.Answer{Op: zvmsim.OpToken, Status: 404}, verdict.CheckpointUnsupported, nextUnsupported, 0},
		"look-up answers in html":     {zvmsim.Answer{Op: zvmsim.OpVMs, Status: 200, Body: "<html>"}, verdict.CheckpointFailed, nextRepeat, 0},
		"look-up has both spellings":  {zvmsim.Answer{Op: zvmsim.OpVMs, Status: 200, Body: `[{"VmName":"app-01","vmName":"app-01"}]`}, verdict.CheckpointFailed, nextRepeat, 0},
		"no server time":              {zvmsim.Answer{Op: zvmsim.OpSites, Status: 403}, verdict.CheckpointFailed, nextRole, 0},
		"vpg can't be read":           {zvmsim.Answer{Op: zvmsim.OpVPGs, Status: 403}, verdict.CheckpointFailed, nextRole, 0},
		"platform isn't known at all": {zvmsim.Answer{Op: zvmsim.OpVMs, Status: 200, Body: bareRow}, verdict.CheckpointUnsupported, nextUnsupported, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rigged(t, setUp{})
			r.answer(tt.answer)
			if refusal := r.outcome(ask("s1", "app-01"), tt.code, tt.posts); refusal.Next != tt.next {
				t.Errorf("next %q", refusal.Next)
			}
		})
	}
}

const bareRow = `[{"VmIdentifier":"i","VmName":"app-01","VpgIdentifier":"5a3f1c2e-0000-4000-8000-000000000000","VpgName":"V","Entities":{"Protected":99}}]`

func TestLookUpsAreCached(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(clock.Instant(time.Hour), clock.System{}.Wall())
	r := rigged(t, setUp{clock: clk})
	for range 3 {
		r.outcome(ask("s1", "win-aws-01"), verdict.CheckpointUnsupported, 0)
	}
	if n := r.sim.Count(zvmsim.OpVMs); n != 1 {
		t.Errorf("%d look-ups", n)
	}
	clk.Advance(cacheTime)
	r.outcome(ask("s1", "win-aws-01"), verdict.CheckpointUnsupported, 0)
	r.outcome(ask("s1", "ghost"), verdict.VMUnknown, 0)
	r.outcome(ask("s1", "ghost"), verdict.VMUnknown, 0) // what isn't there is asked for again
	if n := r.sim.Count(zvmsim.OpVMs); n != 4 {
		t.Errorf("%d look-ups", n)
	}
}
