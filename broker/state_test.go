package broker

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/wire"
)

var noDocuments = []wire.Document{{Name: "AGENTS.md", Missing: true}}

// token begins a verification and returns its token.
func (f *fixture) token(id string) string {
	f.t.Helper()
	r := f.verb(context.Background(), wire.Control{Verb: wire.VerbVerify, Session: id, Documents: noDocuments}, nil)
	if r.Error != nil {
		f.t.Fatal(r.Error)
	}
	return r.Grant.Token
}

func (f *fixture) promoteBy(id, token string) wire.Result {
	return f.verb(context.Background(), wire.Control{Verb: wire.VerbPromote, Session: id, Token: token, Documents: noDocuments}, nil)
}

// found says how many records of an event and code there are, whose reason
// contains a text.
func (f *fixture) found(event audit.Event, code, reason string) (n int) {
	f.t.Helper()
	f.must(f.audit.Flush(context.Background()))
	f.must(audit.Read(f.opt.Paths.AuditDir, func(r audit.Record, _ []byte) error {
		if r.Event == event && r.Code == code && strings.Contains(r.Reason, reason) {
			n++
		}
		return nil
	}))
	return n
}

// TestDamagedStoreGivesNothing: the broker starts beside a damaged store, with
// no session, no lease, no token and no passphrase of before, and says so; that
// the audit's head is gone is an alarm.
func TestDamagedStoreGivesNothing(t *testing.T) {
	f := newFixture(t, nil)
	s := f.verified()
	token := f.token(s.ID)
	f.stop()
	db := f.opt.Paths.DB
	whole, err := os.ReadFile(db)
	f.must(err)
	damaged := append(bytes.Repeat([]byte("x"), 3*os.Getpagesize()), whole[3*os.Getpagesize():]...)
	f.must(os.WriteFile(db, damaged, 0o600))
	f.start(nil)

	st := f.status(nil)
	if len(st.Sessions) != 0 || st.Broker.Assurance.Operator != "cooperative" {
		t.Errorf("after the damage: %+v, operator %s", st.Sessions, st.Broker.Assurance.Operator)
	}
	if len(st.Broker.StoreAsides) != 1 || !strings.HasPrefix(st.Broker.StoreAsides[0], db+".damaged-") {
		t.Fatalf("status shows %q", st.Broker.StoreAsides)
	}
	if kept, err := os.ReadFile(st.Broker.StoreAsides[0]); err != nil || !bytes.Equal(kept, damaged) {
		t.Errorf("the damaged file wasn't kept as it was: %v", err)
	}
	if !strings.Contains(st.Broker.AuditFault, "no head of it is stored") {
		t.Errorf("fault %q", st.Broker.AuditFault)
	}
	if n := f.found(audit.EventBroker, "store_set_aside", st.Broker.StoreAsides[0]); n != 1 {
		t.Errorf("%d records of it", n)
	}
	if n := f.found(audit.EventAlarm, audit.CodeFault, "no head"); n != 1 {
		t.Errorf("%d alarms", n)
	}
	f.expect(f.ask("Write"), "not_registered")
	again := f.session()
	f.expect(f.ask("Write"), "lease_unverified")
	if r := f.promoteBy(again.ID, token); r.Error == nil {
		t.Error("a token of the damaged store was accepted")
	}
	// It stays in sight until somebody has moved it away.
	f.stop()
	f.start(nil)
	if st := f.status(nil).Broker; len(st.StoreAsides) != 1 || st.AuditFault != "" {
		t.Errorf("after another start: %q, fault %q", st.StoreAsides, st.AuditFault)
	}
}

// TestRestoredStore: an older guard.db comes back beside a newer audit, or the
// other way round. Neither gives authority, no token of it works, both are
// shown.
func TestRestoredStore(t *testing.T) {
	for name, tt := range map[string]struct{ what, fault string }{
		"store": {"guard.db", "of a run of the broker that the store doesn't know"},
		"audit": {"audit", "the end was cut"},
		"both":  {".", ""}, // which nothing on this machine can tell, but the epoch
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			s := f.verified()
			token := f.token(s.ID) // minted, and never used
			f.stop()
			state := f.opt.Paths.StateDir
			saved := filepath.Join(f.dir, "saved")
			f.must(os.CopyFS(saved, os.DirFS(state)))
			f.start(nil)
			f.approve(s.ID)
			f.expect(f.ask("Write"), "")
			f.stop()

			f.must(os.RemoveAll(filepath.Join(state, tt.what)))
			copyTree(t, filepath.Join(saved, tt.what), filepath.Join(state, tt.what))
			f.start(nil)
			if got := f.audit.Fault(); tt.fault == "" && got != "" || !strings.Contains(got, tt.fault) {
				t.Errorf("fault %q, want %q", got, tt.fault)
			}
			f.expect(f.ask("Write"), "lease_unverified")
			if r := f.promoteBy(s.ID, token); r.Error == nil {
				t.Error("a token of the copy was accepted")
			}
			f.expect(f.ask("Write"), "lease_unverified")
			if r := f.approve(s.ID); r.Error != nil {
				t.Errorf("an operator can't approve any more: %v", r.Error)
			}
		})
	}
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if err == nil && info.IsDir() {
		err = errors.Join(os.MkdirAll(to, 0o700), os.CopyFS(to, os.DirFS(from)), filepath.Walk(to, func(path string, info os.FileInfo, err error) error {
			if err == nil && info.IsDir() {
				return os.Chmod(path, 0o700)
			}
			return errors.Join(err, os.Chmod(path, 0o600))
		}))
	} else if err == nil {
		var b []byte
		if b, err = os.ReadFile(from); err == nil {
			err = os.WriteFile(to, b, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestB3_StoreGone: the state directory is moved away under the broker between a
// token and its use.
func TestB3_StoreGone(t *testing.T) {
	f := newFixture(t, nil)
	s := f.verified()
	token := f.token(s.ID)
	f.must(os.Rename(f.opt.Paths.StateDir, f.opt.Paths.StateDir+".old"))
	if r := f.promoteBy(s.ID, token); r.Error == nil || r.Error.Code != "store_failed" {
		t.Fatalf("promote: %+v", r)
	}
	f.expect(f.ask("Write"), "lease_unverified")
	r := f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, All: true}, nil)
	if r.Error != nil || len(r.Revoked) != 1 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "not durably recorded") {
		t.Errorf("revoke: %+v", r)
	}
	f.expect(f.ask("Write"), "lease_revoked")
	f.expect(f.ask("Read"), "")
	f.must(os.Rename(f.opt.Paths.StateDir+".old", f.opt.Paths.StateDir))
	if r := f.approve(s.ID); r.Error == nil {
		t.Error("a failed store came back by itself")
	}
	if st := f.status(nil).Broker; st.StoreError == "" {
		t.Error("status doesn't show it")
	}
	f.failing = true
}

// TestRevokeSaysWhatIsNotOnDisk: the first thing that meets the broken disk is a
// revocation. It is in force, and says that its record isn't on disk.
func TestRevokeSaysWhatIsNotOnDisk(t *testing.T) {
	f := newFixture(t, nil)
	f.verified()
	if r := f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, All: true}, nil); len(r.Warnings) != 0 {
		t.Errorf("with a good disk: %q", r.Warnings)
	}
	f.must(os.RemoveAll(f.opt.Paths.AuditDir))
	r := f.verb(context.Background(), wire.Control{Verb: wire.VerbRevoke, All: true}, nil)
	if r.Error != nil || len(r.Revoked) != 1 || len(r.Warnings) != 1 {
		t.Errorf("without a disk: %+v", r)
	}
	f.failing = true
}

// TestDeniedForItsRecord: a change that was denied because it could not be recorded,
// and ran all the same, is an alarm as any other.
func TestDeniedForItsRecord(t *testing.T) {
	f := newFixture(t, nil)
	s := f.verified()
	f.must(os.RemoveAll(f.opt.Paths.AuditDir))
	f.expect(f.pre("Write", `{}`), "internal")
	f.post("1", "Write", `{}`)
	if got := f.alarmOf(s); got != "verdict_ignored" {
		t.Errorf("alarm %q", got)
	}
	f.failing = true
}

// TestStartRefuses: what somebody has to decide about stays a refusal.
func TestStartRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		damage func(f *fixture) error
		want   string
	}{
		"mode of the store": {func(f *fixture) error { return os.Chmod(f.opt.Paths.DB, 0o644) }, "its mode is 0644, want 0600; run: chmod 0600"},
		"link in the store's place": {func(f *fixture) error {
			return errors.Join(os.Rename(f.opt.Paths.DB, f.opt.Paths.DB+".real"), os.Symlink(f.opt.Paths.DB+".real", f.opt.Paths.DB))
		}, "it is a symbolic link"},
		"mode of the state directory": {func(f *fixture) error { return os.Chmod(f.opt.Paths.StateDir, 0o770) }, "chmod"},
		"file in the audit's place": {func(f *fixture) error {
			return errors.Join(os.RemoveAll(f.opt.Paths.AuditDir), os.WriteFile(f.opt.Paths.AuditDir, nil, 0o600))
		}, "audit directory"},
		"link on the way to the sockets": {func(f *fixture) error {
			run := filepath.Dir(f.opt.Paths.RunDir)
			return errors.Join(os.Rename(run, run+".real"), os.Symlink(run+".real", run))
		}, "the gate follows no link on the way to its socket; set XDG_RUNTIME_DIR so that this directory is "},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.stop()
			f.must(tt.damage(f))
			b, err := Start(f.opt)
			if err == nil {
				_ = b.release()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Start: %v, want %q", err, tt.want)
			}
		})
	}
}
