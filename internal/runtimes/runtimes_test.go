package runtimes

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestKnownByName(t *testing.T) {
	for _, tc := range []struct{ name, path, want string }{
		{"native", "/usr/bin/claude", "claude"},
		{"isolated claude", "/opt/bin/claudex", "claudex"},
		{"pi", "/usr/local/bin/pi", "pi"},
		{"codex", "codex", "codex"},
		{"codex by target", "/x/codex-x86_64-unknown-linux-musl", "codex"},
		{"claude by target", "/x/claude-linux-x64", "claude"},
		{"npm's file name", "/x/bin/claude.exe", "claude"},
		{"version of the native installer", "/home/u/.local/share/claude/versions/2.1.332", "claude"},
		{"replaced while it ran", "/home/u/.local/share/claude/versions/2.1.332 (deleted)", "claude"},
		{"npm package", "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js", "claude"},
		{"npm package of the native program", "/x/@anthropic-ai/claude-code-linux-x64/claude", "claude"},
		{"relative package", "@openai/codex/bin/codex.js", "codex"},
		{"pi package", "/x/@earendil-works/pi-coding-agent/dist/cli.js", "pi"},
		{"another tool's name", "/usr/bin/claude-squad", ""},
		{"codex action", "/usr/bin/codex-action", ""},
		{"a longer word", "/usr/bin/pip", ""},
		{"agent sdk", "/x/@anthropic-ai/claude-agent-sdk/cli.js", ""},
		{"shell", "/bin/sh", ""},
		{"empty", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, is := Known(tc.path); got != tc.want || is != (tc.want != "") {
				t.Errorf("Known(%q) = %q, %v; want %q", tc.path, got, is, tc.want)
			}
		})
	}
}

func TestKnownByLinks(t *testing.T) {
	dir := t.TempDir()
	native := filepath.Join(dir, "share", "claude", "versions")
	mkdir(t, native)
	write(t, filepath.Join(native, "2.1.332"), "\x7fELF")
	for link, target := range map[string]string{
		"agent":      "second",
		"second":     "share/claude/versions/2.1.332",
		"as-claude":  "claude",
		"claude":     "/bin/true",
		"loop":       "loop",
		"aliasdir":   filepath.Join(dir, "share", "claude"),
		"plain":      "/bin/true",
		"to-nothing": "nothing",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"agent": "claude", "as-claude": "claude", "loop": "", "plain": "", "to-nothing": "",
		"aliasdir/versions/2.1.332": "claude",
	} {
		t.Run(path, func(t *testing.T) {
			if got, is := Known(filepath.Join(dir, path)); got != want || is != (want != "") {
				t.Errorf("Known = %q, %v; want %q", got, is, want)
			}
		})
	}
}

func TestL1_KnownByShimText(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"plain shim", "#!/bin/sh\nexec claude \"$@\"\n", "claude"},
		{"through node", "#!/bin/sh\nexec node \"$HOME/lib/node_modules/@anthropic-ai/claude-code/cli.js\" \"$@\"\n", "claude"},
		{"npm's own", "#!/bin/sh\nexec \"$basedir/node\"  \"$basedir/../@openai/codex/bin/codex.js\" \"$@\"\n", "codex"},
		{"version manager", "#!/usr/bin/env bash\nexec mise exec -- pi ${@:1}\n", "pi"},
		{"no exec", "#!/bin/sh\n/opt/claudex $*", "claudex"},
		{"speaks of one", "#!/bin/sh\necho 'install claude first'\nexec make \"$@\"\n", ""},
		{"comment", "#!/bin/sh\n# exec claude \"$@\"\nexec make \"$@\"\n", ""},
		{"another word", "#!/bin/sh\nexec pip install \"$@\"\n", ""},
		{"no script", "exec claude \"$@\"\n", ""},
		{"empty", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "agent")
			write(t, path, tc.text)
			if got, is := Known(path); got != tc.want || is != (tc.want != "") {
				t.Errorf("Known = %q, %v; want %q", got, is, tc.want)
			}
		})
	}
}

func TestKnownNeverBlocks(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "agent")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if name, is := Known(fifo); is {
		t.Errorf("a FIFO was taken for %q", name)
	}
}

func TestValid(t *testing.T) {
	for name, want := range map[string]bool{
		"claude": true, "claudex": true, "pi": true, "codex": true, "exec": true,
		"": false, "Claude": false, "claude ": false, "bash": false,
	} {
		if Valid(name) != want {
			t.Errorf("Valid(%q) = %v", name, !want)
		}
	}
}

func FuzzShim(f *testing.F) {
	f.Add([]byte("#!/bin/sh\nexec claude \"$@\"\n"))
	f.Add([]byte("#!\n$@"))
	f.Add([]byte{'#', '!', 0, '\n', 0xff, '$', '@'})
	path := filepath.Join(f.TempDir(), "agent")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if name, is := Known(path); is != (name != "") {
			t.Errorf("Known = %q, %v", name, is)
		}
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}
