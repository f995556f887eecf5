package safepath

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The gate refuses every link, so whoever makes its socket is told of them.
func TestStraight(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o700), os.Symlink("real", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	if err := Straight(filepath.Join(dir, "real")); err != nil {
		t.Error(err)
	}
	for _, p := range []string{"link", "link/.", "link/"} {
		err := Straight(dir + "/" + p)
		if !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), `"`+filepath.Join(dir, "real")+`"`) {
			t.Errorf("%s: %v", p, err)
		}
	}
}
