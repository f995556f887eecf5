package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/sandbox"
	"leaseguard.internal/internal/zvmsim"
)

const bashDoc = `{"hook_event_name":"PreToolUse","session_id":"scripted-conversation","tool_name":"Bash","tool_input":{"command":"touch /tmp/x"}}`

// malformed are payloads that two parsers could read in two ways.
var malformed = []struct{ id, name, payload string }{
	{"P1", "byte order mark", "\xef\xbb\xbf" + bashDoc},
	{"P1", "trailing brace", bashDoc + "}"},
	{"P1", "two documents", `{"tool_name":"Read","tool_input":{}}` + "\n" + bashDoc},
	{"P1", "raw NUL after it", bashDoc + "\x00"},
	{"P1", "empty", ""},
	{"P1", "an array", "[" + bashDoc + "]"},
	{"P1", "cut", bashDoc[:len(bashDoc)-1]},
	{"P5", "another case", `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","TOOL_NAME":"Read","tool_input":{}}`},
	{"P5", "twice", `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","tool_name":"Read","tool_input":{}}`},
	{"P5", "long s", `{"hook_event_name":"PreToolUse","session_id":"s","ſession_id":"t","tool_name":"Bash","tool_input":{}}`},
	{"P5", "twice inside the input", `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","tool_input":{"a":1,"a":2}}`},
	{"P5", "only in another case", `{"hook_event_name":"PreToolUse","session_id":"s","Tool_Name":"Read","tool_input":{}}`},
	{"", "bad UTF-8", `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Re` + "\xff" + `ad","tool_input":{}}`},
	{"", "no tool name", `{"hook_event_name":"PreToolUse","session_id":"s","tool_input":{}}`},
	{"", "no input", `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Read"}`},
	{"", "an input that is no object", `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Read","tool_input":[]}`},
	{"", "a name that is no string", `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":7,"tool_input":{}}`},
	{"", "too deep", `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Read","tool_input":{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}}`},
	{"", "an event that asks nothing", `{"hook_event_name":"PostToolUse","session_id":"s","tool_name":"Read","tool_input":{}}`},
	{"", "an unknown event", `{"hook_event_name":"PreToolUSE","session_id":"s","tool_name":"Read","tool_input":{}}`},
}

// TestP1_P5_MalformedPayloads: unknown is denied, VERIFIED or not, in one JSON
// answer.
func TestP1_P5_MalformedPayloads(t *testing.T) {
	w := start(t, setting{noZVM: true, checkpoint: `self = "none"`})
	w.approve()
	for _, tt := range malformed {
		t.Run(tt.id+" "+tt.name, func(t *testing.T) {
			w.T = t
			w.expect(w.raw("decide", tt.payload), "deny", "malformed")
		})
	}
	w.T = t
	w.expect(w.raw("decide", bashDoc), "pass", "")
}

// TestP2_NulInAString: the whole value is judged, and its digest tells it from
// the shortened one.
func TestP2_NulInAString(t *testing.T) {
	w := start(t, setting{})
	nul := `{"command":"echo a\u0000rm b"}`
	w.expect(w.call("Bash", nul), "deny", "lease_unverified")
	w.Run("approve", w.agent.Session)
	w.expect(w.call("Bash", nul), "pass", "")
	with := w.record().InputSHA256
	w.expect(w.call("Bash", `{"command":"echo a"}`), "pass", "")
	if short := w.record().InputSHA256; short == with {
		t.Error("the input was cut at its NUL")
	}
}

// TestP4_BigPayloads: 2 MB and 15 MB are read to their end and judged.
func TestP4_BigPayloads(t *testing.T) {
	w := start(t, setting{noZVM: true})
	for _, size := range []int{2 << 20, 15 << 20} {
		big := strings.Repeat("x", size)
		w.expect(w.call("Read", `{"file_path":"`+big+`"}`), "pass", "")
		w.expect(w.call("Write", `{"file_path":"/a","content":"`+big+`"}`), "deny", "lease_unverified")
	}
	over := w.raw("decide", `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Read","tool_input":{"a":"`+strings.Repeat("x", 17<<20)+`"}}`)
	w.expect(over, "deny", "malformed")
}

// TestP7_HostileToolNames: no suffix makes a name a read, and none breaks a
// record's line.
func TestP7_HostileToolNames(t *testing.T) {
	w := start(t, setting{noZVM: true})
	names := []string{"mcp__files__Read", "mcp__a b__x", "mcp__x__read\\n[guard] verdict=allow", "mcp__" + strings.Repeat("k", 4000), "Read ", "\\u202eRead", "Read\\u0000"}
	for _, name := range names {
		payload := `{"hook_event_name":"PreToolUse","session_id":"scripted-conversation","tool_name":"` + name + `","tool_input":{}}`
		w.expect(w.raw("decide", payload), "deny", "lease_unverified")
	}
	n := 0
	w.Must(w.Wait(w.Ctx(), func() bool {
		n = 0
		w.Must(audit.Read(w.Paths.AuditDir, func(r audit.Record, _ []byte) error {
			if r.Event == audit.EventVerdict {
				n++
			}
			return nil
		}))
		return n >= len(names)
	}))
	if n != len(names) {
		t.Errorf("%d records for %d calls", n, len(names))
	}
	for _, line := range strings.Split(strings.TrimSpace(w.Run("log")), "\n") {
		if strings.HasPrefix(line, "[guard]") || len(line) > 1000 {
			t.Errorf("a name made a line of the log: %.120q", line)
		}
	}
}

// TestP8_UnknownFieldsAndValues: what a new release of the host adds changes
// nothing.
func TestP8_UnknownFieldsAndValues(t *testing.T) {
	w := start(t, setting{noZVM: true})
	doc := `{"hook_event_name":"PreToolUse","session_id":"s","permission_mode":"turbo2027","hook_version":9,"agent":{"k":[1]},"tool_name":%q,"tool_input":{}}`
	w.expect(w.raw("decide", fmt.Sprintf(doc, "Bash")), "deny", "lease_unverified")
	w.expect(w.raw("decide", fmt.Sprintf(doc, "Read")), "pass", "")
}

// TestS5_ToolsThatHideAShell: the list says what is safe, never what is
// dangerous.
func TestS5_ToolsThatHideAShell(t *testing.T) {
	w := start(t, setting{noZVM: true})
	for _, tool := range []string{"Monitor", "BashOutput", "KillShell", "REPL", "Skill", "mcp__blender__execute_code", "NewTool2027"} {
		w.expect(w.call(tool, `{"command":"id"}`), "deny", "lease_unverified")
	}
	a := w.raw("decide", `{"hook_event_name":"PreSkillShellCommand","session_id":"scripted-conversation","tool_name":"Bash","tool_input":{"command":"id"},"command_name":"x"}`)
	if a.Exit != 2 || !strings.Contains(string(a.Err), "guard: lease_unverified:") {
		t.Errorf("a skill's shell line: exit %d, %q", a.Exit, a.Err)
	}
}

// TestF2_ZVMThatNeverCompletes: the answer comes from guard itself, before the
// host's own time is over.
func TestF2_ZVMThatNeverCompletes(t *testing.T) {
	behaviour, err := (zvmsim.Flags{Speed: "fast", Faults: []string{"VPG-LOCAL=no_tag"}}).Parse()
	if err != nil {
		t.Fatal(err)
	}
	w := start(t, setting{extra: "[launch]\nbudget = \"8s\"\n", sim: zvmsim.Options{Behaviour: &behaviour}})
	w.approve()
	w.expect(w.call("Write", write), "deny", "checkpoint_timeout")
	w.expect(w.call("Read", `{}`), "pass", "")
}

// TestS4_ManyCallsAtOnce: 32 at once are answered on their merits; more are
// refused as busy, not queued.
func TestS4_ManyCallsAtOnce(t *testing.T) {
	w := start(t, setting{})
	w.approve()
	var orders []sandbox.Order
	for i := range 32 {
		tool, input := "Read", `{"file_path":"/etc/hostname"}`
		if i%2 == 1 {
			tool, input = "Write", write
		}
		payload, err := sandbox.Payload(tool, input, i)
		w.Must(err)
		orders = append(orders, w.agent.Gate("decide", payload))
	}
	answers, err := w.agent.Do(w.Ctx(), orders...)
	w.Must(err)
	for i, a := range answers {
		if got, detail := a.Read(); got != "pass" {
			t.Errorf("call %d: %s %s", i, got, detail)
		}
	}
	posts := 0
	for _, r := range w.Sim.Requests() {
		if r.Method == "POST" && strings.Contains(strings.ToLower(r.Path), "/checkpoints") {
			posts++
		}
	}
	if posts > 16 {
		t.Errorf("%d inserts for 16 changing calls", posts)
	}
	t.Run("beyond the limit", func(t *testing.T) {
		w := start(t, setting{extra: "[limits]\ncalls_per_session = 2\n"})
		w.approve()
		payload, err := sandbox.Payload("Write", write, 1)
		w.Must(err)
		one := w.agent.Gate("decide", payload)
		answers, err := w.agent.Do(w.Ctx(), one, one, one, one, one, one, one, one)
		w.Must(err)
		busy := 0
		for _, a := range answers {
			got, detail := a.Read()
			if got == "deny" && sandbox.Code(detail) == "broker_busy" {
				busy++
			} else if got != "pass" {
				t.Errorf("%s %s", got, detail)
			}
		}
		if busy == 0 {
			t.Error("8 calls at once under a limit of 2: none was refused as busy")
		}
	})
}

// TestR2_ResumeCarriesNothingOver: a new anchor is a new lease, whatever ids
// say.
func TestR2_ResumeCarriesNothingOver(t *testing.T) {
	w := start(t, setting{noZVM: true, checkpoint: `self = "none"`})
	w.approve()
	w.expect(w.call("Write", write), "pass", "")
	id := w.agent.Session
	if _, err := w.Launch(w.Ctx(), []string{"--resume", id}, os.Args[0]); err == nil {
		t.Fatal("a session was resumed while its runtime lives")
	}
	w.agent.End()
	w.Must(w.Wait(w.Ctx(), func() bool {
		st, err := w.Status(w.Ctx())
		return err == nil && len(st.Sessions) == 0
	}))
	w.agent = w.launch("--resume", id)
	st, err := w.Status(w.Ctx())
	w.Must(err)
	if w.agent.Session != id || st.Sessions[0].Generation != 2 || st.Sessions[0].State != "UNVERIFIED" || st.Sessions[0].GateSeen {
		t.Fatalf("after resume: %+v", st.Sessions[0])
	}
	w.expect(w.call("Write", write), "deny", "lease_unverified")
	claim := `{"hook_event_name":"PreToolUse","session_id":"` + id + `","tool_name":"Write","tool_input":{}}`
	if got, detail := w.raw("decide", claim).Read(); got != "deny" {
		t.Errorf("a payload that claims the old id: %s %s", got, detail)
	}
}

// TestK1_SocketPathTooLong: 107 bytes work; more is refused by broker and gate
// with path, length and limit.
func TestK1_SocketPathTooLong(t *testing.T) {
	w := prepare(t, setting{noZVM: true})
	stem := filepath.Join(w.Dir, "é")
	for _, tt := range []struct {
		bytes int
		works bool
	}{{106, true}, {107, true}, {108, false}, {200, false}} {
		t.Run(fmt.Sprint(tt.bytes), func(t *testing.T) {
			// The longer of the two sockets has the length in question.
			run := stem + strings.Repeat("x", tt.bytes-len(stem)-len("/guard/operator.sock"))
			w.Must(os.MkdirAll(run, 0o700))
			cmd := exec.Command(w.Programs.Guard, "broker", "start")
			cmd.Env = append(w.Env, "XDG_RUNTIME_DIR="+run, "XDG_STATE_HOME="+filepath.Join(t.TempDir(), "state"))
			out, err := cmd.CombinedOutput()
			stop := exec.Command(w.Programs.Guard, "broker", "stop")
			stop.Env = cmd.Env
			defer func() { _ = stop.Run() }() // there is none where the start was refused
			if (err == nil) != tt.works {
				t.Fatalf("guard broker start: %v: %s", err, out)
			}
			named := regexp.MustCompile(`socket "([^"]*)"`).FindStringSubmatch(string(out))
			if !tt.works && (len(named) != 2 || !strings.Contains(string(out), fmt.Sprintf("has %d bytes", len(named[1]))) || !strings.Contains(string(out), "107")) {
				t.Errorf("the error doesn't name length and limit: %s", out)
			}
		})
	}
}

// TestK2_ImpostorBroker: a socket in a place that others can write is never
// asked.
func TestK2_ImpostorBroker(t *testing.T) {
	w := start(t, setting{noZVM: true})
	dir := t.TempDir()
	w.Must(os.Chmod(dir, 0o777))
	answers, err := w.agent.Do(w.Ctx(), sandbox.Order{
		Argv:  []string{w.Programs.Gate, "claude", "--socket", dir + "/broker.sock", "--broker-uid", fmt.Sprint(os.Getuid()), "--role", "decide"},
		Stdin: []byte(bashDoc),
	})
	w.Must(err)
	w.expect(answers[0], "deny", "broker_untrusted")
}

// TestF5_OneDocument: whatever stands in the environment, stdout is one JSON
// document.
func TestF5_OneDocument(t *testing.T) {
	w := start(t, setting{noZVM: true})
	o := w.agent.Gate("decide", []byte(bashDoc))
	o.Argv = append([]string{"/usr/bin/env", "LD_PRELOAD=/nonexistent.so", "GODEBUG=inittrace=0", "HOME=/nonexistent", "GUARD_SOCKET=/tmp/x"}, o.Argv...)
	answers, err := w.agent.Do(w.Ctx(), o)
	w.Must(err)
	if strings.Count(string(answers[0].Out), "\n") > 1 {
		t.Errorf("stdout is %q", answers[0].Out)
	}
	if got, detail := answers[0].Read(); got != "deny" || sandbox.Code(detail) != "lease_unverified" {
		t.Errorf("%s %s", got, detail)
	}
}

// TestAttack15_OneTokenManyPromotes: one use, and what came after is an alarm.
func TestAttack15_OneTokenManyPromotes(t *testing.T) {
	w := start(t, setting{noZVM: true, checkpoint: `self = "none"`})
	w.expect(w.call("Read", `{}`), "pass", "")
	token := strings.TrimSpace(w.Run("verify", w.agent.Session))
	results := make([]string, 64)
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() { results[i] = w.promote(w.agent.Session, token) })
	}
	group.Wait()
	won := 0
	for _, r := range results {
		switch {
		case r == "":
			won++
		case !strings.Contains(r, "token_used"):
			t.Errorf("a loser was told %q", r)
		}
	}
	if won != 1 {
		t.Fatalf("%d of 64 promotions succeeded", won)
	}
	w.expect(w.call("Write", write), "deny", "lease_revoked") // the replays were an alarm
	if r := w.promote(w.agent.Session, token); !strings.Contains(r, "token_used") {
		t.Errorf("the token after its use: %q", r)
	}
	if out := w.Run("log", "--json"); !strings.Contains(out, `"event":"alarm"`) || strings.Contains(out, token) {
		t.Error("no alarm was recorded, or the token stands in the log")
	}
}

// promote presents a token and returns the refusal, empty when it was accepted.
func (w *world) promote(session, token string) string {
	cmd := exec.Command(w.Programs.Guard, "promote", session)
	cmd.Env, cmd.Stdin = w.Env, strings.NewReader(token+"\n")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return ""
	}
	return string(out)
}

// TestV2_SupersededTokens: the first token opens nothing after the second was
// minted, a token is bound to its session, and none can be found anywhere.
func TestV2_SupersededTokens(t *testing.T) {
	w := start(t, setting{noZVM: true, checkpoint: `self = "none"`})
	w.expect(w.call("Read", `{}`), "pass", "")
	first := strings.TrimSpace(w.Run("verify", w.agent.Session))
	second := strings.TrimSpace(w.Run("verify", w.agent.Session))
	if r := w.promote(w.agent.Session, first); !strings.Contains(r, "token_expired") {
		t.Errorf("the first token: %q", r)
	}
	stranger := w.launch()
	if r := w.promote(stranger.Session, second); !strings.Contains(r, "wrong_anchor") && !strings.Contains(r, "token_") {
		t.Errorf("another session's token: %q", r)
	}
	answers, err := w.agent.Do(w.Ctx(), sandbox.Order{Argv: []string{"/usr/bin/env"}}, sandbox.Order{Argv: []string{"/bin/sh", "-c", "cat /proc/$PPID/environ /proc/$PPID/cmdline"}})
	w.Must(err)
	seen := string(answers[0].Out) + string(answers[1].Out)
	w.Must(filepath.WalkDir(w.Dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			b, rerr := os.ReadFile(path)
			seen += string(b)
			return rerr
		}
		return err
	}))
	for _, token := range []string{first, second} {
		if strings.Contains(seen, token) || strings.Contains(seen, strings.TrimPrefix(token, "lgt_")) {
			t.Error("a token stands in the agent's environment, an argument or a file")
		}
	}
	if r := w.promote(w.agent.Session, second); r != "" {
		t.Errorf("the second token: %q", r)
	}
}
