package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"leaseguard.internal/internal/sandbox"
	"leaseguard.internal/internal/zvmsim"
)

var update = flag.Bool("update", false, "write testdata/reasons.golden anew")

// blanks are the parts of a reason that differ from run to run.
var blanks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "GUID"},
	{regexp.MustCompile(`\b[0-9a-f]{16}\b`), "SESSION"},
	{regexp.MustCompile(`pid \d+`), "pid N"},
	{regexp.MustCompile(`nonce [0-9a-f]{32}`), "nonce NONCE"},
	{regexp.MustCompile(`/tmp/[^ "']*?/(run|config|state)/guard`), "$1"},
	{regexp.MustCompile(`"guard:[^"]*"`), "TAG"},
	{regexp.MustCompile(`uid \d+ can change it: owner \d+`), "uid N can change it: owner N"},
	{regexp.MustCompile(`/tmp/guard-[^ ":']*`), "DIR"},
	{regexp.MustCompile(`Checkpoint \d+|checkpoint \d+`), "checkpoint N"},
}

// TestReasons pins every reason that a host or a model can be shown, one for
// each code, as the real programs write them. -update writes the file anew:
// read its diff as what every user will read.
func TestReasons(t *testing.T) {
	var got []string
	add := func(w *world, a sandbox.Answer) {
		_, reason := a.Read()
		if a.Exit == 2 {
			reason = strings.TrimSuffix(string(a.Err), "\n") // the same, in every event's form
		}
		for _, b := range blanks {
			reason = b.what.ReplaceAllString(reason, b.with)
		}
		got = append(got, reason)
	}
	denied(t, add)
	leased(t, add)
	slices.Sort(got)
	text := strings.Join(got, "\n") + "\n"
	path := filepath.Join("testdata", "reasons.golden")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("reasons differ from %s; if that is meant, run the test with -update.\ngot:\n%s\nwant:\n%s", path, text, want)
	}
	seen := map[string]bool{}
	for _, r := range got {
		seen[sandbox.Code(r)] = true
	}
	for _, code := range hostCodes {
		if !seen[code] {
			t.Errorf("no reason of code %s is pinned", code)
		}
	}
}

// hostCodes are the codes of the decision table that a host can be shown in
// this version, but for deadline and broker_busy, which the gate's tests pin,
// and internal, which nothing from outside brings about.
var hostCodes = []string{
	"malformed", "broker_unavailable", "broker_untrusted", "not_registered", "nested_runtime", "config_change", "guard_file",
	"lease_unverified", "lease_pending", "lease_expired", "lease_revoked", "checkpoint_failed", "checkpoint_unsupported", "checkpoint_gone",
	"checkpoint_timeout", "vm_ambiguous", "vm_unknown", "vm_missing", "tool_unlisted", "broker_busy", "proving",
}

// denied collects what needs no lease.
func denied(t *testing.T, add func(*world, sandbox.Answer)) {
	w := start(t, setting{noZVM: true, extra: "[limits]\ncalls_per_session = 1\n"})
	add(w, w.call("Write", write))
	add(w, w.raw("decide", "{}"))
	add(w, w.raw("decide", bashDoc+"}"))
	add(w, w.raw("decide", `{"hook_event_name":"ConfigChange","session_id":"scripted-conversation","source":"user_settings"}`))
	add(w, w.call("Read", fmt.Sprintf(`{"file_path":%q}`, w.Paths.DB)))
	add(w, w.outside(bashDoc))
	add(w, w.proving(bashDoc))
	add(w, w.nested(t, bashDoc))
	w.Run("verify", w.agent.Session)
	add(w, w.call("Write", write))
	w.Run("revoke", w.agent.Session)
	add(w, w.call("Write", write))
	w.Run("approve", w.agent.Session, "--ttl", "1s")
	w.Must(w.Wait(w.Ctx(), func() bool {
		st, err := w.Status(w.Ctx())
		return err == nil && st.Sessions[0].State == "UNVERIFIED"
	}))
	add(w, w.call("Write", write))
	w.Run("approve", w.agent.Session)
	add(w, w.call("Write", write)) // no [zvm]
	untrusted := w.agent.Gate("decide", []byte(bashDoc))
	dir := filepath.Join(w.Dir, "open")
	w.Must(os.Mkdir(dir, 0o700))
	w.Must(os.Chmod(dir, 0o777))
	untrusted.Argv[slices.Index(untrusted.Argv, "--socket")+1] = filepath.Join(dir, "broker.sock")
	answers, err := w.agent.Do(w.Ctx(), untrusted)
	w.Must(err)
	add(w, answers[0])
	w.Run("broker", "stop")
	add(w, w.call("Read", `{}`))
}

// leased collects what a VERIFIED session can meet.
func leased(t *testing.T, add func(*world, sandbox.Answer)) {
	w := start(t, setting{
		checkpoint: "self = \"app-01\"\nself_reuse = \"5m\"",
		extra:      "[launch]\nbudget = \"8s\"\n[limits]\ncalls_per_session = 2\n",
	})
	w.approve()
	for _, vm := range []string{"win-aws-01", "az-01", "twin", "paused-01", "ghost-01", "DB-01"} {
		add(w, w.call(powerOff, fmt.Sprintf(`{"vm_name":%q}`, vm)))
	}
	add(w, w.call(powerOff, `{}`))
	add(w, w.call("mcp__x__y", `{}`))
	w.expect(w.call("Write", write), "pass", "")
	w.Must(w.Sim.Resync("VPG-LOCAL"))
	add(w, w.call("Write", write))
	w.Must(w.Sim.Set("VPG-LOCAL", zvmsim.Faults{Insert: "no_tag"}))
	payload, err := sandbox.Payload("Write", write, 1)
	w.Must(err)
	one := w.agent.Gate("decide", payload)
	answers, err := w.agent.Do(w.Ctx(), one, one, one, one)
	w.Must(err)
	pinned := map[string]bool{}
	for _, a := range answers {
		_, reason := a.Read()
		if code := sandbox.Code(reason); !pinned[code] {
			pinned[code] = true
			add(w, a)
		}
	}
}
