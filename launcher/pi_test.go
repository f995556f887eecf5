package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	host "leaseguard.internal/launcher/runtime"
)

const piPackageDir = "lib/node_modules/@earendil-works/pi-coding-agent"

// playPi stands in for node with Pi's script: it has to be given guard's own
// extension as the last one, in memory that stays as it is.
func playPi() int {
	last := ""
	for i, a := range os.Args[:len(os.Args)-1] {
		if a == "-e" {
			last = os.Args[i+1]
		}
	}
	text, err := os.ReadFile(last)
	if err != nil || !bytes.Equal(text, host.PiExtension) || os.WriteFile(last, []byte("x"), 0o600) == nil {
		fmt.Fprintf(os.Stderr, "the extension is %q: %v\n", last, err)
		return 9
	}
	var proof struct{ URL, Key string }
	if err := json.Unmarshal([]byte(os.Getenv("GUARD_PROOF")), &proof, json.MatchCaseInsensitiveNames(true)); err != nil {
		return report()
	}
	if errors.Join(os.Setenv("ANTHROPIC_BASE_URL", proof.URL), os.Setenv("ANTHROPIC_API_KEY", proof.Key)) != nil {
		return 9
	}
	os.Args = os.Args[:1]
	return playClient()
}

// withPi puts a Pi into the fixture, whose node is the test binary.
func (f fixture) withPi(t *testing.T) fixture {
	t.Helper()
	f = f.copied(t)
	dir := filepath.Dir(f.runtime)
	pack := filepath.Join(f.dir, piPackageDir)
	err := os.MkdirAll(filepath.Join(pack, "dist/bundle"), 0o700)
	for path, text := range map[string]string{
		"package.json": `{"name":"@earendil-works/pi-coding-agent","version":"1.6.0"}`, "dist/bundle/cli.js": "#!/usr/bin/env node\n",
	} {
		if err == nil {
			err = os.WriteFile(filepath.Join(pack, path), []byte(text), 0o700)
		}
	}
	if err == nil {
		err = os.Symlink(filepath.Join(pack, "dist/bundle/cli.js"), filepath.Join(dir, "pi"))
	}
	if err == nil {
		err = os.Rename(f.runtime, filepath.Join(dir, "node"))
	}
	if err != nil {
		t.Fatal(err)
	}
	f.env = append(f.env, "TEST_RUNTIME=pi")
	return f
}

func TestPi(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		t.Run(fmt.Sprintf("proved before %v", fresh), func(t *testing.T) {
			f := newFixture(t).withPi(t)
			f.claudeBroker(t, verbs{fresh: fresh})
			args := []string{"report", "", "a\nb", "\xff", "'\"", strings.Repeat("x", 100_000)}
			stdout, stderr, code := f.start(t, []string{"TEST_CLIENT=", "PI_CODING_AGENT_DIR=/x", "NODE_OPTIONS=-x", "OPENAI_API_KEY=mine"}, args...)
			if code != 42 || !strings.Contains(stderr, "dropped from the environment: NODE_OPTIONS, PI_CODING_AGENT_DIR\n") {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			checkPi(t, f, stdout, args)
		})
	}
}

// checkPi looks at what Pi found around itself.
func checkPi(t *testing.T, f fixture, text string, own []string) {
	t.Helper()
	view, args := readView(t, f, []byte(text), "OPENAI_API_KEY=mine", "JITI_FS_CACHE=false", "NODE_DISABLE_COMPILE_CACHE=1")
	script := filepath.Join(f.dir, piPackageDir, "dist/bundle/cli.js")
	if want := append([]string{"pi", script, "--no-extensions", "--no-approve", "-e", "/proc/self/fd/64"}, own...); !slices.Equal(args, want) {
		t.Errorf("arguments %.300q, want %.300q", args, want)
	}
	gate := `"gate":"` + filepath.Join(filepath.Dir(f.launch), "guard-gate") + `"`
	if !slices.ContainsFunc(view.Env, func(v string) bool {
		return strings.HasPrefix(v, "GUARD_PI=") && strings.Contains(v, gate) && strings.Contains(v, `"server":"fedcba9876543210"`)
	}) {
		t.Errorf("Pi's extension isn't told of %s", gate)
	}
}

// TestL3_PiUnproved: there is no session unless Pi has shown that it asks the
// gate, by whatever cause it doesn't.
func TestL3_PiUnproved(t *testing.T) {
	for name, c := range map[string]struct {
		mode, want string
		prepare    func(t *testing.T, f fixture)
	}{
		"it runs the call":      {"runs", `came back without the gate's denial of this launch: "done"`, nil},
		"another launch's gate": {"other", "fedcba9876543210", nil},
		"it ends":               {"quits", `it said "not logged in"`, nil},
		"no gate": {"", `guard-gate`, func(t *testing.T, f fixture) {
			if err := os.Remove(filepath.Join(filepath.Dir(f.launch), "guard-gate")); err != nil {
				t.Fatal(err)
			}
		}},
		"an extension that is missing": {"", "launch.pi_extensions", func(t *testing.T, f fixture) {
			f.configure(t, "[launch]\npi_extensions = [\"/nonexistent/team.js\"]\n")
		}},
		"an extension that others may write": {"", "chmod go-w", func(t *testing.T, f fixture) {
			path := filepath.Join(f.dir, "team.js")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, 0o666); err != nil {
				t.Fatal(err)
			}
			f.configure(t, "[launch]\npi_extensions = ["+fmt.Sprintf("%q", path)+"]\n")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t).withPi(t)
			f.claudeBroker(t, verbs{})
			if c.prepare != nil {
				c.prepare(t, f)
			}
			stdout, stderr, code := f.start(t, []string{"TEST_CLIENT=" + c.mode}, "report")
			if code != 3 || stdout != "" || !strings.HasPrefix(stderr, "guard: wiring_unproved: ") || !strings.Contains(stderr, c.want) {
				t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
			}
		})
	}
}

// TestL3_NoRoomForTheExtension: without its extension there is no session.
func TestL3_NoRoomForTheExtension(t *testing.T) {
	f := newFixture(t).withPi(t)
	f.claudeBroker(t, verbs{})
	f.launch = f.limited(t, "ulimit -n 40")
	stdout, stderr, code := f.start(t, []string{"TEST_CLIENT="}, "report")
	if code != 3 || stdout != "" || !strings.Contains(stderr, "guard: wiring_unproved: ") || !strings.Contains(stderr, "ulimit -n") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// limited is the launcher under a limit of a shell's.
func (f fixture) limited(t *testing.T, limit string) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(f.launch), "limited")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+limit+"\nexec "+f.launch+" \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// configure writes guard.toml.
func (f fixture) configure(t *testing.T, text string) {
	t.Helper()
	dir := filepath.Dir(f.paths.Config)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.paths.Config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSealed(t *testing.T) {
	s, err := seal("text", []byte("what it says"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for range 2 { // as Pi does at every new session
		if text, err := os.ReadFile(s.path()); err != nil || string(text) != "what it says" {
			t.Errorf("read %q, %v", text, err)
		}
		if err := os.WriteFile(s.path(), []byte("other"), 0o600); err == nil {
			t.Error("it could be written over")
		}
		if err := os.Truncate(s.path(), 0); err == nil {
			t.Error("it could be cut off")
		}
		if _, err := unix.FcntlInt(uintptr(s.fd), unix.F_ADD_SEALS, 0); err == nil {
			t.Error("its seals could be changed")
		}
	}
	flags, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("it is handed on before it is to be: %d, %v", flags, err)
	}
	if err := s.hand(); err != nil {
		t.Fatal(err)
	}
	if flags, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFD, 0); err != nil || flags != 0 {
		t.Errorf("it isn't handed on: %d, %v", flags, err)
	}
}
