//go:build attacks

package attacks

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/internal/wire"
)

// verify begins a cycle and returns its token, as text and as bits.
func (w *world) verify(id string) (string, []byte) {
	w.T.Helper()
	res := w.operate(wire.Control{Verb: wire.VerbVerify, Session: id, Documents: documents})
	if res.Error != nil {
		w.T.Fatalf("beginning: %v", res.Error)
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(res.Grant.Token, "lgt_"))
	if err != nil || len(raw) != 32 {
		w.T.Fatalf("a token of %d bytes, %v", len(raw), err)
	}
	return res.Grant.Token, raw
}

// promote presents a token and returns the code of its refusal.
func (w *world) promote(id, token string) string {
	w.T.Helper()
	res := w.operate(wire.Control{Verb: wire.VerbPromote, Session: id, Token: token, Documents: documents})
	if res.Error != nil {
		return res.Error.Code
	}
	return ""
}

// TestAttack08_GuessedToken: tokens can't be told from those before, stand in no
// file, and are worth nothing beside the one session and cycle.
//
// A token is 32 bytes of the kernel's randomness (broker/token/token.go, Mint);
// only its SHA-256 is kept (Hash).
func TestAttack08_GuessedToken(t *testing.T) {
	w := start(t)
	anchor, other := w.Start(), w.Start()
	id := w.session(anchor, "exec")
	w.expect(anchor, "Read", "pass")
	var raws [][]byte
	for range 32 {
		_, raw := w.verify(id)
		for _, before := range raws {
			if n := distance(raw, before); n < 70 { // 128 on average; below this once in 10^13
				t.Errorf("two tokens differ in %d of 256 bits", n)
			}
		}
		raws = append(raws, raw)
	}
	for bit := range 8 {
		guess := bytes.Clone(raws[len(raws)-1])
		guess[31] ^= 1 << bit
		if code := w.promote(id, "lgt_"+base64.RawURLEncoding.EncodeToString(guess)); code != "token_unknown" {
			t.Errorf("a token beside the right one: %q", code)
		}
	}
	last, newest := w.verify(id) // the guesses have ended that cycle
	raws = append(raws, newest)
	second := w.session(other, "exec")
	w.expect(other, "Read", "pass")
	if code := w.promote(second, last); code != "wrong_anchor" {
		t.Errorf("another session's token: %q", code)
	}
	w.Must(filepath.WalkDir(w.Sandbox.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, raw := range raws {
			for _, form := range [][]byte{raw, []byte(hex.EncodeToString(raw)), []byte(base64.RawURLEncoding.EncodeToString(raw)), []byte(base64.StdEncoding.EncodeToString(raw))} {
				if bytes.Contains(text, form) {
					t.Errorf("a token stands in %s", path)
				}
			}
		}
		return err
	}))
}

func distance(a, b []byte) (n int) {
	for i := range a {
		n += bits.OnesCount8(a[i] ^ b[i])
	}
	return n
}

// TestAttack17_RestoredStore: the store is put back to before a token was used,
// as a snapshot of the machine does it, and the broker started anew: the token
// is as used as it was, and nobody has authority.
//
// A lease is kept nowhere (broker/leases.go), so nothing waits for the token; and
// the store takes only one of this broker's epoch (broker/store/token.go). Clock
// and suspend: TestAttack17_SuspendAndClockSteps.
func TestAttack17_RestoredStore(t *testing.T) {
	w := start(t)
	anchor := w.Start()
	id := w.session(anchor, "exec")
	w.expect(anchor, "Read", "pass")
	token, _ := w.verify(id)
	snapshot := filepath.Join(t.TempDir(), "guard.db")
	w.Must(copyFile(snapshot, w.Paths.DB, 0o600))
	if code := w.promote(id, token); code != "" {
		t.Fatalf("promoting: %s", code)
	}
	w.expect(anchor, "Write", "pass")
	w.KillBroker()
	w.Must(os.Remove(w.Paths.DB))
	w.Must(copyFile(w.Paths.DB, snapshot, 0o600))
	w.Must(w.StartBroker(w.Ctx()))
	w.expect(anchor, "Write", "lease_unverified")
	if code := w.promote(id, token); code == "" {
		t.Error("the token was used twice")
	}
	w.verify(id) // a cycle that waits for a token
	if code := w.promote(id, token); code == "" {
		t.Error("the token was used twice, in a cycle of the new broker")
	}
	w.expect(anchor, "Write", "lease_pending")
	w.approve(id)
	w.expect(anchor, "Write", "pass")
}
