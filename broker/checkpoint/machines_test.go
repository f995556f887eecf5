package checkpoint

import (
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/zerto"
	"leaseguard.internal/internal/zvmsim"
)

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
