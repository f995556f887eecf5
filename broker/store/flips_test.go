package store

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRandomFlips: up to three bytes of the file, anywhere in it, are anything
// else. GUARD_SIZE=nightly tries a hundred times as often.
func TestRandomFlips(t *testing.T) {
	times := 200
	if os.Getenv("GUARD_SIZE") == "nightly" {
		times = 20_000
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	whole, path := filled(t), filepath.Join(t.TempDir(), "guard.db")
	refused := 0
	for range times {
		b := bytes.Clone(whole)
		for range 1 + random.IntN(3) {
			b[random.IntN(len(b))] ^= byte(1 + random.IntN(255))
		}
		if openDamaged(t, path, b) {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no damage at all was found")
	}
	t.Logf("%d of %d damaged files refused", refused, times)
}
