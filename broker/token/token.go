// Package token mints promotion tokens and binds what they verify. It is pure
// but for the randomness it is handed.
//
// A token is 256 random bits. Only its SHA-256 is ever stored; the text form
// exists between the mint and its one use.
package token

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"leaseguard.internal/broker/lease"
)

// prefix marks a token for secret scanners and for people.
const prefix = "lgt_"

const size = 32

// ErrMalformed is what Parse returns for text that can't be a token.
var ErrMalformed = errors.New("not a promotion token")

// Token is a secret. Its zero value matches nothing.
type Token struct {
	bits [size]byte
	set  bool
}

// Mint draws a token from random, which is crypto/rand outside of tests.
func Mint(random io.Reader) (Token, error) {
	t := Token{set: true}
	if _, err := io.ReadFull(random, t.bits[:]); err != nil {
		return Token{}, fmt.Errorf("minting token: %w", err)
	}
	if t.bits == [size]byte{} {
		return Token{}, errors.New("minting token: the random source gave zeros")
	}
	return t, nil
}

// Parse reads a token's text form, exactly as Text wrote it.
func Parse(s string) (Token, error) {
	if len(s) != len(prefix)+base64.RawURLEncoding.EncodedLen(size) || s[:len(prefix)] != prefix {
		return Token{}, ErrMalformed
	}
	t := Token{set: true}
	n, err := base64.RawURLEncoding.Strict().Decode(t.bits[:], []byte(s[len(prefix):]))
	if err != nil || n != size {
		return Token{}, ErrMalformed
	}
	return t, nil
}

// Text is the form that is handed out once. Nothing may log it.
func (t Token) Text() string { return prefix + base64.RawURLEncoding.EncodeToString(t.bits[:]) }

// String keeps a token out of logs and errors.
func (t Token) String() string { return "token(secret)" }

// GoString keeps a token out of %#v.
func (t Token) GoString() string { return t.String() }

// Hash is what is stored and compared. The zero token's hash is zero, which no
// lease accepts.
func (t Token) Hash() lease.Hash {
	if !t.set {
		return lease.Hash{}
	}
	return sha256.Sum256(t.bits[:])
}

// Equal compares hashes in constant time; zero hashes are never equal.
func Equal(a, b lease.Hash) bool {
	var zero lease.Hash
	if subtle.ConstantTimeCompare(a[:], zero[:]) == 1 {
		return false
	}
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// Document is one context document as it was read.
type Document struct {
	Name    string
	Missing bool
	Bytes   []byte
}

// Bind digests what a cycle verifies: the catalog's version and each context
// document, missing ones as missing. Every part is preceded by its length, so
// that no two lists share a digest.
func Bind(catalog [32]byte, docs []Document) lease.Hash {
	h := sha256.New()
	part := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		_, _ = h.Write(n[:]) // a hash never fails
		_, _ = h.Write(b)
	}
	part([]byte("leaseguard binding v1"))
	part(catalog[:])
	for _, d := range docs {
		part([]byte(d.Name))
		if d.Missing {
			part([]byte("missing"))
			continue
		}
		part([]byte("present"))
		part(d.Bytes)
	}
	return lease.Hash(h.Sum(nil))
}
