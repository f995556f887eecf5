package checkpoint

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

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
