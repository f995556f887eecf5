package zvmsim

import (
	"strings"
	"testing"
	"time"
)

func (m *sim) admin(t *testing.T, request, body, want string) {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	a, err := m.do(method, "/_sim/"+path, "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	m.want(t, a, want)
}

func TestAdmin(t *testing.T) {
	m := begin(t, nil)
	m.token = "" // none is asked for
	for _, c := range []struct{ request, body, want string }{
		{"GET estate", "", `200 "name":"VPG-LOCAL"`},
		{"GET behaviour", "", `200 "token_life":"1m0s"`},
		{"PUT latency", `{"vms":"1ms..2ms","done":"1s"}`, "200 "},
		{"GET latency", "", `200 "vms":"1ms..2ms"`},
		{"GET latency", "", `200 "visible":"1s"`},
		{"PUT latency", `{"nothing":"1s"}`, "400 isn't known"},
		{"PUT latency", `{"vms":"soon"}`, "400 "},
		{"PUT latency", `{"vms":"-1s"}`, "400 out of range"},
		{"PUT settings", `{"token_life":"5s"}`, "200 "},
		{"PUT settings", `{"filters":"ignore"}`, "200 "},
		{"GET settings", "", `200 "token_life":"5s"`},
		{"PUT settings", `{"filters":"none"}`, "400 isn't known"},
		{"PUT settings", `{"Filters":"exact"}`, "400 unknown key"},
		{"PUT faults?vpg=VPG-A", `{"insert":"no_tag","status":null,"latency":{"task":"1ms"}}`, "200 "},
		{"PUT faults", `{"status":"MeetingSLA"}`, "200 "},
		{"GET faults", "", `200 {"*":{"status":"MeetingSLA"},"VPG-A":{"insert":"no_tag","status":null,"latency":{"task":"1ms"}}}`},
		{"PUT faults?vpg=nothing", `{}`, "400 isn't in the estate"},
		{"DELETE faults?vpg=VPG-A", "", "200 "},
		{"GET faults", "", `200 {"*":{"status":"MeetingSLA"}}`},
		{"DELETE faults?vpg=nothing", "", "400 "},
		{"DELETE faults", "", "200 "},
		{"GET faults", "", "200 {}"},
		{"POST answers", `{"op":"task","status":401,"after":12,"times":1}`, "200 "},
		{"GET answers", "", `200 "after":12`},
		{"POST answers", `{"op":"tasks"}`, "400 want one of"},
		{"DELETE answers", "", "200 "},
		{"GET answers", "", "200 []"},
		{"POST plant?vpg=VPG-A&tag=t&age=30s", "", `200 {"id":"`},
		{"POST plant?vpg=VPG-A&tag=t&age=old", "", "400 duration"},
		{"POST resync?vpg=VPG-A", "", "200 "},
		{"POST resync", "", "400 "},
		{"GET requests?op=token", "", `200 [{"seq":1,`},
		{"GET requests?after=1", "", "200 []"},
		{"GET requests?after=x", "", "400 "},
		{"GET timings", "", "200 []"},
		{"POST expire-tokens", "", "200 "},
		{"DELETE requests", "", "200 "},
		{"GET requests", "", "200 []"},
		{"POST reset", "", "200 "},
		{"GET settings", "", `200 "token_life":"1m0s"`},
		{"GET nothing", "", "404 docs/simulator.md"},
		{"POST requests", "", "404 "},
		{"PUT faults", string(make([]byte, maxBody+1)), "400 "},
	} {
		m.admin(t, c.request, c.body, c.want)
	}
}

func TestResetKeepsTheStartsBehaviour(t *testing.T) {
	m := begin(t, func(o *Options) {
		o.Behaviour.Faults["VPG-A"] = Faults{Insert: InsertRefused}
		o.Behaviour.Answers = []Answer{{Op: OpSites, Status: 503, Times: 1}}
	})
	m.want(t, m.get("/v1/localsite"), "503 ")
	m.want(t, m.get("/v1/localsite"), "200 ")
	m.fault("VPG-A", "")
	m.insert("VPG-A", "t")
	m.Reset()
	if len(m.Requests()) != 0 {
		t.Error("requests are left")
	}
	m.want(t, m.get("/v1/localsite"), "503 ")
	m.want(t, m.post(m.vpg("VPG-A")+"/checkpoints", `{"checkpointName":"u"}`), "500 ")
	m.clk.Advance(3 * time.Second)
	if got := m.tagged("VPG-A"); len(got) != 1 {
		t.Errorf("an accepted insert goes on: %+v", got)
	}
}
