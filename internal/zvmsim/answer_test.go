package zvmsim

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"time"
)

func (m *sim) plan(a Answer) {
	m.t.Helper()
	if err := m.Answer(a); err != nil {
		m.t.Fatal(err)
	}
}

func TestAnswersToChosenRequests(t *testing.T) {
	m := begin(t, nil)
	m.plan(Answer{Op: OpSites, Status: 503, Body: "<html>down</html>", After: 1, Times: 2})
	for i, want := range []string{"200 ", "503 <html>", "503 <html>", "200 "} {
		a := m.get("/v1/localsite")
		if a.codeText() != want[:3] {
			t.Errorf("request %d got %d, want %s", i+1, a.code, want)
		}
	}
	m.plan(Answer{Op: OpVPGs, VPG: "VPG-A", Status: 500, Body: `{"Message":"x"}`})
	m.want(t, m.get(m.vpg("VPG-A")), "500 x")
	m.want(t, m.get(m.vpg("VPG-B")), "200 ")
	m.ClearAnswers()
	m.want(t, m.get(m.vpg("VPG-A")), "200 ")
}

func TestAnswerInPlaceOfTheWorkAndAfterIt(t *testing.T) {
	for _, c := range []struct {
		name     string
		executed bool
		inserts  int
	}{{"not executed", false, 0}, {"executed", true, 1}} {
		t.Run(c.name, func(t *testing.T) {
			m := begin(t, nil)
			m.plan(Answer{Op: OpInsert, Status: 202, Executed: c.executed})
			m.want(t, m.post(m.vpg("VPG-A")+"/checkpoints", `{"checkpointName":"t"}`), "202 ")
			if got := len(m.Timings()); got != c.inserts {
				t.Errorf("%d inserts", got)
			}
		})
	}
}

// TestResetAfterTheInsert is the trap for a client that repeats a POST.
func TestResetAfterTheInsert(t *testing.T) {
	m := begin(t, nil)
	m.plan(Answer{Op: OpInsert, Executed: true, Reset: true, Times: 1})
	_, err := m.do("POST", m.vpg("VPG-A")+"/checkpoints", "application/json", `{"checkpointName":"t"}`)
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
		t.Fatalf("got %v", err)
	}
	m.clk.Advance(3 * time.Second)
	if got := m.tagged("VPG-A"); len(got) != 1 {
		t.Errorf("tags %+v", got)
	}
	if got := m.Requests()[1]; got.Op != OpInsert || got.Status != 0 || got.VPG != "VPG-A" || got.Tag != "t" {
		t.Errorf("recorded %+v", got)
	}
}

func TestCutAnswer(t *testing.T) {
	m := begin(t, nil)
	m.plan(Answer{Op: OpVMs, Cut: true})
	if _, err := m.do("GET", "/v1/vms", "", ""); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}

func TestDelayIsReal(t *testing.T) {
	m := begin(t, nil)
	m.plan(Answer{Op: OpSites, Delay: Span(5 * time.Millisecond)})
	m.want(t, m.get("/v1/localsite"), "200 ")
	if got := m.Requests()[1]; got.Delay < Span(5*time.Millisecond) {
		t.Errorf("recorded %+v", got)
	}
}

// TestCloseEndsWhatHangs also holds that a request that hangs is recorded.
func TestCloseEndsWhatHangs(t *testing.T) {
	m := begin(t, nil)
	m.plan(Answer{Op: OpTask, Delay: Span(time.Hour)})
	failed := make(chan error)
	go func() {
		_, err := m.do("GET", "/v1/tasks/x", "", "")
		failed <- err
	}()
	for m.Count(OpTask) == 0 {
		if _, err := m.do("GET", "/_sim/latency", "", ""); err != nil { // lets time pass
			t.Fatal(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil {
		t.Error("the request was answered")
	}
}

func TestBadAnswers(t *testing.T) {
	m := begin(t, nil)
	for _, a := range []Answer{
		{}, {Op: OpOther}, {Op: Done}, {Op: OpVMs, Status: 99}, {Op: OpVMs, After: -1}, {Op: OpVMs, Delay: -1},
	} {
		if err := m.Answer(a); err == nil {
			t.Errorf("no error for %+v", a)
		}
	}
}
