package hookrun

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/wire"
)

// The status of the runner is a pass only by a whole answer of the broker's that
// the host has taken.
func TestAnswers(t *testing.T) {
	t.Parallel()
	h := script(t, "exit 0")
	big := []byte(strings.Repeat("x", wire.MaxOutput))
	for name, tc := range map[string]struct {
		reply  []byte
		status int
		out    string
	}{
		"pass":               {wire.AppendReply(nil, pass), 0, "{}"},
		"silent pass":        {wire.AppendReply(nil, wire.Reply{Kind: wire.KindAnswer}), 0, ""},
		"largest":            {wire.AppendReply(nil, wire.Reply{Kind: wire.KindAnswer, Out: big, Err: big}), 0, string(big)},
		"deny":               {wire.AppendReply(nil, wire.Reply{Kind: wire.KindAnswer, Exit: 2, Out: []byte("{1}"), Err: []byte("no")}), 2, "{1}"},
		"deny without words": {wire.AppendReply(nil, wire.Reply{Kind: wire.KindAnswer, Exit: 2, Out: []byte("{1}")}), 2, "broker_unavailable"},
		"status 1":           {wire.AppendReply(nil, wire.Reply{Kind: wire.KindAnswer, Exit: 1, Out: []byte("{1}"), Err: []byte("no")}), 2, "broker_unavailable"},
		"a result":           {wire.AppendReply(nil, wire.Reply{Kind: wire.KindResult}), 2, "broker_unavailable"},
		"hooks again":        {wire.HooksFrame(), 2, "broker_unavailable"},
		"half":               {wire.AppendReply(nil, pass)[:22], 2, "policy_unavailable"},
		"nothing":            {nil, 2, "policy_unavailable"},
		"rubbish":            {[]byte(strings.Repeat("x", 99)), 2, "policy_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			r.send(wire.HookJob{Hooks: []wire.Hook{h}}, line)
			r.results()
			_, _ = r.conn.Write(tc.reply)
			_ = r.conn.CloseWrite()
			if status := r.wait(); status != tc.status || !strings.Contains(r.out.String(), tc.out) || (tc.out == "") != (r.out.Len() == 0) {
				t.Errorf("status %d, out %.100q, err %.100q", status, r.out.String(), r.err.String())
			}
			if tc.status != 0 && r.err.Len() == 0 {
				t.Error("a refusal says nothing on stderr")
			}
		})
	}
}

// A host that doesn't take the answer gets status 2, and no signal ends the runner.
func TestOutputThatNobodyTakes(t *testing.T) {
	t.Parallel()
	h := script(t, "exit 0")
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	gone, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	_ = gone.Close()
	for name, out := range map[string]*os.File{"null device": null, "closed pipe": w} {
		t.Run(name, func(t *testing.T) {
			r := start(t, func(c *exec.Cmd) { c.Stdout = out })
			r.send(wire.HookJob{Hooks: []wire.Hook{h}}, line)
			r.results()
			if status := r.answer(pass); status != exitDeny {
				t.Errorf("status %d, %q", status, r.err.String())
			}
		})
	}
}

// What isn't a job runs nothing.
func TestJobsThatAreNone(t *testing.T) {
	t.Parallel()
	good, err := json.Marshal(wire.HookJob{Hooks: []wire.Hook{{ID: "h", Command: "/bin/true", TimeoutMS: 100}}, TotalMS: 1, AnswerMS: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseJob(good); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nothing": "", "a list": "[]", "no hooks": `{"hooks":[],"path":"","total_ms":1,"answer_ms":1}`, "unknown key": strings.Replace(string(good), `"path"`, `"paths"`, 1),
		"key twice": strings.Replace(string(good), `"path":""`, `"path":"","path":""`, 1), "two": string(good) + string(good),
		"no time": strings.Replace(string(good), "100", "0", 1), "too much time": strings.Replace(string(good), "100", "600001", 1), "negative time": strings.Replace(string(good), "100", "-1", 1),
	} {
		if job, err := parseJob([]byte(text)); err == nil {
			t.Errorf("%s is taken as %+v", name, job)
		}
	}
	r := start(t)
	if _, err := wire.ReadHooks(r.conn, wire.KindHooksReady); err != nil {
		t.Fatal(err)
	}
	_, _ = r.conn.Write(append(append(wire.HookJobHead([]byte("{}"), 1), 'x'), wire.EndMark[:]...))
	if status := r.wait(); status != exitDeny || !strings.Contains(r.out.String(), "policy_unavailable") {
		t.Errorf("status %d, out %q", status, r.out.String())
	}
}

// Without a gate's connection there is nothing to run, and no other descriptor
// passes for one.
func TestAloneItRefuses(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	for _, files := range [][]*os.File{nil, {null}} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args, cmd.Env, cmd.ExtraFiles = []string{"guard", "hooks", "run"}, []string{}, files
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != exitDeny || !strings.Contains(string(out), "guard-gate alone") {
			t.Errorf("status %d, %q", cmd.ProcessState.ExitCode(), out)
		}
	}
}

// The answer's time is kept by the runner too.
func TestAnswerThatIsLate(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.send(wire.HookJob{Hooks: []wire.Hook{script(t, "exit 0")}, AnswerMS: 500}, line)
	_ = r.conn.SetDeadline(time.Now().Add(time.Minute))
	if status := r.wait(); status != exitDeny || !strings.Contains(r.out.String(), "deadline") {
		t.Errorf("status %d, out %q", status, r.out.String())
	}
}

func FuzzParseJob(f *testing.F) {
	f.Add([]byte(`{"hooks":[{"id":"h","command":"/bin/true","args":[],"timeout_ms":100,"files":[{"arg":0,"sha256":"x"}]}],"path":"/bin","total_ms":1,"answer_ms":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		job, err := parseJob(text)
		if err != nil {
			return
		}
		for _, h := range job.Hooks {
			if h.TimeoutMS <= 0 || bounded(h.TimeoutMS) > maxWait {
				t.Errorf("%+v", h)
			}
		}
		if len(job.Hooks) == 0 || len(job.Hooks) > wire.MaxHooks || bounded(job.TotalMS) < 0 || bounded(job.AnswerMS) > maxWait {
			t.Errorf("%+v", job)
		}
	})
}
