package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/broker/store"
	"leaseguard.internal/gate/dialect"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/hookfile"
	"leaseguard.internal/internal/wire"
)

// desk is the definitions of a broker with a store on disk and a user's file.
type desk struct {
	*Definitions
	t     *testing.T
	dir   string
	clock *clock.Fake
	store *store.Store
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	k := &desk{t: t, dir: dir, clock: clock.NewFake(clock.Instant(time.Hour), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC))}
	k.open()
	return k
}

func (k *desk) open() {
	k.t.Helper()
	var err error
	if k.store, err = store.Open(filepath.Join(k.dir, "guard.db")); err == nil {
		k.Definitions, err = New(filepath.Join(k.dir, "hooks.json"), uint32(os.Getuid()), k.clock, k.store)
	}
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { _ = k.store.Close() })
}

// reopen is a restart of the broker, after which no session is adopted.
func (k *desk) reopen() {
	k.t.Helper()
	if err := k.store.Close(); err != nil {
		k.t.Fatal(err)
	}
	k.open()
}

// hooksFile is a hooks.json with these definitions: id, matcher, command and more.
func hooksFile(defs ...string) string {
	var groups []string
	for _, d := range defs {
		id, rest, _ := strings.Cut(d, " ")
		matcher, more, _ := strings.Cut(rest, " ")
		groups = append(groups, fmt.Sprintf(`{"matcher":%q,"hooks":[{"id":%q,"type":"command","command":"/bin/%s"%s}]}`, matcher, id, id, more))
	}
	return `{"version":1,"hooks":{"PreToolUse":[` + strings.Join(groups, ",") + `]}}`
}

// write puts the user's file into place as an editor does.
func (k *desk) write(text string) {
	k.t.Helper()
	next := filepath.Join(k.dir, "next")
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(k.dir, "hooks.json")); err != nil {
		k.t.Fatal(err)
	}
}

// launch adopts a session with a project's file; without one it has none.
func (k *desk) launch(id, dir, text string) {
	project := wire.ProjectHooks{State: wire.ProjectRead}
	if text == "" {
		project.State = wire.ProjectAbsent
	}
	k.Adopt(id, 1, dir, project, []byte(text))
}

// meet is what a call meets: its ids, with a ? behind those that aren't trusted.
func (k *desk) meet(id, turn string, own bool) (string, error) {
	ev := bashIn(turn)
	ev.Cwd = "/elsewhere"
	met, err := k.Meet(Call{Session: id, Generation: 1, Own: own, Event: ev})
	var names []string
	for _, m := range met {
		name := m.Run.ID
		if !m.Trusted {
			name += "?"
		}
		names = append(names, name)
	}
	return strings.Join(names, " "), err
}

func (k *desk) want(id, turn, want string) {
	k.t.Helper()
	if got, err := k.meet(id, turn, true); got != want || err != nil {
		k.t.Errorf("session %s in turn %q meets %q, %v; want %q", id, turn, got, err, want)
	}
}

// wantFault wants a fault with these words, and what is met all the same.
func (k *desk) wantFault(id, turn, want string, words ...string) {
	k.t.Helper()
	got, err := k.meet(id, turn, true)
	if got != want || err == nil {
		k.t.Fatalf("session %s meets %q, %v; want %q and a fault", id, got, err, want)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			k.t.Errorf("fault %q lacks %q", err, w)
		}
	}
}

var bytesOf = []wire.HookFile{{SHA256: strings.Repeat("0", 64)}}

// trust trusts what there is of an identity under that id.
func (k *desk) trust(identity, id string, look ...Look) {
	k.t.Helper()
	l := Look{}
	if len(look) > 0 {
		l = look[0]
	}
	list := k.List(l)
	for _, d := range list.Definitions {
		if d.Identity != identity || d.ID != id || d.Trust != nil || d.Replaced {
			continue
		}
		r, ok := k.Find(d.Key, l)
		if !ok {
			k.t.Fatalf("%s is listed and not found", id)
		}
		r.Files, r.Seen, r.At = bytesOf, list.Revocations, k.clock.Wall()
		if _, err := k.Trust(k.t.Context(), r); err != nil {
			k.t.Fatal(err)
		}
		return
	}
	k.t.Fatalf("nothing to trust as %s of %s: %+v", id, identity, list.Definitions)
}

func (k *desk) revoke(identity, id string) {
	k.t.Helper()
	for _, d := range k.List(Look{}).Definitions {
		if d.Identity == identity && d.ID == id && d.Trust != nil {
			if was, err := k.Revoke(k.t.Context(), d.Key); !was || err != nil {
				k.t.Fatalf("revoking %s: %t, %v", id, was, err)
			}
			return
		}
	}
	k.t.Fatalf("nothing to revoke as %s of %s", id, identity)
}

func bashIn(turn string) dialect.Event { return dialect.Event{Tool: "Bash", Turn: turn} }

const app = "workspace:/srv/app"

func TestM1_ProjectIsTheOneOfTheLaunch(t *testing.T) {
	k := newDesk(t)
	k.launch("s", "/srv/app", hooksFile("a Bash"))
	k.launch("other", "/srv/app/sub", "")
	k.want("s", "1", "a?") // although the payload's cwd is elsewhere
	k.want("other", "1", "")
	if got, err := k.meet("nobody", "1", true); got != "" || err == nil {
		t.Errorf("a session that was never adopted meets %q, %v", got, err)
	}
	k.Forget("s", 1)
	if _, err := k.meet("s", "1", true); err == nil {
		t.Error("a session that has ended has policy hooks")
	}
}

func TestM2_MissingIsEmptyAndAnythingElseIsAFault(t *testing.T) {
	k := newDesk(t)
	k.launch("s", "/srv/app", "")
	k.want("s", "missing", "")
	path := filepath.Join(k.dir, "hooks.json")
	elsewhere := filepath.Join(k.dir, "elsewhere")
	if err := os.WriteFile(elsewhere, []byte(hooksFile("a Bash")), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func() error{
		"a directory":        func() error { return os.Mkdir(path, 0o700) },
		"a link":             func() error { return os.Symlink(elsewhere, path) },
		"a link to nothing":  func() error { return os.Symlink("none", path) },
		"a link to a device": func() error { return os.Symlink("/dev/zero", path) },
		"written by others": func() error {
			return errors.Join(os.WriteFile(path, []byte(hooksFile()), 0o600), os.Chmod(path, 0o666))
		},
		"longer than 1 MiB":   func() error { return os.WriteFile(path, make1MiB(hooksFile(), 1), 0o600) },
		"no JSON":             func() error { return os.WriteFile(path, []byte("{\n\n"), 0o600) },
		"what nobody expects": func() error { return os.WriteFile(path, []byte(`{"version":2}`), 0o600) },
	} {
		_ = os.RemoveAll(path)
		if err := make(); err != nil {
			t.Fatal(err)
		}
		k.wantFault("s", name, "", path)
	}
	_ = os.RemoveAll(path)
	k.want("s", "gone again", "")
	if err := os.WriteFile(path, make1MiB(hooksFile("a Bash"), 0), 0o600); err != nil {
		t.Fatal(err)
	}
	k.want("s", "exactly 1 MiB", "a?")
}

// make1MiB pads a text to 1 MiB and more.
func make1MiB(text string, more int) []byte {
	return []byte(text + strings.Repeat(" ", hookfile.MaxFile+more-len(text)))
}

func TestM14_TrustHoldsForItsIdentityAlone(t *testing.T) {
	k := newDesk(t)
	k.write(hooksFile("a Bash"))
	k.launch("s", "/srv/app", hooksFile("a Bash"))
	k.launch("o", "/srv/other", hooksFile("a Bash"))
	k.trust(app, "a")
	k.want("s", "1", "a? a")
	k.want("o", "1", "a? a?")
	k.trust("user", "a")
	k.want("s", "2", "a a")
	k.want("o", "2", "a a?")
}

func TestM17_ChangeIsUntrustedFromTheNextTurn(t *testing.T) {
	k := newDesk(t)
	k.write(hooksFile("a Bash"))
	k.launch("s", "/srv/app", "")
	k.trust("user", "a")
	k.want("s", "1", "a")
	for i, changed := range []string{hooksFile("a Bash|Write"), hooksFile(`a Bash ,"args":["x"]`), hooksFile(`a Bash ,"timeoutMs":100`), hooksFile(`a Bash ,"onError":"allow"`)} {
		k.write(changed)
		k.want("s", "1", "a")
		k.want("s", fmt.Sprint("changed", i), "a?")
		k.write(hooksFile("a Bash"))
		k.want("s", fmt.Sprint("back", i), "a")
	}
}

// TestM18_TrustIsOnDiskBeforeItCounts: it is there after a restart; what the store
// couldn't take isn't trusted.
func TestM18_TrustIsOnDiskBeforeItCounts(t *testing.T) {
	k := newDesk(t)
	k.write(hooksFile("a Bash", "b Bash"))
	k.launch("s", "/srv/app", "")
	k.trust("user", "a")
	k.reopen()
	k.launch("s", "/srv/app", "")
	k.want("s", "1", "a b?")
	r, _ := k.Find(hookfile.Definition{ID: "b", Source: hookfile.User, Matcher: "Bash", Command: "/bin/b", TimeoutMS: 3000}.Key("user"), Look{})
	r.Files, r.At = bytesOf, k.clock.Wall()
	if err := k.store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Trust(t.Context(), r); err == nil {
		t.Error("trusted without a store")
	}
	k.want("s", "2", "a b?")
}

// TestRevokedInMemoryWhatTheDiskRefuses: who revokes is obeyed also then, and told.
func TestRevokedInMemoryWhatTheDiskRefuses(t *testing.T) {
	k := newDesk(t)
	k.write(hooksFile("a Bash"))
	k.launch("s", "/srv/app", "")
	k.trust("user", "a")
	k.want("s", "1", "a")
	key := k.List(Look{}).Definitions[0].Key
	if err := k.store.Close(); err != nil {
		t.Fatal(err)
	}
	if was, err := k.Revoke(t.Context(), key); !was || err == nil {
		t.Errorf("Revoke = %t, %v", was, err)
	}
	k.want("s", "1", "a?")
	if was, err := k.Revoke(t.Context(), "sha256:none"); was || err == nil {
		t.Errorf("Revoke of another = %t, %v", was, err)
	}
}

func TestM21_OneSnapshotATurn(t *testing.T) {
	k := newDesk(t)
	k.write(hooksFile("a Bash"))
	k.launch("s", "/srv/app", "")
	k.trust("user", "a")
	k.want("s", "1", "a")
	k.write(hooksFile("a Bash", "b Bash"))
	k.want("s", "1", "a")
	// Who isn't the host begins no turn, whatever turn it names.
	if got, err := k.meet("s", "2", false); got != "a" || err != nil {
		t.Errorf("an event that isn't the host's own meets %q, %v", got, err)
	}
	k.want("s", "2", "a b?")
	// Trust counts from the next turn on, a revocation at once.
	k.trust("user", "b")
	k.want("s", "2", "a b?")
	k.want("s", "3", "a b")
	k.revoke("user", "a")
	for _, turn := range []string{"1", "2", "3"} {
		if got, _ := k.meet("s", turn, true); !strings.HasPrefix(got, "a?") {
			t.Errorf("in turn %s a revoked definition is %q", turn, got)
		}
	}
	// Trusted again, it still has to wait.
	k.trust("user", "a")
	k.want("s", "3", "a? b")
	k.want("s", "4", "a b")
}

// TestM21_TrustedAnewIsMissedMeanwhile: trusting a hook anew switches it off for no
// turn, where what nobody has trusted is skipped. Revoking it does.
func TestM21_TrustedAnewIsMissedMeanwhile(t *testing.T) {
	k := newDesk(t)
	k.write(hooksFile("a Bash"))
	k.launch("s", "/srv/app", hooksFile("p Bash"))
	missed := func(turn string) (which string) {
		met, err := k.Meet(Call{Session: "s", Generation: 1, Own: true, Event: bashIn(turn)})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range met {
			if m.Missed && !m.Trusted {
				which += m.Run.ID
			}
		}
		return which
	}
	k.trust("user", "a")
	k.trust(app, "p")
	for _, tt := range []struct {
		what   string
		change func()
		want   string
	}{
		{"as it was", func() {}, ""},
		{"trusted anew", func() { k.revoke("user", "a"); k.trust("user", "a"); k.revoke(app, "p"); k.trust(app, "p") }, "ap"},
		{"revoked", func() { k.revoke("user", "a"); k.revoke(app, "p") }, ""},
	} {
		tt.change()
		if got := missed("1"); got != tt.want {
			t.Errorf("%s: missed are %q, want %q", tt.what, got, tt.want)
		}
	}
	if got := missed("2"); got != "" {
		t.Errorf("in the next turn %q are missed", got)
	}
}

func TestM21_WithoutANameATurnIsAMinute(t *testing.T) {
	k := newDesk(t)
	k.launch("s", "/srv/app", "")
	k.want("s", "", "")
	k.write(hooksFile("a Bash"))
	k.clock.Advance(59 * time.Second)
	k.want("s", "", "")
	k.clock.Advance(time.Second)
	if got, _ := k.meet("s", "", false); got != "" {
		t.Errorf("an event that isn't the host's own meets %q", got)
	}
	k.want("s", "", "a?")
}

func TestM22_OlderTurnsAreKept(t *testing.T) {
	k := newDesk(t)
	k.launch("s", "/srv/app", "")
	for i := range 9 {
		k.want("s", fmt.Sprint(i), "")
	}
	k.write(hooksFile("a Bash"))
	k.want("s", "0", "")
	for i := range keptTurns {
		k.want("s", fmt.Sprint("new", i), "a?")
	}
	k.want("s", "0", "a?") // sixteen newer ones have taken its place
	if m := k.sessions[launch{"s", 1}]; len(m.turns) != keptTurns {
		t.Errorf("%d turns are kept", len(m.turns))
	}
}

func TestM23_FaultStaysForItsTurn(t *testing.T) {
	k := newDesk(t)
	k.write(`{"version":1,` + "\n" + `"x":1}`)
	k.launch("s", "/srv/app", "")
	for range 3 {
		k.wantFault("s", "1", "", "hooks.json: line 2: contains unknown field")
	}
	k.write(hooksFile("a Bash"))
	k.wantFault("s", "1", "", "line 2")
	k.want("s", "2", "a?")
	// An operator's reload needs no new turn.
	k.write("{")
	k.Renew()
	k.wantFault("s", "2", "", "too early")
}

func TestM24_UserBeforeProjectAndNoneThatIsOff(t *testing.T) {
	k := newDesk(t)
	off := ` ,"enabled":false`
	k.write(hooksFile("u2 Bash", "u1 B*", "u3 Bash"+off, "u4 Write"))
	k.launch("s", "/srv/app", hooksFile("p2 Bash", "p1 *", "p3 Bash"+off))
	k.want("s", "1", "u2? u1? p2? p1?")
	// What was trusted of the project and is switched off, or gone, stays as it was.
	k.trust(app, "p2")
	k.trust(app, "p1")
	k.trust("user", "u2")
	k.launch("t", "/srv/app", hooksFile("p1 *"+off))
	k.write(hooksFile("u2 Bash"+off, "u1 B*"))
	k.want("t", "1", "u1? p1 p2")
}
