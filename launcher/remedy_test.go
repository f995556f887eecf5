package launcher

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		{"pi", dir + "/pi", "Next: pi can't be launched in this version; launch another agent"},
		{"codex", dir + "/codex", "Next: codex can't be launched in this version; launch another agent"},
		{"claudex", dir + "/claudex", "Next: claudex can't be launched in this version; launch another agent"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := command([]string{tc.command})
			if err == nil || !strings.HasSuffix(err.Error(), tc.want) || strings.Count(err.Error(), tc.command) > 2 {
				t.Errorf("command = %v; want ...%s", err, tc.want)
			}
		})
	}
}
