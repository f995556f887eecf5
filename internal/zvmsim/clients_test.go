package zvmsim

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// TestOtherClients replays what public clients of the ZVM asked when they ran
// against this simulator: the calls of somebody else, who knows nothing of it,
// still get the answers that they could go on with.
func TestOtherClients(t *testing.T) {
	files, err := filepath.Glob("testdata/clients/*.txt")
	if err != nil || len(files) < 2 {
		t.Fatalf("transcripts %q, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { replay(t, file) })
	}
}

var transcriptLine = regexp.MustCompile(`^(GET|POST) (\S+) (\d+)(?: (".*"))?$`)

func replay(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := begin(t, func(o *Options) { o.Behaviour.Settings.AnyScope = true })
	task, calls := "", 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		part := transcriptLine.FindStringSubmatch(strings.TrimSpace(line))
		if part == nil {
			t.Fatalf("line %q is none of a transcript", line)
		}
		method, path, want := part[1], strings.ReplaceAll(part[2], "{task}", task), part[3]
		kind, body := "application/json", ""
		switch {
		case path == tokenPath:
			kind = "application/x-www-form-urlencoded"
			body = tokenForm(m, "grant_type=client_credentials&client_id=guard&client_secret=SECRET&expires_in=3600").Encode()
		case method == "POST":
			body = `{"checkpointName":` + part[4] + `}`
		}
		a, err := m.do(method, path, kind, body)
		if err != nil || strconv.Itoa(a.code) != want {
			t.Errorf("%s %s: %d %v, want %s", method, path, a.code, err, want)
		}
		calls++
		m.learn(t, path, a, &task)
	}
	if calls < 10 || task == "" || m.Count(OpInsert) == 0 {
		t.Errorf("%d calls and task %q: the transcript is cut", calls, task)
	}
}

// learn takes from an answer what the next calls need.
func (m *sim) learn(t *testing.T, path string, a answer, task *string) {
	t.Helper()
	switch {
	case path == tokenPath:
		var got struct {
			Token string `json:"access_token"`
		}
		a.decode(t, &got)
		m.token = got.Token
	case strings.HasSuffix(path, "/checkpoints") && a.code == 200 && strings.HasPrefix(a.text, `"`):
		if err := json.Unmarshal([]byte(a.text), task); err != nil {
			t.Fatal(err)
		}
		m.clk.Advance(5 * time.Second)
	}
}
