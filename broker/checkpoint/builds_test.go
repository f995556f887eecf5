package checkpoint

import (
	"github.com/go-json-experiment/json/jsontext"
	"testing"
	"time"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/zvmsim"
)

// TestZVMsOfManyKinds takes a checkpoint from each kind of ZVM there is, and
// finds it, or says why not before anything is asked for.
func TestZVMsOfManyKinds(t *testing.T) {
	t.Parallel()
	halted := func(status, sub string) zvmsim.Faults {
		return zvmsim.Faults{Halted: true, Status: raw(status), SubStatus: raw(sub)}
	}
	tests := map[string]struct {
		change func(*zvmsim.Settings)
		fault  zvmsim.Faults
		code   verdict.Code
		posts  int
	}{
		"times without milliseconds":     {func(s *zvmsim.Settings) { s.Dates = "iso" }, zvmsim.Faults{}, "", 1},
		"times of old builds":            {func(s *zvmsim.Settings) { s.Dates = "epoch" }, zvmsim.Faults{}, "", 1},
		"times of old builds, in a zone": {func(s *zvmsim.Settings) { s.Dates, s.LocalOffset = "epoch_zone", span(3*time.Hour) }, zvmsim.Faults{}, "", 1},
		"a server east of Greenwich":     {func(s *zvmsim.Settings) { s.LocalOffset = span(9 * time.Hour) }, zvmsim.Faults{}, "", 1},
		"a server west of Greenwich":     {func(s *zvmsim.Settings) { s.LocalOffset = span(-8 * time.Hour) }, zvmsim.Faults{}, "", 1},
		"camel case and names":           {func(s *zvmsim.Settings) { s.CamelCase, s.EnumNames = true, true }, zvmsim.Faults{}, "", 1},
		"an old build":                   {func(s *zvmsim.Settings) { s.OldBuild = true }, zvmsim.Faults{}, "", 1},
		"tasks vanish at their end":      {func(s *zvmsim.Settings) { s.TaskLife = 1 }, zvmsim.Faults{}, "", 1},
		"tasks vanish, tag never":        {func(s *zvmsim.Settings) { s.TaskLife = 1 }, zvmsim.Faults{Insert: zvmsim.InsertNoTag}, verdict.CheckpointFailed, 1},
		"an account that may only look":  {func(s *zvmsim.Settings) { s.Viewer = true }, zvmsim.Faults{}, verdict.CheckpointFailed, 1},
		"a Windows ZVM":                  {func(s *zvmsim.Settings) { s.Windows = true }, zvmsim.Faults{}, verdict.CheckpointUnsupported, 0},
		"a failover test runs":           {nil, zvmsim.Faults{Testing: true}, "", 1},
		"the first synchronisation runs": {nil, halted("0", "1"), verdict.CheckpointFailed, 0},
		"the peer is disconnected":       {nil, halted("2", "24"), verdict.CheckpointFailed, 0},
		"paused by a user":               {nil, halted("2", "25"), verdict.CheckpointFailed, 0},
		"the group is being deleted":     {nil, halted("7", "21"), verdict.CheckpointFailed, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rigged(t, setUp{vain: tt.code != "", change: func(b *zvmsim.Behaviour) {
				if tt.change != nil {
					tt.change(&b.Settings)
				}
			}})
			r.fault("VPG-LOCAL", tt.fault)
			r.outcome(ask("s1", "app-01"), tt.code, tt.posts)
		})
	}
}

func raw(s string) jsontext.Value { return jsontext.Value(s) }

func span(d time.Duration) zvmsim.Span { return zvmsim.Span(d) }

// TestResyncBeforeUse has a synchronisation take away every checkpoint between
// confirmation and use: a reused one is read again and found to be gone.
func TestResyncBeforeUse(t *testing.T) {
	t.Parallel()
	r := rigged(t, setUp{})
	req := ask("s1", "app-01")
	req.Targets[0].Reuse = time.Hour
	r.outcome(req, "", 1)
	if err := r.sim.Resync("VPG-LOCAL"); err != nil {
		t.Fatal(err)
	}
	r.outcome(req, verdict.CheckpointGone, 1)
	r.outcome(req, "", 2) // what has gone isn't asked for again
}

// TestSlowAnswersEndInTime has the list come more slowly than a call may take.
func TestSlowAnswersEndInTime(t *testing.T) {
	t.Parallel()
	r := rigged(t, setUp{timeout: 500 * time.Millisecond})
	r.answer(zvmsim.Answer{Op: zvmsim.OpList, Slow: span(time.Hour)})
	r.outcome(ask("s1", "app-01"), verdict.CheckpointTimeout, 1)
}
