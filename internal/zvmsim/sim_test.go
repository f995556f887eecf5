package zvmsim

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"
	"leaseguard.internal/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sim is a simulator with a clock that the test moves, and a client of it.
type sim struct {
	*Server
	t     *testing.T
	clk   *clock.Fake
	http  *http.Client
	token string
}

// begin starts a simulator without request delays whose tasks take 2 s and
// whose tags show 1 s later. change may be nil.
func begin(t *testing.T, change func(*Options)) *sim {
	t.Helper()
	clk := clock.NewFake(clock.Instant(time.Hour), time.Date(2026, 3, 1, 12, 0, 0, 400e6, time.UTC))
	b, err := Flags{Speed: "fast", Latency: []string{"done=2s,visible=1s,fail=7s"}}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: t.TempDir(), Clock: clk, Behaviour: &b}
	if change != nil {
		change(&o)
	}
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(s.Info().CAFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("no certificate in the CA file")
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	m := &sim{Server: s, t: t, clk: clk, http: &http.Client{Transport: tr}}
	m.login()
	return m
}

// answer is what came back.
type answer struct {
	code int
	text string
}

func (a answer) decode(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.text), v); err != nil {
		t.Fatalf("decoding %q: %v", a.text, err)
	}
}

func (m *sim) do(method, path, kind, body string) (answer, error) {
	req, err := http.NewRequest(method, m.Info().URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return answer{}, err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if m.token != "" {
		req.Header.Set("Authorization", "Bearer "+m.token)
	}
	resp, err := m.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(text)}, err
}

func (m *sim) get(path string) answer {
	m.t.Helper()
	a, err := m.do("GET", path, "", "")
	if err != nil {
		m.t.Fatal(err)
	}
	return a
}

func (m *sim) post(path, body string) answer {
	m.t.Helper()
	a, err := m.do("POST", path, "application/json", body)
	if err != nil {
		m.t.Fatal(err)
	}
	return a
}

func (m *sim) form(v url.Values) answer {
	m.t.Helper()
	a, err := m.do("POST", tokenPath, "application/x-www-form-urlencoded", v.Encode())
	if err != nil {
		m.t.Fatal(err)
	}
	return a
}

func (m *sim) login() {
	m.t.Helper()
	a := m.form(url.Values{
		"grant_type": {"client_credentials"}, "scope": {"openid"},
		"client_id": {m.Info().ClientID}, "client_secret": {m.Info().ClientSecret},
	})
	var got struct {
		Token string `json:"access_token"`
	}
	a.decode(m.t, &got)
	if a.code != 200 || got.Token == "" {
		m.t.Fatalf("login: %d %s", a.code, a.text)
	}
	m.token = got.Token
}

type checkpointRow struct {
	CheckpointIdentifier string
	TimeStamp            time.Time
	Tag                  *string
}

// vpg is the path of a VPG of the estate.
func (m *sim) vpg(name string) string { return "/v1/vpgs/" + guid("vpg", name) }

func (m *sim) checkpoints(name, query string) []checkpointRow {
	m.t.Helper()
	var rows []checkpointRow
	m.get(m.vpg(name)+"/checkpoints"+query).decode(m.t, &rows)
	return rows
}

func (m *sim) tagged(name string) []checkpointRow {
	m.t.Helper()
	var list []checkpointRow
	for _, r := range m.checkpoints(name, "") {
		if r.Tag != nil {
			list = append(list, r)
		}
	}
	return list
}

func (m *sim) insert(name, tag string) string {
	m.t.Helper()
	a := m.post(m.vpg(name)+"/checkpoints", `{"checkpointName":"`+tag+`"}`)
	var task string
	a.decode(m.t, &task)
	if a.code != 200 || !strings.Contains(task, ".") {
		m.t.Fatalf("insert: %d %s", a.code, a.text)
	}
	return task
}

type taskRow struct {
	Type           string
	Status         struct{ State, Progress int }
	Completed      *time.Time
	CompleteReason *string
}

func (m *sim) task(id string) taskRow {
	m.t.Helper()
	var row taskRow
	m.get("/v1/tasks/"+id).decode(m.t, &row)
	return row
}

func TestInsertBecomesATag(t *testing.T) {
	m := begin(t, nil)
	before := m.checkpoints("VPG-LOCAL", "?startDate=2026-03-01T11:59:00Z")
	task := m.insert("VPG-LOCAL", "guard:1")
	if got := m.task(task); got.Status.State != taskInProgress || got.Status.Progress != 0 {
		t.Fatalf("at once: %+v", got)
	}
	m.clk.Advance(time.Second)
	if got := m.task(task); got.Status.State != taskInProgress || got.Status.Progress != 25 || got.Completed != nil {
		t.Fatalf("half way: %+v", got)
	}
	m.clk.Advance(time.Second)
	if got := m.task(task); got.Status.State != taskCompleted || got.Status.Progress != 100 || got.Completed == nil {
		t.Fatalf("at the end: %+v", got)
	}
	if got := m.tagged("VPG-LOCAL"); len(got) != 0 {
		t.Fatalf("the tag shows before its time: %+v", got)
	}
	m.clk.Advance(time.Second)
	got := m.tagged("VPG-LOCAL")
	if len(got) != 1 || *got[0].Tag != "guard:1" || got[0].TimeStamp.Nanosecond() != 0 {
		t.Fatalf("the tag: %+v", got)
	}
	last := before[len(before)-1]
	if got[0].CheckpointIdentifier <= last.CheckpointIdentifier {
		t.Fatalf("id %s isn't after %s", got[0].CheckpointIdentifier, last.CheckpointIdentifier)
	}
	want := Timing{Visible: Span(3 * time.Second), Done: Span(2 * time.Second), Read: Span(3 * time.Second)}
	if g := m.Timings()[0]; g.Visible != want.Visible || g.Done != want.Done || g.Read != want.Read || g.VPG != "VPG-LOCAL" {
		t.Fatalf("timing %+v", g)
	}
}
