package broker

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/broker/policy"
	"leaseguard.internal/broker/store"
	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/agenttest"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

const aHook = `{"version":1,"hooks":{"PreToolUse":[{"hooks":[{"id":"a","type":"command","command":"/bin/true"}]}]}}`

var read = wire.ProjectHooks{State: wire.ProjectRead}

// hooksDo runs an operator's verb about policy hooks, and holds it to a code.
func (f *fixture) hooksDo(verb wire.Verb, req wire.HooksRequest, secret wire.Secret, body string, code verdict.Code) *wire.Hooks {
	f.t.Helper()
	r := f.hooksVerb(context.Background(), peer.Peer{}, wire.Control{Verb: verb, Hooks: &req, Passphrase: secret}, []byte(body))
	if got := codeOf(r); got != code {
		f.t.Fatalf("%s: %q (%v), want %q", verb, got, r.Error, code)
	}
	return r.Hooks
}

// meets is what a call of a session meets, and whether all is known of it.
func (f *fixture) meets(s wire.Session) (int, error) {
	met, fault := f.definitions.Meet(policy.Call{Session: s.ID, Generation: s.Generation, Own: true, Event: dialect.Event{Tool: "Bash"}})
	return len(met), fault
}

// TestProjectComesWithTheRegistration: also a large one, from outside of all
// sessions; and it outlives the broker.
func TestProjectComesWithTheRegistration(t *testing.T) {
	f := newFixture(t, nil)
	text := aHook + strings.Repeat(" ", wire.MaxProject-len(aHook))
	s, werr := f.registerWith(wire.Register{Runtime: "exec", Dir: "/srv/app", Hooks: read}, []byte(text))
	if werr != nil {
		t.Fatal(werr)
	}
	for _, again := range []bool{false, true} {
		if again {
			f.stop()
			f.start(nil)
		}
		if n, fault := f.meets(s); n != 1 || fault != nil {
			t.Errorf("restarted %t: it meets %d, %v", again, n, fault)
		}
	}
}

// TestProjectGoesWithItsSession, from memory and from the disk.
func TestProjectGoesWithItsSession(t *testing.T) {
	f := newFixture(t, nil)
	a, err := agenttest.Start()
	f.must(err)
	defer a.Kill()
	s, err := a.Register(f.opt.Paths, wire.Register{Runtime: "exec", Dir: "/srv/app"})
	f.must(err)
	if n, fault := f.meets(s); n != 0 || fault != nil {
		t.Errorf("it meets %d, %v", n, fault)
	}
	kept := func() int {
		all, err := f.store.Projects()
		f.must(err)
		return len(all)
	}
	if kept() != 1 {
		t.Error("the project isn't on disk")
	}
	a.Kill()
	f.eventually("the ended session's project is forgotten", func() bool { return kept() == 0 })
	if _, fault := f.meets(s); fault == nil {
		t.Error("an ended session is still known")
	}
}

// TestSessionOfAnOlderGuard has told nothing of its project: nothing changes there.
func TestSessionOfAnOlderGuard(t *testing.T) {
	f := newFixture(t, nil)
	s := f.session()
	f.must(f.store.DropProject(t.Context(), s.ID, s.Generation))
	f.stop()
	f.start(nil)
	if n, fault := f.meets(s); n != 0 || fault == nil || !strings.Contains(fault.Error(), "has not said") {
		t.Errorf("it meets %d, %v", n, fault)
	}
	f.must(f.store.AddSession(t.Context(), store.Session{ID: "gone", Generation: 1}, store.Project{Hooks: read}))
	f.stop()
	f.start(nil)
	f.eventually("a project of nobody is forgotten", func() bool {
		all, err := f.store.Projects()
		return err == nil && len(all) == 0
	})
}

// TestProjectIsWhatItSays: state and bytes that don't fit register nobody.
func TestProjectIsWhatItSays(t *testing.T) {
	f := newFixture(t, nil)
	for name, tt := range map[string]struct {
		hooks wire.ProjectHooks
		body  string
	}{
		"bytes of a file that isn't there": {wire.ProjectHooks{State: wire.ProjectAbsent}, "x"},
		"bytes of one that wasn't read":    {wire.ProjectHooks{State: wire.ProjectUnreadable}, "x"},
		"a state of its own":               {wire.ProjectHooks{State: "trusted"}, ""},
		"an endless reason":                {wire.ProjectHooks{State: wire.ProjectUnreadable, Why: strings.Repeat("x", 5000)}, ""},
		"read, with a reason":              {wire.ProjectHooks{State: wire.ProjectRead, Why: "x"}, "x"},
	} {
		if s, werr := f.registerWith(wire.Register{Runtime: "exec", Dir: "/", Hooks: tt.hooks}, []byte(tt.body)); werr == nil {
			t.Errorf("%s: registered as %s", name, s.ID)
		}
	}
	if checkProject(read, make([]byte, wire.MaxProject+1)) == nil || checkProject(wire.ProjectHooks{}, nil) != nil {
		t.Error("the bound of a project's file isn't 1 MiB")
	}
}

// TestPassphraseIsForTrust: both to give it and to take it back, since either can
// let something through; looking needs none.
func TestPassphraseIsForTrust(t *testing.T) {
	f := newFixture(t, nil)
	dir := filepath.Dir(f.opt.Paths.Config)
	f.must(os.MkdirAll(dir, 0o700))
	f.must(os.WriteFile(filepath.Join(dir, "hooks.json"), []byte(aHook), 0o600))
	f.setPassphrase("", words, "")
	list := f.hooksDo(wire.VerbHooks, wire.HooksRequest{}, "", "", "")
	trust := wire.HooksRequest{Key: list.Definitions[0].Key, Files: []wire.HookFile{{SHA256: strings.Repeat("0", 64)}}}
	revoke := wire.HooksRequest{Key: trust.Key}
	f.hooksDo(wire.VerbHooksTrust, trust, "", "", verdict.PassphraseNeeded)
	f.hooksDo(wire.VerbHooksTrust, trust, otherWords, "", verdict.PassphraseWrong)
	f.clock.Advance(time.Minute)
	if got := f.hooksDo(wire.VerbHooksTrust, trust, words, "", ""); got.Definitions[0].Trust == nil {
		t.Error("with the passphrase it isn't trusted")
	}
	f.hooksDo(wire.VerbHooksRevoke, revoke, "", "", verdict.PassphraseNeeded)
	if got := f.hooksDo(wire.VerbHooks, wire.HooksRequest{}, "", "", ""); got.Definitions[0].Trust == nil || got.Untrusted != "deny" {
		t.Errorf("after refused revocations: %+v", got)
	}
	if got := f.hooksDo(wire.VerbHooksRevoke, revoke, words, "", ""); got.Definitions[0].Trust != nil || got.Revocations != 1 {
		t.Errorf("revoked: %+v", got)
	}
	f.hooksDo(wire.VerbHooksTrust, trust, words, "", verdict.HookRevoked)
	for code, want := range map[string]int{"hook_trusted": 1, "hook_revoked": 1} {
		f.eventually("it is on record: "+code, func() bool { return f.found("broker", code, "") == want })
	}
}

// TestTrustIsAskedForWhole: what is missing, unknown, off or no file's digest is
// refused.
func TestTrustIsAskedForWhole(t *testing.T) {
	f := newFixture(t, nil)
	off := strings.Replace(aHook, `"/bin/true"`, `"/bin/true","enabled":false`, 1)
	look := wire.HooksRequest{Dir: "/srv/app", Project: read}
	key := f.hooksDo(wire.VerbHooks, look, "", aHook, "").Definitions[0].Key
	with := func(change func(*wire.HooksRequest)) wire.HooksRequest {
		r := look
		r.Key, r.Files = key, []wire.HookFile{{SHA256: strings.Repeat("0", 64)}}
		change(&r)
		return r
	}
	for name, tt := range map[string]struct {
		change func(*wire.HooksRequest)
		body   string
		code   verdict.Code
	}{
		"nowhere":            {func(r *wire.HooksRequest) { r.Dir, r.Project = "", wire.ProjectHooks{} }, "", verdict.NoSuchHook},
		"no key":             {func(r *wire.HooksRequest) { r.Key = "" }, aHook, verdict.NoSuchHook},
		"off":                {func(*wire.HooksRequest) {}, off, verdict.BadRequest},
		"no digest":          {func(r *wire.HooksRequest) { r.Files = nil }, aHook, verdict.StoreFailed},
		"relative":           {func(r *wire.HooksRequest) { r.Dir = "app" }, aHook, verdict.BadRequest},
		"bytes of nowhere":   {func(r *wire.HooksRequest) { r.Dir = "" }, aHook, verdict.BadRequest},
		"more than was seen": {func(r *wire.HooksRequest) { r.Seen = 7 }, aHook, verdict.HookRevoked},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			f.hooksDo(wire.VerbHooksTrust, with(tt.change), "", tt.body, tt.code)
		})
	}
	f.t = t
	f.hooksDo(wire.VerbHooksTrust, with(func(*wire.HooksRequest) {}), "", aHook, "")
	if got := f.hooksDo(wire.VerbHooks, wire.HooksRequest{}, "", "", ""); len(got.Definitions) != 1 || got.Definitions[0].InFile {
		t.Errorf("trusted before any launch: %+v", got.Definitions)
	}
	f.hooksDo(wire.VerbHooksRevoke, wire.HooksRequest{}, "", "", verdict.BadRequest)
}
