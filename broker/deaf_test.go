package broker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/wire"
)

// TestF6_CodexDeaf: whatever keeps Codex from starting a hook in the directory of
// its launch is seen.
func TestF6_CodexDeaf(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(cwd string) error // once it is the anchor's
		want string
	}{
		{"there", func(string) error { return nil }, ""},
		{"removed", os.Remove, "directory_gone"},
		{"moved", func(cwd string) error { return os.Rename(cwd, cwd+"2") }, "directory_gone"},
		{"moved, and another called so", func(cwd string) error {
			if err := os.Rename(cwd, cwd+"2"); err != nil {
				return err
			}
			return os.Mkdir(cwd, 0o700)
		}, "directory_gone"},
		{"the one above moved", func(cwd string) error { return os.Rename(filepath.Dir(cwd), filepath.Dir(cwd)+"2") }, "directory_gone"},
		{"closed", func(cwd string) error { return os.Chmod(cwd, 0o600) }, "directory_gone"},
		{"the one above closed", func(cwd string) error { return os.Chmod(filepath.Dir(cwd), 0o600) }, "directory_gone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if strings.HasSuffix(tt.name, "closed") && os.Geteuid() == 0 {
				t.Skip("root enters every directory; e2e/hosts shows this as an ordinary user")
			}
			f := newFixture(t, nil)
			cwd := filepath.Join(t.TempDir(), "above", "x")
			f.must(os.MkdirAll(cwd, 0o700))
			t.Chdir(cwd) // the anchor is this process
			s, werr := f.register(wire.Register{Runtime: "codex", Dir: cwd, Command: "codex"})
			if werr != nil {
				t.Fatal(werr)
			}
			f.must(tt.then(cwd))
			if got, why := f.deaf(f.sessions.ByID(s.ID)); got != tt.want {
				t.Errorf("it is %q (%s), want %q", got, why, tt.want)
			}
			_ = os.Chmod(filepath.Dir(cwd), 0o700) // so that it can be tidied up
			_ = os.Chmod(cwd, 0o700)
		})
	}
}

// TestF6_CodexLimited: limits that somebody lowers for a running Codex are seen, and
// stay seen; what it raises itself is nothing.
func TestF6_CodexLimited(t *testing.T) {
	f := newFixture(t, nil)
	cwd, err := os.Getwd()
	f.must(err)
	registered, werr := f.register(wire.Register{Runtime: "codex", Dir: cwd, Command: "codex"})
	if werr != nil {
		t.Fatal(werr)
	}
	s := f.sessions.ByID(registered.ID)
	var was unix.Rlimit
	f.must(unix.Getrlimit(unix.RLIMIT_STACK, &was))
	t.Cleanup(func() { f.must(unix.Setrlimit(unix.RLIMIT_STACK, &was)) })
	for i, step := range []struct {
		soft uint64
		want string
	}{{1 << 22, ""}, {1 << 23, ""}, {1 << 22, "host_limited"}, {1 << 22, "host_limited"}} {
		f.must(unix.Setrlimit(unix.RLIMIT_STACK, &unix.Rlimit{Cur: step.soft, Max: was.Max}))
		if got, why := f.deaf(s); got != step.want {
			t.Errorf("step %d: it is %q (%s), want %q", i, got, why, step.want)
		}
	}
}
