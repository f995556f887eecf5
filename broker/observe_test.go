package broker

import (
	"os"
	"path/filepath"
	"testing"
)

// TestF6_DirectoryOnlyCalledDeleted: what is called as a removed directory is one,
// unless that very directory has the name.
func TestF6_DirectoryOnlyCalledDeleted(t *testing.T) {
	for _, tt := range []struct {
		name, cwd string
		then      func(cwd string) error // once it is the anchor's
		want      string
	}{
		{"there", "x", func(string) error { return nil }, "VERIFIED"},
		{"there, called deleted", "x (deleted)", func(string) error { return nil }, "VERIFIED"},
		{"removed", "x", os.Remove, "UNVERIFIED"},
		{"removed, and another called so", "x", func(cwd string) error {
			if err := os.Remove(cwd); err != nil {
				return err
			}
			return os.Mkdir(cwd+" (deleted)", 0o700)
		}, "UNVERIFIED"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, nil)
			cwd := filepath.Join(t.TempDir(), tt.cwd)
			f.must(os.Mkdir(cwd, 0o700))
			t.Chdir(cwd) // the anchor is this process
			id := f.verified().ID
			f.must(tt.then(cwd))
			s := f.sessions.ByID(id)
			f.seeDirectory(s)
			if got := s.View(f.clock.Now()).State; got != tt.want {
				t.Errorf("the lease is %s, want %s", got, tt.want)
			}
		})
	}
}
