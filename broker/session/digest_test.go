package session

import (
	"crypto/sha256"
	"testing"
)

// TestDigest: the text of a call stands for its digest until that was made, and
// neither a call that has run nor one that was asked anew gets the old one's.
func TestDigest(t *testing.T) {
	sum := func(in Input) [sha256.Size]byte { return sha256.Sum256(in.JSON) }
	key, s := NewCallKey("h", "t"), &Session{}
	first, second := Input{"Bash", []byte("a")}, Input{"Bash", []byte("b")}

	s.Remember(key, Judged{Text: first}, 1)
	if j, known, _ := s.Recall(key); !known || string(j.Text.JSON) != "a" {
		t.Errorf("before the digest: %+v, %v", j, known)
	}
	s.Digest(key, sum)
	if _, known, _ := s.Recall(key); known {
		t.Error("the digest of a call that has run brings it back")
	}

	s.Remember(key, Judged{Text: first}, 1)
	s.Digest(key, func(in Input) [sha256.Size]byte {
		s.Remember(key, Judged{Text: second}, 2) // asked anew meanwhile
		return sum(in)
	})
	s.Digest(key, sum)
	if j, _, _ := s.Recall(key); j.Input != sum(second) || j.Text.Tool != "" {
		t.Errorf("asked anew: %+v", j)
	}

	s.Remember(key, Judged{}, 3) // a denial has no text
	s.Digest(key, func(Input) [sha256.Size]byte { t.Error("a denial is digested"); return [sha256.Size]byte{} })
}

// TestCallKey: no two calls share a key, wherever their ids are cut.
func TestCallKey(t *testing.T) {
	if NewCallKey("a", "b c") == NewCallKey("a b", "c") || NewCallKey("", "1") == NewCallKey("1", "") {
		t.Error("two calls have one key")
	}
}
