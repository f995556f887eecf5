package zerto

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/zvmsim"
)

// TestInsertSaysWhatIsUnknown holds which failures leave open whether the ZVM
// made the checkpoint, and that none of them sends the insert again.
func TestInsertSaysWhatIsUnknown(t *testing.T) {
	tests := map[string]struct {
		answer  zvmsim.Answer
		unknown bool
		status  int
	}{
		"500":                      {zvmsim.Answer{Status: 500, Body: `{"Message":"no"}`}, true, 500},
		"503":                      {zvmsim.Answer{Status: 503}, true, 503},
		"501":                      {zvmsim.Answer{Status: 501}, false, 501},
		"202 without a body":       {zvmsim.Answer{Status: 202, Executed: true}, true, 202},
		"307":                      {zvmsim.Answer{Status: 307}, true, 307},
		"200 in HTML":              {zvmsim.Answer{Status: 200, Body: "<html>"}, true, 200},
		"200 with a wrong task id": {zvmsim.Answer{Status: 200, Body: `"../x"`}, true, 200},
		"reset after execution":    {zvmsim.Answer{Reset: true, Executed: true}, true, 0},
		"cut off":                  {zvmsim.Answer{Cut: true}, true, 0},
		"400":                      {zvmsim.Answer{Status: 400}, false, 400},
		"403":                      {zvmsim.Answer{Status: 403}, false, 403},
		"404":                      {zvmsim.Answer{Status: 404}, false, 404},
		"409":                      {zvmsim.Answer{Status: 409}, false, 409},
		"429":                      {zvmsim.Answer{Status: 429}, false, 429},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sim, c := simulate(t, nil)
			vms, err := c.VMs(soon(t), Query{Name: "app-01"})
			if err != nil {
				t.Fatal(err)
			}
			tt.answer.Op = zvmsim.OpInsert
			if err := sim.Answer(tt.answer); err != nil {
				t.Fatal(err)
			}
			task, err := c.InsertCheckpoint(soon(t), vms[0].VPGID, "tag")
			e, ok := errors.AsType[*Error](err)
			if !ok || task != "" || e.Unknown != tt.unknown || e.Status != tt.status {
				t.Fatalf("task %q, error %#v", task, err)
			}
			if n := sim.Count(zvmsim.OpInsert); n != 1 {
				t.Fatalf("the insert was sent %d times", n)
			}
		})
	}
}

func TestInsertNotSentIsKnown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sim, _ := simulate(t, nil)
	cfg := configFor(sim)
	cfg.URL = "https://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c := connect(t, cfg)
	c.tokens.current = bearer{value: "t", renew: clock.System{}.Now().Add(1e12)}
	_, err = c.InsertCheckpoint(soon(t), "v", "tag")
	if e, ok := errors.AsType[*Error](err); !ok || e.Unknown || e.Status != 0 {
		t.Fatalf("error %#v, want one that says that nothing was sent", err)
	}
}

// A token that the ZVM refuses is the one case in which an insert goes out
// again: what was refused wasn't executed.
func TestInsertAfterARefusedToken(t *testing.T) {
	sim, c := simulate(t, nil)
	vms, err := c.VMs(soon(t), Query{Name: "app-01"})
	if err != nil {
		t.Fatal(err)
	}
	sim.ExpireTokens()
	if _, err := c.InsertCheckpoint(soon(t), vms[0].VPGID, "tag"); err != nil {
		t.Fatal(err)
	}
	if n := len(sim.Timings()); n != 1 {
		t.Fatalf("%d inserts were executed", n)
	}
}

func TestLookUpsAreRepeated(t *testing.T) {
	tests := map[string]struct {
		answer zvmsim.Answer
		asked  int
		ok     bool
	}{
		"503 once":     {zvmsim.Answer{Status: 503, Times: 1}, 2, true},
		"429 thrice":   {zvmsim.Answer{Status: 429, Times: 3}, 4, true},
		"503 for ever": {zvmsim.Answer{Status: 503}, 4, false},
		"500 once":     {zvmsim.Answer{Status: 500, Times: 1}, 2, true},
		"500 twice":    {zvmsim.Answer{Status: 500, Times: 2}, 2, false},
		"reset once":   {zvmsim.Answer{Reset: true, Times: 1}, 2, true},
		"cut once":     {zvmsim.Answer{Cut: true, Times: 1}, 2, true},
		"400":          {zvmsim.Answer{Status: 400, Times: 1}, 1, false},
		"404":          {zvmsim.Answer{Status: 404, Times: 1}, 1, false},
		"403":          {zvmsim.Answer{Status: 403, Times: 1}, 1, false},
		"HTML":         {zvmsim.Answer{Status: 200, Body: "<html>", Times: 1}, 1, false},
		"redirect":     {zvmsim.Answer{Status: 302, Times: 1}, 1, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sim, c := simulate(t, nil)
			tt.answer.Op = zvmsim.OpVMs
			if err := sim.Answer(tt.answer); err != nil {
				t.Fatal(err)
			}
			_, err := c.VMs(soon(t), Query{Name: "app-01"})
			if n := sim.Count(zvmsim.OpVMs); (err == nil) != tt.ok || n != tt.asked {
				t.Fatalf("asked %d times, want %d; error %v", n, tt.asked, err)
			}
		})
	}
}

func TestAnswersAreBounded(t *testing.T) {
	big := `"` + strings.Repeat("x", maxObject) + `"`
	var served atomic.Int64
	c := mock(t, func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		_, _ = w.Write([]byte(big))
	})
	_, err := c.Now(soon(t))
	if !errors.Is(err, ErrAnswer) || !strings.Contains(err.Error(), "longer") || served.Load() != 1 {
		t.Fatalf("error %v after %d requests", err, served.Load())
	}
}

func TestVPGMustBeTheOneAskedFor(t *testing.T) {
	c := mock(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"VpgIdentifier":"other","VpgName":"n","Status":1}`))
	})
	if g, err := c.VPG(soon(t), "v"); !errors.Is(err, ErrAnswer) || g != (VPG{}) {
		t.Fatalf("VPG = %+v, %v", g, err)
	}
}
