package zvmsim

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// ask makes a request with the given headers and returns its status and header.
func (m *sim) ask(t *testing.T, method, path string, header map[string]string) (int, http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, m.Info().URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	if user, password, ok := strings.Cut(header["Account"], ":"); ok {
		r.SetBasicAuth(user, password)
	}
	res, err := m.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode, res.Header
}

func TestWindowsSessions(t *testing.T) {
	m := begin(t, nil)
	if err := m.SetSettings(Settings{TokenLife: Span(time.Minute), Windows: true}); err != nil {
		t.Fatal(err)
	}
	account := map[string]string{"Account": m.Info().Username + ":" + m.Info().Password}
	if code, _ := m.ask(t, "POST", "/v1/session/add", map[string]string{"Account": "guard-user:x"}); code != 401 {
		t.Errorf("a wrong password got %d", code)
	}
	if code, _ := m.ask(t, "POST", tokenPath, nil); code != 404 {
		t.Errorf("the token endpoint got %d", code)
	}
	code, header := m.ask(t, "POST", "/v1/session/add", account)
	session := map[string]string{sessionHeader: header.Get(sessionHeader)}
	if code != 200 || session[sessionHeader] == "" {
		t.Fatalf("adding a session: %d, %v", code, header)
	}
	for range 3 { // it lives as long as it is used
		m.clk.Advance(sessionIdle - time.Second)
		if code, _ := m.ask(t, "GET", "/v1/vpgs", session); code != 200 {
			t.Fatalf("a session in use got %d", code)
		}
	}
	m.clk.Advance(sessionIdle)
	if code, _ := m.ask(t, "GET", "/v1/vpgs", session); code != 401 {
		t.Errorf("an idle session got %d", code)
	}
	_, header = m.ask(t, "POST", "/v1/session/add", account)
	session[sessionHeader] = header.Get(sessionHeader)
	for i, want := range []int{200, 401} {
		if code, _ := m.ask(t, "DELETE", "/v1/session", session); code != want {
			t.Errorf("ending it for the %d. time got %d, want %d", i+1, code, want)
		}
	}
	if code, _ := m.ask(t, "GET", "/v1/vpgs", session); code != 401 {
		t.Errorf("an ended session got %d", code)
	}
}

func TestApplianceHasNoSessions(t *testing.T) {
	m := begin(t, nil)
	for method, path := range map[string]string{"POST": "/v1/session/add", "DELETE": "/v1/session"} {
		if code, _ := m.ask(t, method, path, map[string]string{"Account": "guard-user:" + m.Info().Password}); code != 404 {
			t.Errorf("%s %s got %d", method, path, code)
		}
	}
}

func TestTaskLife(t *testing.T) {
	m := begin(t, func(o *Options) { o.Behaviour.Settings.TaskLife = Span(10 * time.Second) })
	task := strings.Trim(m.post("/v1/vpgs/"+m.groups[0].spec.ID+"/checkpoints", `{"checkpointName":"t"}`).text, "\"")
	m.clk.Advance(11 * time.Second) // it ended after 2
	m.want(t, m.get("/v1/tasks/"+task), `200 "State":6`)
	m.clk.Advance(time.Second)
	m.want(t, m.get("/v1/tasks/"+task), "404 was not found")
}

func TestViewer(t *testing.T) {
	m := begin(t, func(o *Options) { o.Behaviour.Settings.Viewer = true })
	at := "/v1/vpgs/" + m.groups[0].spec.ID + "/checkpoints"
	m.want(t, m.post(at, `{"checkpointName":"t"}`), "403 permission")
	m.want(t, m.get(at), "200 ")
	if len(m.Timings()) != 0 {
		t.Error("a viewer's insert was accepted")
	}
}

func TestDates(t *testing.T) {
	for mode, want := range map[string]string{
		"": `"2026-03-01T12:00:00.000Z"`, "iso_ms": `"2026-03-01T12:00:00.000Z"`, "iso": `"2026-03-01T12:00:00Z"`,
		"epoch": `"/Date(1772366401000)/"`, "epoch_zone": `+0300)/"`,
	} {
		m := begin(t, func(o *Options) {
			o.Behaviour.Settings.Dates, o.Behaviour.Settings.LocalOffset = mode, Span(3*time.Hour)
		})
		m.clk.Advance(600 * time.Millisecond)
		if mode != "epoch" && mode != "epoch_zone" {
			want = want[:len(`"2026-03-01T12:00:0`)]
		}
		m.want(t, m.get("/v1/serverDateTime/serverDateTimeUtc"), "200 "+want)
		m.want(t, m.get("/v1/serverDateTime/dateTimeArgument?dateTime=2026-03-01T15:00:00"), "200 "+m.now.Settings.style().date(m.clk.Wall().Truncate(time.Hour)))
		m.want(t, m.get("/v1/serverDateTime/dateTimeArgument?dateTime=2026-03-01T12:00:00Z"), "200 "+m.now.Settings.style().date(m.clk.Wall().Truncate(time.Hour)))
	}
}

func TestHaltedAndTesting(t *testing.T) {
	m := begin(t, nil)
	g := m.groups[0]
	at := "/v1/vpgs/" + g.spec.ID
	if err := m.Set(g.spec.Name, Faults{Halted: true}); err != nil {
		t.Fatal(err)
	}
	before := g.lastID
	task := strings.Trim(m.post(at+"/checkpoints", `{"checkpointName":"t"}`).text, "\"")
	m.clk.Advance(time.Minute)
	m.login()
	m.want(t, m.get("/v1/tasks/"+task), `200 "State":1`)
	if g.lastID != before {
		t.Errorf("%d checkpoints were made while replication stood", g.lastID-before)
	}
	if err := m.Set(g.spec.Name, Faults{Testing: true}); err != nil {
		t.Fatal(err)
	}
	m.clk.Advance(3 * interval)
	m.want(t, m.get(at), `200 "Stage":"Testing"`)
	if made := g.lastID - before; made < 2 || made > 4 {
		t.Errorf("%d checkpoints after a minute's halt and 15 s, want 3", made)
	}
}

func TestSlowBody(t *testing.T) {
	m := begin(t, nil)
	want := m.get("/v1/vpgs").text
	if err := m.Answer(Answer{Op: OpVPGs, Slow: Span(50 * time.Millisecond)}); err != nil {
		t.Fatal(err)
	}
	if got := m.get("/v1/vpgs").text; got != want {
		t.Errorf("a slow body differs: %d bytes, want %d", len(got), len(want))
	}
}
