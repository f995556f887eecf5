// Package passphrase hashes an operator's passphrase with argon2id and checks
// one against what is kept.
//
// What it promises:
//
//   - What is kept is a hash of this package's own form and no other: Parse
//     takes exactly what PHC writes, with parameters inside fixed bounds, so
//     that a store which somebody has edited costs neither hours nor gigabytes.
//   - One computation at a time, whoever asks, and its memory is given back to
//     the system afterwards.
//   - After a few wrong passphrases in a row nothing is looked at for a while,
//     longer each time. Who comes meanwhile is told so at once; nobody waits,
//     so that no slot of the broker is held.
//   - Keys are compared in constant time. No error, and no String, repeats a
//     passphrase or a hash.
//
// What it doesn't: who can read guard.db can try passphrases at leisure, and
// who can write it can put another hash there. Both need the broker's own uid.
package passphrase

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"runtime/debug"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// Bounds of a new passphrase. The hash can be attacked offline by who can read
// it, so it can't be short; the upper bound keeps a request small.
const (
	MinRunes = 8
	MaxBytes = 256
)

// What a new hash is made with: 19 MiB and two passes, of the combinations that
// OWASP counts as equal the one with the least memory that isn't slower here.
const (
	newMemory = 19 << 10 // KiB
	newPasses = 2
	newLanes  = 1

	saltLen = 16
	keyLen  = 32
)

// ErrWrong says that the passphrase isn't the one that is kept.
var ErrWrong = errors.New("passphrase is wrong")

// Hash is what is kept of a passphrase. The zero Hash is nobody's, and fits
// none.
type Hash struct {
	memory uint32 // KiB
	passes uint32
	lanes  uint8
	salt   [saltLen]byte
	key    [keyLen]byte
}

// Acceptable says what is wrong with a new passphrase, if anything is.
func Acceptable(text string) error {
	switch {
	case !utf8.ValidString(text):
		return errors.New("it is not valid UTF-8")
	case len(text) > MaxBytes:
		return fmt.Errorf("it has more than %d bytes", MaxBytes)
	case utf8.RuneCountInString(text) < MinRunes:
		return fmt.Errorf("it has fewer than %d characters", MinRunes)
	}
	return nil
}

// hash makes the hash of a new passphrase, with a salt of its own.
func hash(text string) (Hash, error) {
	if err := Acceptable(text); err != nil {
		return Hash{}, fmt.Errorf("taking a new passphrase: %w", err)
	}
	h := Hash{memory: newMemory, passes: newPasses, lanes: newLanes}
	if _, err := rand.Read(h.salt[:]); err != nil {
		return Hash{}, fmt.Errorf("drawing a salt: %w", err)
	}
	h.key = h.derive(text)
	return h, nil
}

// fits says whether text is the passphrase.
func (h Hash) fits(text string) bool {
	if h == (Hash{}) || len(text) > MaxBytes {
		return false
	}
	key := h.derive(text)
	return subtle.ConstantTimeCompare(key[:], h.key[:]) == 1
}

// derive computes the key. The memory that it took goes back to the system at
// once: a broker that sat on it would count as twice its size.
func (h Hash) derive(text string) [keyLen]byte {
	defer debug.FreeOSMemory()
	return [keyLen]byte(argon2.IDKey([]byte(text), h.salt[:], h.passes, h.memory, h.lanes, keyLen))
}

// String keeps a hash out of logs.
func (Hash) String() string { return "passphrase.Hash(kept secret)" }

// GoString keeps a hash out of %#v.
func (h Hash) GoString() string { return h.String() }
