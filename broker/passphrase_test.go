package broker

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/passphrase"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

const (
	words      = "words of the operator"
	otherWords = "words of another one"
)

// documented makes a request that binds the context documents, all missing.
func (f *fixture) documented(verb wire.Verb, id string, secret wire.Secret) wire.Control {
	return wire.Control{Verb: verb, Session: id, Passphrase: secret, Documents: []wire.Document{{Name: "AGENTS.md", Missing: true}}}
}

// do runs a verb and holds it to a code, "" for done.
func (f *fixture) do(ctl wire.Control, code verdict.Code) wire.Result {
	f.t.Helper()
	r := f.verb(context.Background(), ctl, nil)
	if got := codeOf(r); got != code {
		f.t.Fatalf("%s: %q (%v), want %q", ctl.Verb, got, r.Error, code)
	}
	return r
}

func codeOf(r wire.Result) verdict.Code {
	if r.Error == nil {
		return ""
	}
	return verdict.Code(r.Error.Code)
}

func (f *fixture) setPassphrase(was, next wire.Secret, code verdict.Code) {
	f.t.Helper()
	f.do(wire.Control{Verb: wire.VerbPassphrase, Passphrase: was, NewPassphrase: next}, code)
}

func (f *fixture) proofShown() string { return f.status(nil).Broker.Assurance.Operator }

// TestPassphraseIsForRaising: what raises authority needs it; what lowers it or
// only looks never does.
func TestPassphraseIsForRaising(t *testing.T) {
	f := newFixture(t, nil)
	s := f.verified()
	f.setPassphrase("", words, "")
	token := f.do(f.documented(wire.VerbVerify, s.ID, words), "").Grant.Token
	promote := f.documented(wire.VerbPromote, s.ID, "")
	promote.Token = token
	clear := f.documented(wire.VerbApprove, s.ID, "")
	clear.ClearAlarm = true
	f.sessions.ByID(s.ID).Lock("verdict_ignored")
	for name, ctl := range map[string]wire.Control{
		"verify": f.documented(wire.VerbVerify, s.ID, ""), "promote": promote,
		"approve": f.documented(wire.VerbApprove, s.ID, ""), "renew": f.documented(wire.VerbRenew, s.ID, ""), "clear an alarm": clear,
		"set another": {Verb: wire.VerbPassphrase, NewPassphrase: otherWords}, "remove it": {Verb: wire.VerbPassphrase},
	} {
		t.Run(name, func(t *testing.T) {
			f.do(ctl, verdict.PassphraseNeeded)
			ctl.Passphrase = otherWords
			f.clock.Advance(time.Minute / 2) // past any delay
			f.do(ctl, verdict.PassphraseWrong)
		})
	}
	f.clock.Advance(time.Minute / 2)
	if f.sessions.ByID(s.ID).Alarm() == "" {
		t.Error("an alarm was cleared")
	}
	clear.Passphrase = words
	f.do(clear, "")
	token = f.do(f.documented(wire.VerbVerify, s.ID, words), "").Grant.Token
	promote.Token = token
	promote.Passphrase = otherWords
	f.do(promote, verdict.PassphraseWrong)
	promote.Passphrase = words
	f.do(promote, "") // a wrong passphrase burns no token
	for _, ctl := range []wire.Control{{Verb: wire.VerbStatus}, {Verb: wire.VerbAudit}, {Verb: wire.VerbContext, Session: s.ID}, {Verb: wire.VerbRevoke, All: true}, {Verb: wire.VerbStop}} {
		f.do(ctl, "")
	}
	if st := f.sessions.ByID(s.ID).View(f.clock.Now()); st.State != "UNVERIFIED" {
		t.Errorf("after the revocation it is %s", st.State)
	}
}

// TestHopelessAsksForNothing: what no passphrase would help is refused without
// one.
func TestHopelessAsksForNothing(t *testing.T) {
	f := newFixture(t, nil)
	s := f.session()
	f.setPassphrase("", words, "")
	f.do(f.documented(wire.VerbApprove, "0011223344556677", ""), verdict.NoSuchSession)
	f.do(f.documented(wire.VerbPromote, "0011223344556677", ""), verdict.NoSuchSession)
	f.do(f.documented(wire.VerbApprove, s.ID, ""), verdict.GateUnseen)
	f.do(f.documented(wire.VerbVerify, s.ID, ""), verdict.PassphraseNeeded)
}

// TestPassphraseLife: it is set once, changed and removed by who knows it, and
// kept by a restart; status says which holds.
func TestPassphraseLife(t *testing.T) {
	f := newFixture(t, nil)
	if got := f.proofShown(); got != "cooperative" {
		t.Errorf("without one: %q", got)
	}
	f.setPassphrase("", "short", verdict.BadRequest)
	f.setPassphrase("", wire.Secret(strings.Repeat("x", passphrase.MaxBytes+1)), verdict.BadRequest)
	f.setPassphrase("", "", "") // removing none
	f.setPassphrase("ignored, since none is set", words, "")
	if got := f.proofShown(); got != "passphrase" {
		t.Errorf("with one: %q", got)
	}
	f.setPassphrase(otherWords, otherWords, verdict.PassphraseWrong)
	f.setPassphrase(words, otherWords, "")
	f.stop()
	f.start(nil)
	if got := f.proofShown(); got != "passphrase" {
		t.Errorf("after a restart: %q", got)
	}
	f.setPassphrase("", "", verdict.PassphraseNeeded)
	f.setPassphrase(words, "", verdict.PassphraseWrong)
	f.setPassphrase(otherWords, "", "")
	if got := f.proofShown(); got != "cooperative" {
		t.Errorf("after its removal: %q", got)
	}
}

// TestPassphraseRace: two who know it change it at once; one wins, and holds.
func TestPassphraseRace(t *testing.T) {
	f := newFixture(t, nil)
	f.setPassphrase("", words, "")
	next := []wire.Secret{"first of two changes", "second of two changes"}
	codes := make([]verdict.Code, len(next))
	start, done := make(chan struct{}), make(chan struct{})
	kept, werr := f.provePassphrase(t.Context(), wire.Control{Passphrase: words})
	if werr != nil {
		t.Fatal(werr)
	}
	for i := range next { // both have proved the same one
		go func() {
			<-start
			codes[i] = codeOf(wire.Result{Error: f.changePassphrase(context.Background(), wire.Control{NewPassphrase: next[i]}, kept)})
			done <- struct{}{}
		}()
	}
	close(start)
	<-done
	<-done
	won := 0
	if codes[0] != "" {
		won = 1
	}
	if codes[won] != "" || codes[1-won] != verdict.PassphraseWrong {
		t.Fatalf("the two changes came to %q", codes)
	}
	f.setPassphrase(next[1-won], words, verdict.PassphraseWrong)
	f.setPassphrase(next[won], words, "")
}

// TestPassphraseGuessing: after a few wrong ones nothing is looked at for a
// while, and meanwhile everything else goes on.
func TestPassphraseGuessing(t *testing.T) {
	f := newFixture(t, nil)
	s := f.verified()
	f.setPassphrase("", words, "")
	approve := f.documented(wire.VerbApprove, s.ID, otherWords)
	for range 3 {
		f.do(approve, verdict.PassphraseWrong)
	}
	approve.Passphrase = words
	r := f.do(approve, verdict.BrokerBusy)
	if !strings.Contains(r.Error.Message, "none is looked at for 1s") {
		t.Errorf("the refusal says %s", r.Error.Message)
	}
	f.expect(f.ask("Write"), "")
	f.do(wire.Control{Verb: wire.VerbRevoke, Session: s.ID}, "")
	f.expect(f.ask("Write"), "lease_revoked")
	f.clock.Advance(time.Second)
	f.do(approve, "")
}

// TestPassphraseIsWrittenNowhere: not into the store, not into the audit.
func TestPassphraseIsWrittenNowhere(t *testing.T) {
	f := newFixture(t, nil)
	s := f.verified()
	f.setPassphrase("", words, "")
	f.do(f.documented(wire.VerbApprove, s.ID, otherWords), verdict.PassphraseWrong)
	f.do(f.documented(wire.VerbApprove, s.ID, words), "")
	f.stop()
	f.must(filepath.WalkDir(f.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "words of") {
			t.Errorf("%s has a passphrase", path)
		}
		return err
	}))
}

// TestOutsider: who is an operator by the kernel's facts alone.
func TestOutsider(t *testing.T) {
	const me, ann, bob, operators, admins = 900, 1000, 1001, 500, 600
	for _, tt := range []struct {
		name   string
		mode   string
		uid    uint32
		groups []uint32
		named  named
		want   bool
	}{
		{"user mode, the broker's user", paths.User, me, nil, named{}, true},
		{"user mode, root", paths.User, 0, nil, named{}, true},
		{"user mode, another user", paths.User, ann, []uint32{operators}, named{}, false},
		{"user mode, nobody known", paths.User, ^uint32(0), nil, named{}, false},
		{"root", paths.System, 0, nil, named{}, true},
		{"a member", paths.System, ann, []uint32{7, operators}, named{}, true},
		{"no member", paths.System, ann, []uint32{7, admins}, named{}, false},
		{"the broker's own user", paths.System, me, nil, named{}, false},
		{"no groups at all", paths.System, ann, nil, named{}, false},
		{"named", paths.System, ann, []uint32{operators}, named{some: true, uids: []uint32{ann}}, true},
		{"another is named", paths.System, bob, []uint32{operators}, named{some: true, uids: []uint32{ann}}, false},
		{"its group is named", paths.System, bob, []uint32{operators, admins}, named{some: true, gids: []uint32{admins}}, true},
		{"named, and no member", paths.System, ann, []uint32{admins}, named{some: true, uids: []uint32{ann}, gids: []uint32{admins}}, false},
		{"root, unnamed", paths.System, 0, nil, named{some: true, uids: []uint32{ann}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &Broker{opt: Options{UID: me, Paths: paths.Paths{Mode: tt.mode, OperatorGID: operators}}, sessions: session.NewRegistry(1), ended: newEnded(), owners: noSubuids(t)}
			b.current.Store(&settings{operators: tt.named})
			if why := b.outsider(tt.uid, tt.groups); (why == "") != tt.want {
				t.Errorf("outsider = %q", why)
			}
		})
	}
}

// TestNamedOperators: a name that isn't there refuses the configuration.
func TestNamedOperators(t *testing.T) {
	for _, list := range [][]string{{"no-such-user-here"}, {"root", "%no-such-group-here"}, {""}, {"%"}, {"%%root"}, {"root "}, {"0"}} {
		if n, err := namedOperators(list); err == nil || n.some {
			t.Errorf("%q: %+v, %v", list, n, err)
		}
	}
	n, err := namedOperators([]string{"root", "%root"})
	if err != nil || !n.has(0, nil) || !n.has(7, []uint32{5, 0}) || n.has(7, []uint32{5}) {
		t.Errorf("root and its group: %+v, %v", n, err)
	}
	if n, err := namedOperators(nil); err != nil || !n.has(7, nil) {
		t.Errorf("nobody named: %+v, %v", n, err)
	}
}
