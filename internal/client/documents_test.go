package client

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/wire"
)

// documentTree has one of everything that a document's name can lead to.
func documentTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]int{"AGENTS.md": 5, "docs/more.md": 3, "empty": 0, "half": wire.MaxContext / 2, "full": wire.MaxContext, "over": wire.MaxContext + 1}
	if err := os.Mkdir(filepath.Join(dir, "docs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, size := range files {
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte("x"), size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"link": "AGENTS.md", "linkdir": "docs", "dangling": "nothing"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestReadDocuments(t *testing.T) {
	dir := documentTree(t)
	got, body, err := ReadDocuments(dir, []string{"AGENTS.md", "gone.md", "docs/more.md", "empty", "nodir/x.md"})
	want := []wire.Document{
		{Name: "AGENTS.md", Size: 5}, {Name: "gone.md", Missing: true}, {Name: "docs/more.md", Size: 3},
		{Name: "empty"}, {Name: "nodir/x.md", Missing: true},
	}
	if err != nil || string(body) != "xxxxxxxx" {
		t.Fatalf("ReadDocuments = %q, %v", body, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if docs, body, err := ReadDocuments(dir, nil); err != nil || len(docs) != 0 || len(body) != 0 {
		t.Errorf("no documents: %v, %q, %v", docs, body, err)
	}
}

func TestReadDocumentsRefused(t *testing.T) {
	dir := documentTree(t)
	for _, tc := range []struct{ name, document, want string }{
		{"link", "link", "link"},
		{"link on the way", "linkdir/more.md", "link"},
		{"link to nothing is not missing", "dangling", "link"},
		{"directory", "docs", "not a regular file"},
		{"fifo", "fifo", "not a regular file"},
		{"file as directory", "AGENTS.md/x", "not a directory"},
		{"out of the directory", "../x", "leads out"},
		{"absolute", "/etc/hostname", "leads out"},
		{"empty name", "", "leads out"},
		{"too large", "over", "limit"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			docs, body, err := ReadDocuments(dir, []string{tc.document})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("ReadDocuments = %v, %d bytes, %v; want an error with %q", docs, len(body), err, tc.want)
			}
		})
	}
	if _, _, err := ReadDocuments(dir, []string{"half", "half", "AGENTS.md"}); err == nil {
		t.Error("documents over the limit together were read")
	}
	if _, body, err := ReadDocuments(dir, []string{"half", "half"}); err != nil || len(body) != wire.MaxContext {
		t.Errorf("documents of exactly the limit: %d bytes, %v", len(body), err)
	}
	if _, _, err := ReadDocuments(filepath.Join(dir, "gone"), []string{"AGENTS.md"}); err == nil {
		t.Error("documents of a directory that is gone were read")
	}
}

// The start of a process's memory is a regular file that not even root can read.
func TestReadDocumentsUnreadable(t *testing.T) {
	if docs, _, err := ReadDocuments("/proc/self", []string{"mem"}); err == nil {
		t.Errorf("an unreadable document gave %v", docs)
	}
}
