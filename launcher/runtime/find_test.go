package runtime

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/wire"
)

// elf is enough of a program to be taken for one.
const elf = "\x7fELF\x02\x01\x01"

// tree writes files below a new directory: executable, unless the name ends in
// a full stop, which is taken off; "-> x" makes a link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(dir, strings.TrimSuffix(name, "."))
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		target, link := strings.CutPrefix(text, "-> ")
		switch {
		case err != nil:
		case link:
			err = os.Symlink(target, path)
		case strings.HasSuffix(name, "."):
			err = os.WriteFile(path, []byte(text), 0o644)
		default:
			err = os.WriteFile(path, []byte(text), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// refusal is the reason of a launch that was refused with a code.
func refusal(t *testing.T, err error, code string) string {
	t.Helper()
	var w *wire.Error
	if !errors.As(err, &w) || w.Code != code {
		t.Fatalf("got %v, want a refusal with code %s", err, code)
	}
	if !strings.Contains(w.Message, ". Next: ") {
		t.Errorf("the reason %q has no remedy", w.Message)
	}
	return w.Message
}

// searchIn looks in a tree, for the file if one is named, with those directories
// of it in PATH.
func searchIn(dir, path, file string) Search {
	s := Search{Home: filepath.Join(dir, "home"), Self: filepath.Join(dir, "guard")}
	for _, d := range strings.Fields(path) {
		s.Path += ":" + filepath.Join(dir, d)
	}
	if file != "" {
		s.File = filepath.Join(dir, file)
	}
	return s
}

// isRefused checks that a search of the tree was refused with those words; when
// there are none, that it found something.
func isRefused(t *testing.T, err error, dir, words string) bool {
	t.Helper()
	if words == "" && err != nil {
		t.Fatal(err)
	}
	if words == "" {
		return false
	}
	if reason := refusal(t, err, "wiring_unproved"); !strings.Contains(reason, strings.ReplaceAll(words, "DIR", dir)) {
		t.Errorf("reason %q", reason)
	}
	return true
}

func TestL1_L4_Find(t *testing.T) {
	const shim = "#!/bin/sh\nnode real.js \"$@\"\n"
	for _, c := range []struct {
		name    string
		files   map[string]string
		path    string // directories, blank between
		file    string
		want    string // found, below the directory
		refused string // a part of the reason, where DIR stands for it
		note    string
	}{
		{name: "first of PATH", files: map[string]string{"a/claude": elf, "b/claude": elf}, path: "a b", want: "a/claude"},
		{name: "behind links", files: map[string]string{"a/claude": "-> ../v/2.1.332", "v/2.1.332": elf}, path: "a", want: "v/2.1.332"},
		{name: "not executable", files: map[string]string{"a/claude.": elf, "b/claude": elf}, path: "a b", want: "b/claude"},
		{name: "a directory", files: map[string]string{"a/claude/x": elf, "b/claude": elf}, path: "a b", want: "b/claude"},
		{name: "guard's wrapper", files: map[string]string{"a/claude": "#!/bin/sh\nexec /opt/guard launch claude -- \"$@\"\n", "b/claude": elf}, path: "a b", want: "b/claude"},
		{name: "a link to guard", files: map[string]string{"guard": elf, "a/claude": "-> ../guard", "b/claude": elf}, path: "a b", want: "b/claude"},
		{name: "guard's wrapper alone", files: map[string]string{"a/claude": "#!/bin/sh\nguard launch claude \"$@\"\n"}, path: "a", refused: "no executable"},
		{name: "L1 shim before the program", files: map[string]string{"a/claude": shim, "b/claude": elf}, path: "a b", refused: "guard launch claude --client DIR/b/claude"},
		{name: "L1 npm's wrapper", files: map[string]string{
			"a/claude": "-> ../m/node_modules/@anthropic-ai/claude-code/cli.js", "m/node_modules/@anthropic-ai/claude-code/cli.js": "#!/usr/bin/env node\n",
			"m/node_modules/@anthropic-ai/claude-code-linux-x64/claude": elf,
		}, path: "a", refused: "--client DIR/m/node_modules/@anthropic-ai/claude-code-linux-x64/claude"},
		{name: "L1 shim alone", files: map[string]string{"a/claude": shim}, path: "a", refused: "--client FILE"},
		{name: "L4 the installer's place", files: map[string]string{"home/.claude/local/claude": elf, "home/.bashrc.": "alias claude=x"}, path: "a", want: "home/.claude/local/claude", note: "--client FILE"},
		{name: "L4 a script there", files: map[string]string{
			"home/.claude/local/claude": "#!/bin/bash\nexec \"x\" \"$@\"\n", "home/.claude/local/node_modules/@anthropic-ai/claude-code-linux-x64/claude": elf,
		}, path: "a", refused: "--client DIR/home/.claude/local/node_modules/@anthropic-ai/claude-code-linux-x64/claude"},
		{name: "L4 nowhere", files: nil, path: "a", refused: "npm install -g @anthropic-ai/claude-code@" + Tested},
		{name: "named", files: map[string]string{"a/claude": elf, "it's here/x": elf}, path: "a", file: "it's here/x", want: "it's here/x"},
		{name: "named shim", files: map[string]string{"x": shim}, file: "x", refused: "it is a script"},
		{name: "named nothing", files: nil, file: "x", refused: "no such executable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := tree(t, c.files)
			s := searchIn(dir, c.path, c.file)
			s.Program = ClaudeProgram
			got, err := Find(s)
			if isRefused(t, err, dir, c.refused) {
				return
			}
			defer got.Close()
			if got.Path != filepath.Join(dir, c.want) || (c.note == "") != (got.Note == "") || !strings.Contains(got.Note, c.note) {
				t.Errorf("found %q with note %q", got.Path, got.Note)
			}
		})
	}
}

// TestFindIgnoresTheProject: what stands in the working directory isn't the
// user's choice.
func TestFindIgnoresTheProject(t *testing.T) {
	dir := tree(t, map[string]string{"claude": elf, "bin/claude": elf})
	t.Chdir(dir)
	for _, path := range []string{"", ".", ":", "bin", "./bin"} {
		if c, err := Find(Search{Program: ClaudeProgram, Path: path}); err == nil {
			t.Errorf("PATH %q leads to %q", path, c.Path)
		}
	}
}

func TestFindNeverBlocks(t *testing.T) {
	dir := tree(t, nil)
	if err := unix.Mkfifo(filepath.Join(dir, "claude"), 0o755); err != nil {
		t.Fatal(err)
	}
	refusal(t, func() error { _, err := Find(Search{Program: ClaudeProgram, Path: dir}); return err }(), "wiring_unproved")
}

// TestClientIsPinned: what takes the client's place, or is written into it,
// isn't executed.
func TestClientIsPinned(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"replaced": func(path string) error {
			if err := os.WriteFile(path+".new", []byte(elf), 0o755); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
		"written": func(path string) error { return os.WriteFile(path, []byte(elf+"more"), 0o755) },
		"removed": os.Remove,
		"a link": func(path string) error {
			if err := os.Rename(path, path+".old"); err != nil {
				return err
			}
			return os.Symlink(path+".old", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, map[string]string{"claude": elf})
			c, err := Find(Search{Program: ClaudeProgram, Path: dir})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.Check(); err != nil {
				t.Errorf("before: %v", err)
			}
			if err := change(c.Path); err != nil {
				t.Fatal(err)
			}
			refusal(t, c.Check(), "wiring_unproved")
		})
	}
}

func TestCheckVersion(t *testing.T) {
	for _, c := range []struct {
		line, code string
		warns      bool
	}{
		{line: "2.1.332 (Claude Code)\n"},
		{line: "2.1.295 (Claude Code)"},
		{line: "2.1.294 (Claude Code)\n", code: "client_too_old"},
		{line: "2.1.197 (Claude Code)\n", code: "client_too_old"},
		{line: "1.9.999 (Claude Code)\n", code: "client_too_old"},
		{line: "2.1.333 (Claude Code)\n", warns: true},
		{line: "2.2.0-beta.1 (Claude Code)\n", warns: true},
		{line: "10.0.0 (Claude Code)\n", warns: true},
		{line: "", code: "wiring_unproved"},
		{line: "1.3.14\n", code: "wiring_unproved"},
		{line: "2.1.332 (Claude Code)\nmore\n", code: "wiring_unproved"},
		{line: "99999999999999999999.1.1 (Claude Code)", code: "wiring_unproved"},
	} {
		t.Run(c.line, func(t *testing.T) {
			warning, err := CheckVersion("/x/claude", c.line)
			if c.code != "" {
				refusal(t, err, c.code)
			} else if err != nil || (warning != "") != c.warns {
				t.Errorf("warning %q, error %v", warning, err)
			}
		})
	}
}

func TestAgentVersion(t *testing.T) {
	for header, want := range map[string]string{
		"claude-cli/2.1.332 (external, sdk-cli)": "2.1.332 (Claude Code)",
		"claude-cli/2.2.0-beta.1 (x)":            "2.2.0-beta.1 (Claude Code)",
		"claude-cli/2.1.332":                     "2.1.332 (Claude Code)",
		"":                                       "",
		"curl/8":                                 "",
		"claude-cli/2.1 (x)":                     "",
		"x claude-cli/2.1.332 (x)":               "",
		"claude-cli/2.1.332x (x)":                "",
	} {
		if got := AgentVersion(header); got != want {
			t.Errorf("%q gives %q, want %q", header, got, want)
		}
	}
}
