package passphrase

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrMalformed is for text that PHC can't have written.
var ErrMalformed = errors.New("not a hash of guard's")

// Bounds of what is read: the combinations of OWASP's list, with room for a
// later choice. What lies outside wasn't written by guard.
const (
	minMemory, maxMemory = 7 << 10, 46 << 10 // KiB
	minPasses, maxPasses = 1, 8
	maxLanes             = 4

	// maxPHC is more than any hash within the bounds needs.
	maxPHC = 160
)

const version = "v=19"

var encoding = base64.RawStdEncoding.Strict()

// PHC returns the hash in the usual form of password hashes:
//
//	$argon2id$v=19$m=19456,t=2,p=1$SALT$KEY
func (h Hash) PHC() string {
	return fmt.Sprintf("$argon2id$%s$m=%d,t=%d,p=%d$%s$%s", version, h.memory, h.passes, h.lanes,
		encoding.EncodeToString(h.salt[:]), encoding.EncodeToString(h.key[:]))
}

// Parse reads what PHC wrote, and nothing else: there is one spelling of each
// hash. Its errors don't repeat the text.
func Parse(text string) (Hash, error) {
	if len(text) > maxPHC {
		return Hash{}, fmt.Errorf("reading a passphrase's hash: %d bytes: %w", len(text), ErrMalformed)
	}
	f := strings.Split(text, "$")
	if len(f) != 6 || f[0] != "" || f[1] != "argon2id" || f[2] != version {
		return Hash{}, fmt.Errorf("reading a passphrase's hash: another algorithm or version: %w", ErrMalformed)
	}
	h, err := parameters(f[3])
	if err != nil {
		return Hash{}, fmt.Errorf("reading a passphrase's hash: %w", err)
	}
	salt, saltErr := encoding.DecodeString(f[4])
	key, keyErr := encoding.DecodeString(f[5])
	if saltErr != nil || keyErr != nil || len(salt) != saltLen || len(key) != keyLen {
		return Hash{}, fmt.Errorf("reading a passphrase's hash: salt or key: %w", ErrMalformed)
	}
	h.salt, h.key = [saltLen]byte(salt), [keyLen]byte(key)
	if h.PHC() != text { // a leading zero, a line feed that the decoder skips
		return Hash{}, fmt.Errorf("reading a passphrase's hash: spelled in another way: %w", ErrMalformed)
	}
	return h, nil
}

// parameters reads m=…,t=…,p=… within the bounds.
func parameters(text string) (Hash, error) {
	f := strings.Split(text, ",")
	if len(f) != 3 {
		return Hash{}, fmt.Errorf("%d parameters: %w", len(f), ErrMalformed)
	}
	memory, err := parameter(f[0], "m=", minMemory, maxMemory)
	if err != nil {
		return Hash{}, err
	}
	passes, err := parameter(f[1], "t=", minPasses, maxPasses)
	if err != nil {
		return Hash{}, err
	}
	lanes, err := parameter(f[2], "p=", 1, maxLanes)
	if err != nil {
		return Hash{}, err
	}
	return Hash{memory: memory, passes: passes, lanes: uint8(lanes)}, nil //nolint:gosec // at most maxLanes
}

func parameter(text, name string, low, high uint32) (uint32, error) {
	digits, ok := strings.CutPrefix(text, name)
	n, err := strconv.ParseUint(digits, 10, 32)
	if !ok || err != nil || uint32(n) < low || uint32(n) > high {
		return 0, fmt.Errorf("parameter %s outside of %d to %d: %w", name, low, high, ErrMalformed)
	}
	return uint32(n), nil
}
