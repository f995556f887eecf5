package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/zvmsim"
)

// lines hands on what is written, so that a test can wait for it.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func TestZvmSimServesUntilStdinCloses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sim")
	stdin, hold := io.Pipe()
	out, code := make(lines, 1), make(chan int)
	var stderr bytes.Buffer
	c := Command{Stdin: stdin, Stdout: out, Stderr: &stderr}
	go func() {
		code <- c.Main([]string{"zvm-sim", "--dir", dir, "--speed", "fast", "--fault", "VPG-LOCAL=no_tag"})
	}()
	var info zvmsim.Info
	select {
	case line := <-out:
		if err := json.Unmarshal([]byte(line), &info, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("printed %q: %v", line, err)
		}
	case got := <-code:
		t.Fatalf("ended with %d: %s", got, &stderr)
	}
	if info.URL == "" || info.CAFile != filepath.Join(dir, "ca.pem") || info.ClientID == "" || info.ClientSecret == "" || info.Username == "" || info.Password == "" {
		t.Errorf("printed %+v", info)
	}
	if _, err := os.Stat(info.CAFile); err != nil {
		t.Error(err)
	}
	_ = hold.Close()
	if got := <-code; got != ExitDone || stderr.String() != "guard: stdin has closed: ended\n" {
		t.Errorf("ended with %d: %s", got, &stderr)
	}
}

func TestZvmSimSaysWhatThereIs(t *testing.T) {
	h := newHome(t)
	for line, want := range map[string]string{
		"--setting foo=1":      `setting "foo" isn't known: want one of token_life, any_scope, `,
		"--fault VPG-X=no_tag": `vpg "VPG-X": it isn't in the estate, which has VPG-LOCAL, `,
		"--variant VPG-X=a":    `vpg "VPG-X": it isn't in the estate, which has VPG-LOCAL, `,
	} {
		got := h.guard("", append([]string{"zvm-sim", "--dir", filepath.Join(h.dir, "sim")}, strings.Fields(line)...)...)
		if got.code != ExitUsage || got.out != "" || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v; want %q", line, got, want)
		}
	}
}

func TestZvmSimEstate(t *testing.T) {
	h := newHome(t)
	bad := filepath.Join(h.dir, "estate.json")
	if err := os.WriteFile(bad, []byte(`{"nope":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{bad, filepath.Join(h.dir, "nowhere"), h.dir} {
		if got := h.guard("", "zvm-sim", "--dir", filepath.Join(h.dir, "sim"), "--estate", path); got.code != ExitUnfinished || got.out != "" {
			t.Errorf("estate %q: %+v", path, got)
		}
	}
}
