package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"leaseguard.internal/cmd/guard/cli"
	"leaseguard.internal/internal/testproc"
)

const (
	module  = "../../.."
	shipped = module + "/packaging/man"
)

// TestPagesAreCurrent: what the packages ship is what the programs and documents
// say now.
func TestPagesAreCurrent(t *testing.T) {
	want, err := all(module)
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(shipped)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(shipped, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[f.Name()] = string(text)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("packaging/man isn't what this writes; run: go generate ./cmd/guard/man\n%s", d)
	}
}

// TestEachCommandHasItsPage: with each of its flags, and with no date.
func TestEachCommandHasItsPage(t *testing.T) {
	pages, err := all(module)
	if err != nil {
		t.Fatal(err)
	}
	commands := tree(cli.Command{}.Tree())
	if len(commands) < 20 {
		t.Fatalf("found %d commands", len(commands))
	}
	for _, cmd := range commands {
		text, ok := pages[pageName(cmd)+".1"]
		if !ok {
			t.Errorf("%s has no page", cmd.CommandPath())
			continue
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(text, "\n"+bold("--"+f.Name)) && !strings.Contains(text, ", "+bold("--"+f.Name)) {
				t.Errorf("%s lacks --%s", cmd.CommandPath(), f.Name)
			}
		})
	}
	for _, name := range []string{"guard.1", "guard-broker.8", "guard-gate.8", "guard.toml.5"} {
		for _, part := range []string{".SH \"NAME\"\n", ".SH \"DESCRIPTION\"\n", ".SH \"SEE ALSO\"\n"} {
			if !strings.Contains(pages[name], part) {
				t.Errorf("%s lacks %q", name, part)
			}
		}
	}
	for name, text := range pages {
		first, _, _ := strings.Cut(text, "\n")
		if fields := strings.Split(first, `"`); len(fields) < 6 || !strings.HasPrefix(first, ".TH ") || fields[5] != "" {
			t.Errorf("%s begins with %q", name, first)
		}
	}
}

// TestReadersDontComplain: by those programs that are here.
func TestReadersDontComplain(t *testing.T) {
	files, err := filepath.Glob(shipped + "/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d pages: %v", len(files), err)
	}
	readers := 0
	for _, reader := range [][]string{
		{"mandoc", "-Tlint", "-Wstyle"},
		{"groff", "-man", "-ww", "-z", "-Tutf8"},
	} {
		if _, err := exec.LookPath(reader[0]); err != nil {
			continue
		}
		readers++
		for _, file := range files {
			out, err := exec.Command(reader[0], append(reader[1:], file)...).CombinedOutput()
			var complaints []string
			for line := range strings.Lines(string(out)) {
				if !strings.Contains(line, "missing date") { // there is none, on purpose
					complaints = append(complaints, line)
				}
			}
			if len(complaints) > 0 || err != nil && len(out) == 0 {
				t.Errorf("%s of %s: %v\n%s", reader[0], file, err, strings.Join(complaints, ""))
			}
		}
	}
	if readers == 0 {
		testproc.Lacks(t, "needs mandoc or groff")
	}
}

// TestRun: pages of what is gone go, and a module without documents gets none.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	if code := run([]string{"-root", dir}, new(bytes.Buffer)); code != 3 {
		t.Errorf("without documents: exit %d", code)
	}
	if code := run([]string{"x"}, new(bytes.Buffer)); code != 2 {
		t.Errorf("with an argument: exit %d", code)
	}
	for _, name := range []string{"cli.md", "configuration.md"} {
		text, err := os.ReadFile(filepath.Join(module, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "docs", name), text)
	}
	old := filepath.Join(dir, "packaging", "man", "guard-gone.1")
	write(t, old, []byte("old"))
	var errs bytes.Buffer
	if code := run([]string{"-root", dir}, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the page of a command that is gone: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(filepath.Dir(old), "guard.1")); err != nil || len(text) == 0 {
		t.Errorf("guard.1: %v", err)
	}
	write(t, filepath.Join(dir, "docs", "cli.md"), []byte("# nothing\n"))
	if code := run([]string{"-root", dir}, &errs); code != 3 || !strings.Contains(errs.String(), "Exit codes") {
		t.Errorf("with a document that lacks a part: exit %d: %s", code, &errs)
	}
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
