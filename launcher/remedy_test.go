package launcher

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/internal/wire"
	host "leaseguard.internal/launcher/runtime"
)

// Each remedy leads somewhere.
func TestCommandRemedies(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"claude", "pi", "codex", "claudex"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ name, command, want string }{
		{"not in PATH", "no-such-command", "; give its path"},
		{"no such path", "/no/such", ": no such file or directory; check the path"},
		{"not executable", plain, ": permission denied; make it executable: chmod +x \"" + plain + "\""},
		{"claude", dir + "/claude", "Next: guard launch claude"},
		{"pi", dir + "/pi", "Next: guard launch pi"},
		{"codex", dir + "/codex", "Next: " + launchRemedy("codex")},
		{"claudex", dir + "/claudex", "Next: guard launch claudex"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := command([]string{tc.command})
			if err == nil || !strings.HasSuffix(err.Error(), tc.want) || strings.Count(err.Error(), tc.command) > 2 {
				t.Errorf("command = %v; want ...%s", err, tc.want)
			}
		})
	}
}

// TestLaunchRemedy: every runtime that can be launched is named with its launch.
func TestLaunchRemedy(t *testing.T) {
	for name := range agents {
		if got, want := launchRemedy(name), "guard launch "+name; got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := launchRemedy("other"); !strings.HasPrefix(got, "other can't be launched") {
		t.Errorf("other: %q", got)
	}
}

// TestTooLong: what the kernel refuses is named, with its limit.
func TestTooLong(t *testing.T) {
	long := strings.Repeat("x", host.MaxArgument+1)
	for _, c := range []struct {
		name      string
		argv, env []string
		want      []string
	}{
		{"an argument", []string{"claude", "a", long}, nil, []string{"argument 2 has 131072 bytes", "takes 131071 in one"}},
		{"a variable", []string{"claude"}, []string{"A=1", "LONG=" + long}, []string{`the variable "LONG" has 131077 bytes`}},
		{"all of it", []string{"claude", "abc"}, []string{"A=1"}, []string{"its 2 arguments and 1 variables have 15 bytes", "stack's limit", "ulimit -s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var refused *wire.Error
			err := tooLong("/x", c.argv, c.env)
			if !errors.As(err, &refused) || refused.Code != "limit_reached" {
				t.Fatalf("error %v", err)
			}
			for _, w := range c.want {
				if !strings.Contains(refused.Message, w) {
					t.Errorf("%q doesn't say %q", refused.Message, w)
				}
			}
		})
	}
}
