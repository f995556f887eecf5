package testproc

import (
	"os"
	"testing"
)

// Lacks skips a test for something that a machine may lack, or an ordinary user.
// CI has all of it as root, so that there the test fails instead: nothing is left
// out unseen.
func Lacks(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" && os.Geteuid() == 0 {
		t.Fatalf("%s; CI has to have it", what)
	}
	t.Skip(what)
}
