package zvmsim

import (
	"testing"
	"time"
)

func TestInsertRequests(t *testing.T) {
	m := begin(t, nil)
	path := m.vpg("VPG-A") + "/checkpoints"
	for _, c := range []struct{ name, path, kind, body, want string }{
		{"as specified", path, "application/json", `{"checkpointName":"t"}`, `200 "`},
		{"as clients spell it", m.vpg("VPG-A") + "/Checkpoints", "application/json; charset=utf-8", `{"CheckpointName":"t"}`, `200 "`},
		{"empty name", path, "application/json", `{"checkpointName":""}`, "400 Message"},
		{"blank name", path, "application/json", `{"checkpointName":"  "}`, "400 Message"},
		{"null name", path, "application/json", `{"checkpointName":null}`, "400 Message"},
		{"no name", path, "application/json", `{}`, "400 Message"},
		{"no JSON", path, "application/json", `x`, "400 Message"},
		{"a form", path, "application/x-www-form-urlencoded", `checkpointName=t`, "415 Message"},
		{"unknown VPG", m.vpg("nothing") + "/checkpoints", "application/json", `{"checkpointName":"t"}`, "404 Message"},
		{"malformed VPG", "/v1/vpgs/VPG-A/checkpoints", "application/json", `{"checkpointName":"t"}`, "400 Message"},
		{"too large", path, "application/json", `{"checkpointName":"` + string(make([]byte, maxBody)) + `"}`, "413 Message"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := m.do("POST", c.path, c.kind, c.body)
			if err != nil {
				t.Fatal(err)
			}
			m.want(t, a, c.want)
		})
	}
	m.clk.Advance(3 * time.Second)
	if got := m.tagged("VPG-A"); len(got) != 2 || got[0].CheckpointIdentifier == got[1].CheckpointIdentifier {
		t.Errorf("equal tags are two checkpoints, got %+v", got)
	}
	m.want(t, m.get("/v1/tasks/"+guid("task", "x")+"."+guid("site", "HQ")), "404 Message")
}

// TestOutcomes plays each way in which an insert can go.
func TestOutcomes(t *testing.T) {
	m := begin(t, nil)
	for _, c := range []struct {
		name, vpg, flag, post string
		after                 time.Duration
		state, tags           int
	}{
		{"ordinary", "VPG-LOCAL", "", "200 ", 3 * time.Second, taskCompleted, 1},
		{"AWS without more: variant a", "VPG-AWS", "", "200 ", time.Minute / 2, taskCompleted, 0},
		{"Azure without more: variant a", "VPG-AZURE", "", "200 ", time.Minute / 2, taskCompleted, 0},
		{"variant b before its failure", "VPG-AWS", "task_fails", "200 ", 6 * time.Second, taskInProgress, 0},
		{"variant b", "VPG-AWS", "task_fails", "200 ", 7 * time.Second, taskFailed, 0},
		{"variant c", "VPG-AWS", "refused", "500 Message", 0, 0, 0},
		{"variant c with another status", "VPG-AZURE", "refused,code:409", "409 Message", 0, 0, 0},
		{"AWS that works", "VPG-AWS", "tag", "200 ", 3 * time.Second, taskCompleted, 1},
		{"no tag", "VPG-B", "no_tag", "200 ", time.Minute / 2, taskCompleted, 0},
		{"stuck", "VPG-B", "stuck", "200 ", time.Minute / 2, taskInProgress, 0},
		{"tag elsewhere", "VPG-B", "tag_on:VPG-A", "200 ", 3 * time.Second, taskCompleted, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m.login()
			m.fault(c.vpg, c.flag)
			if err := m.Resync(c.vpg); err != nil {
				t.Fatal(err)
			}
			a := m.post(m.vpg(c.vpg)+"/checkpoints", `{"checkpointName":"t"}`)
			m.want(t, a, c.post)
			m.clk.Advance(c.after)
			if c.state != 0 {
				var id string
				a.decode(t, &id)
				if got := m.task(id); got.Status.State != c.state || (got.Completed != nil) == (c.state == taskInProgress) {
					t.Errorf("task %+v", got)
				}
			}
			if got := m.tagged(c.vpg); len(got) != c.tags {
				t.Errorf("tags %+v", got)
			}
		})
	}
	if got := m.tagged("VPG-A"); len(got) != 1 {
		t.Errorf("the tag that went elsewhere: %+v", got)
	}
}

// fault sets a VPG's faults in the form of the flag; empty ends them.
func (m *sim) fault(vpg, text string) {
	m.t.Helper()
	f := Faults{}
	if text != "" {
		b, err := Flags{Faults: []string{vpg + "=" + text}}.Parse()
		if err != nil {
			m.t.Fatal(err)
		}
		f = b.Faults[vpg]
	}
	if err := m.Set(vpg, f); err != nil {
		m.t.Fatal(err)
	}
}

func TestTagBeforeTheTaskEnds(t *testing.T) {
	m := begin(t, nil)
	if err := m.SetLatency(Latency{Visible: Fixed(-time.Second)}); err != nil {
		t.Fatal(err)
	}
	task := m.insert("VPG-A", "early")
	m.clk.Advance(time.Second)
	if got := m.tagged("VPG-A"); len(got) != 1 || m.task(task).Status.State != taskInProgress {
		t.Errorf("tags %+v, task %+v", got, m.task(task))
	}
}

func TestFaultsOfEveryVPG(t *testing.T) {
	m := begin(t, nil)
	m.fault("*", "refused")
	m.fault("VPG-A", "tag")
	m.want(t, m.post(m.vpg("VPG-B")+"/checkpoints", `{"checkpointName":"t"}`), "500 ")
	m.want(t, m.post(m.vpg("VPG-A")+"/checkpoints", `{"checkpointName":"t"}`), "200 ")
	if err := m.Clear("VPG-A"); err != nil {
		t.Fatal(err)
	}
	m.want(t, m.post(m.vpg("VPG-A")+"/checkpoints", `{"checkpointName":"t"}`), "500 ")
	m.ClearAll()
	m.want(t, m.post(m.vpg("VPG-B")+"/checkpoints", `{"checkpointName":"t"}`), "200 ")
	for _, bad := range []struct {
		vpg string
		f   Faults
	}{
		{"nothing", Faults{}}, {"VPG-A", Faults{TagOn: "nothing"}}, {"VPG-A", Faults{Insert: "maybe"}},
		{"VPG-A", Faults{Code: 200}}, {"VPG-A", Faults{Latency: Latency{"x": {}}}}, {"VPG-A", Faults{Status: []byte("x")}},
	} {
		if err := m.Set(bad.vpg, bad.f); err == nil {
			t.Errorf("no error for %q %+v", bad.vpg, bad.f)
		}
	}
}

func TestLatencyOfOneVPG(t *testing.T) {
	m := begin(t, nil)
	if err := m.Set("VPG-A", Faults{Latency: Latency{Done: Fixed(time.Second), Visible: {}, OpInsert: Fixed(time.Millisecond)}}); err != nil {
		t.Fatal(err)
	}
	m.insert("VPG-A", "t")
	m.insert("VPG-B", "t")
	a, b := m.Timings()[0], m.Timings()[1]
	if a.Visible != Span(time.Second) || b.Visible != Span(3*time.Second) {
		t.Errorf("visible after %v and %v", a.Visible, b.Visible)
	}
	if a.PostDelay < Span(time.Millisecond) {
		t.Errorf("the delay of the POST: %v", a.PostDelay)
	}
}

func TestTimingOfATagThatIsRead(t *testing.T) {
	m := begin(t, nil)
	m.insert("VPG-A", "t")
	m.clk.Advance(3500 * time.Millisecond)
	if got := m.Timings()[0]; got.ReadBy != 0 || got.Read != 0 {
		t.Errorf("read before it was: %+v", got)
	}
	m.tagged("VPG-A")
	m.clk.Advance(time.Second)
	m.tagged("VPG-A")
	got := m.Timings()[0]
	reads := m.Requests()
	if got.Read != Span(3500*time.Millisecond) || got.ReadBy != reads[len(reads)-2].Seq || got.Visible != Span(3*time.Second) {
		t.Errorf("timing %+v", got)
	}
	m.Forget()
	if len(m.Timings()) != 0 || len(m.Requests()) != 0 {
		t.Error("something is remembered")
	}
}
