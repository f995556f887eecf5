package zvmsim

import (
	"net/url"
	"strconv"
	"testing"
	"time"
)

func TestAutomaticCheckpoints(t *testing.T) {
	m := begin(t, nil)
	before := m.checkpoints("VPG-A", "")
	if n := len(before); n != 720 && n != 721 {
		t.Fatalf("an hour's journal has %d checkpoints", n)
	}
	m.clk.Advance(17 * time.Second)
	after := m.checkpoints("VPG-A", "")
	for i := 1; i < len(after); i++ {
		a, b := after[i-1], after[i]
		if b.TimeStamp.Sub(a.TimeStamp) != interval || number(t, b) != number(t, a)+1 || b.Tag != nil {
			t.Fatalf("%+v follows %+v", b, a)
		}
	}
	if got := number(t, after[len(after)-1]) - number(t, before[len(before)-1]); got != 3 {
		t.Errorf("%d new checkpoints in 17 s", got)
	}
	if got := number(t, after[0]) - number(t, before[0]); got < 3 {
		t.Errorf("only %d old ones have aged out", got)
	}
}

func number(t *testing.T, r checkpointRow) int {
	t.Helper()
	n, err := strconv.Atoi(r.CheckpointIdentifier)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDateBounds(t *testing.T) {
	m := begin(t, nil)
	if n := len(m.checkpoints("VPG-LOCAL", "")); n < 17_000 {
		t.Errorf("a day's journal has %d checkpoints", n)
	}
	for _, c := range []struct {
		name, from, to string
		want           int
	}{
		{"a minute", "2026-03-01T11:59:00Z", "", 13},
		{"with milliseconds", "2026-03-01T11:59:00.000Z", "", 13},
		{"without a zone it is the server's time", "2026-03-01T11:59:00", "", 13},
		{"with another zone", "2026-03-01T12:59:00+01:00", "", 13},
		{"both ends", "2026-03-01T11:59:00Z", "2026-03-01T11:59:30Z", 7},
		{"minutes", "2026-03-01T11:59", "", 13},
		{"a whole hour", "2026-03-01T11", "2026-03-01T11:00:09", 2},
		{"the future", "2027", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := url.Values{"startDate": {c.from}}
			if c.to != "" {
				q.Set("endDate", c.to)
			}
			if got := len(m.checkpoints("VPG-LOCAL", "?"+q.Encode())); got != c.want {
				t.Errorf("%d checkpoints, want %d", got, c.want)
			}
		})
	}
	m.want(t, m.get(m.vpg("VPG-LOCAL")+"/checkpoints?startDate=yesterday"), "400 Message")
}

func TestReplicationStands(t *testing.T) {
	m := begin(t, nil)
	before := len(m.checkpoints("VPG-PAUSED", ""))
	task := m.insert("VPG-PAUSED", "x")
	m.clk.Advance(30 * time.Second)
	if after := len(m.checkpoints("VPG-PAUSED", "")); before == 0 || after > before {
		t.Errorf("%d checkpoints, then %d", before, after)
	}
	if got := m.task(task); got.Status.State != taskInProgress {
		t.Errorf("task %+v", got)
	}
}

func TestSkewAndStats(t *testing.T) {
	m := begin(t, nil)
	latest := func() (stats struct{ Earliest, Latest *checkpointRow }) {
		m.get(m.vpg("VPG-A")+"/checkpoints/stats").decode(t, &stats)
		return stats
	}
	if got := latest(); !got.Latest.TimeStamp.Equal(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("latest %+v", got.Latest)
	}
	m.change(func(s *Settings) { s.Skew = Span(-90 * time.Second) })
	m.want(t, m.get("/v1/serverDateTime/serverDateTimeUtc"), `200 "2026-03-01T11:58:30.400Z"`)
	m.clk.Advance(5 * time.Second)
	if got := latest(); !got.Latest.TimeStamp.Equal(time.Date(2026, 3, 1, 11, 58, 35, 0, time.UTC)) {
		t.Errorf("latest %+v", got.Latest)
	}
	m.clk.StepWall(time.Hour) // a step of this machine's clock doesn't reach the ZVM
	m.want(t, m.get("/v1/serverDateTime/serverDateTimeUtc"), `200 "2026-03-01T11:58:35.400Z"`)
}

func TestResyncAndPlant(t *testing.T) {
	m := begin(t, nil)
	m.insert("VPG-A", "one")
	m.clk.Advance(4 * time.Second)
	if got := m.tagged("VPG-A"); len(got) != 1 {
		t.Fatalf("tags %+v", got)
	}
	if err := m.Resync("VPG-A"); err != nil {
		t.Fatal(err)
	}
	if got := m.checkpoints("VPG-A", ""); len(got) != 0 {
		t.Fatalf("%d checkpoints are left", len(got))
	}
	m.want(t, m.get(m.vpg("VPG-A")+"/checkpoints/stats"), `200 {"Earliest":null,"Latest":null}`)
	id, err := m.Plant("VPG-A", "old", 20*time.Minute)
	got := m.tagged("VPG-A")
	if err != nil || len(got) != 1 || got[0].CheckpointIdentifier != id || got[0].TimeStamp.Minute() != 40 {
		t.Errorf("planted %q, %v: %+v", id, err, got)
	}
	for name, err := range map[string]error{"resync": m.Resync("x"), "plant": func() error { _, err := m.Plant("x", "t", 0); return err }()} {
		if err == nil {
			t.Errorf("%s of an unknown VPG: no error", name)
		}
	}
}
