//go:build failpoint

package store

import (
	"path/filepath"
	"testing"

	"leaseguard.internal/internal/passphrase"
)

// Killed at each step of a change, also after it is on disk and before anybody
// has heard so, the store has the old passphrase or the new one: never none, and
// never neither.
func TestReplacePassphraseKilled(t *testing.T) {
	one, two := testHash(t, 1), testHash(t, 2)
	for point, want := range map[string]passphrase.Hash{
		"store/before-begin": one, "store/before-commit": one, "store/after-commit": two, "store/before-reply": two,
	} {
		t.Run(point, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "guard.db")
			s := reopen(t, path)
			if err := s.ReplacePassphrase(t.Context(), passphrase.Hash{}, one); err != nil {
				t.Fatal(err)
			}
			closeStore(t, s)
			out, err := command("passphrase", path, childNext+"="+two.PHC(), "GUARD_FAILPOINT="+point+":kill@1").Output()
			if err == nil || err.Error() != "signal: killed" || len(out) != 0 {
				t.Fatalf("child ended with %v and said %q, want to be killed before it could", err, out)
			}
			if now, err := reopen(t, path).Passphrase(); err != nil || now != want {
				t.Errorf("after the kill: %v, or the wrong one", err)
			}
		})
	}
}
