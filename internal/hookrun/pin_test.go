package hookrun

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/wire"
)

func write2(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // what is root's alone is held otherwise
		if err := os.Chown(path, 65534, -1); err != nil {
			t.Fatal(err)
		}
	}
}

// TestW6_WhatChangedDoesNotRun: the trusted bytes run, or nothing.
func TestW6_WhatChangedDoesNotRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ran := dir + "/ran"
	evil := "#!/bin/sh\ntouch " + ran + "\n"
	for name, tc := range map[string]struct {
		hook   wire.Hook
		change func(path string)
	}{
		"edited in place":                {wire.Hook{}, func(p string) { write2(t, p, evil, 0o700) }},
		"replaced":                       {wire.Hook{}, func(p string) { write2(t, p+".new", evil, 0o700); _ = os.Rename(p+".new", p) }},
		"now a link":                     {wire.Hook{}, func(p string) { write2(t, p+".new", evil, 0o700); _ = os.Remove(p); _ = os.Symlink(p+".new", p) }},
		"longer by a byte":               {wire.Hook{}, func(p string) { write2(t, p, "#!/bin/sh\nexit 0\n\n", 0o700) }},
		"a script argument":              {wire.Hook{Command: "/bin/sh"}, func(p string) { write2(t, p, evil, 0o700) }},
		"its script is gone":             {wire.Hook{Command: "/bin/sh"}, func(p string) { _ = os.Remove(p) }},
		"gone":                           {wire.Hook{}, func(p string) { _ = os.Remove(p) }},
		"a directory":                    {wire.Hook{}, func(p string) { _ = os.Remove(p); _ = os.Mkdir(p, 0o700) }},
		"a new file among the arguments": {wire.Hook{Command: "/bin/sh", Args: []string{"-c", "exit 0", dir + "/new"}}, func(string) { write2(t, dir+"/new", evil, 0o700) }},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "hook")
			write2(t, path, "#!/bin/sh\nexit 0\n", 0o700)
			h := tc.hook
			h.ID, h.TimeoutMS = "h", 10_000
			if h.Command == "" {
				h.Command = path
			} else if h.Args == nil {
				h.Args = []string{path}
			}
			h = trusted(t, h)
			want(t, run(t, h)[0], wire.HookAllowed)
			tc.change(path)
			want(t, run(t, h)[0], wire.HookChanged)
			if _, err := os.Stat(ran); err == nil {
				t.Error("it ran")
			}
			_ = os.Remove(dir + "/new")
		})
	}
}

// TestW6_NoChangeBetweenHashAndRun: what was hashed is held in memory that nobody
// can change, or is a file that only root can.
func TestW6_NoChangeBetweenHashAndRun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hook")
	write2(t, path, "#!/bin/sh\nexit 0\n", 0o700)
	h := trusted(t, wire.Hook{Command: "/bin/sh", Args: []string{"-e", path}})
	p, err := pin(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	write2(t, path, "exit 1\n", 0o700)
	last := p.files[len(p.files)-1]
	got, err := os.ReadFile(ownFD(int(last.Fd())))
	if err != nil || string(got) != "#!/bin/sh\nexit 0\n" {
		t.Errorf("held is %q, %v", got, err)
	}
	if p.argv[0] != "/bin/sh" || p.argv[1] != "-e" || p.argv[2] != ownFD(firstFD+len(p.files)-1) {
		t.Errorf("it would start as %q", p.argv)
	}
	for _, f := range p.files[len(p.files)-1:] { // the shell is the machine's own
		if _, err := f.WriteAt([]byte("x"), 0); err == nil {
			t.Error("what is held can be written")
		}
		if err := f.Truncate(0); err == nil {
			t.Error("what is held can be cut")
		}
		if w, err := os.OpenFile(ownFD(int(f.Fd())), os.O_WRONLY, 0); err == nil {
			if _, err := w.Write([]byte("x")); err == nil {
				t.Error("what is held can be opened and written")
			}
			_ = w.Close()
		}
	}
}

// A program and a script run from where they are held, also by an interpreter that
// looks its script up by name.
func TestHeldFilesRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	binary, err := os.ReadFile("/bin/cat")
	if err != nil {
		t.Fatal(err)
	}
	write2(t, dir+"/cat", string(binary), 0o700)
	write2(t, dir+"/text", "no push", 0o600)
	write2(t, dir+"/deny.sh", "echo \"$1\" >&2\nexit 2\n", 0o600)
	write2(t, dir+"/deny.py", "import sys\nsys.stderr.write(sys.argv[1])\nsys.exit(2)\n", 0o600)
	for name, h := range map[string]wire.Hook{
		"own program and a data file": {Command: dir + "/cat", Args: []string{dir + "/text"}},
		"shell with a script":         {Command: "/bin/sh", Args: []string{dir + "/deny.sh", "said"}},
		"python with a script":        {Command: "/usr/bin/python3", Args: []string{"-I", dir + "/deny.py", "said"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(h.Command); err != nil {
				t.Skip(h.Command + " isn't there")
			}
			h.ID, h.TimeoutMS = "h", 20_000
			r := run(t, trusted(t, h))[0]
			if strings.HasPrefix(name, "own") {
				want(t, r, wire.HookFailed, "no decision") // cat ran, and printed no decision
			} else {
				want(t, r, wire.HookDenied, "said")
			}
		})
	}
}

// TestW7_NoFileThatNeverEnds: what is no regular file is never opened.
func TestW7_NoFileThatNeverEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", dir+"/zero"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir + "/fifo", dir + "/zero", dir, "relative", "/proc/self/fd"} {
		if f, err := openFile(path); !errors.Is(err, errNoFile) {
			t.Errorf("%s: %v, %v", path, f, err)
		}
	}
	files, err := Digest("/bin/sh", []string{dir + "/fifo", "x", dir, "", "/none", strings.Repeat("/x", 3000)})
	if err != nil || len(files) != 1 || files[0].Arg != 0 || len(files[0].SHA256) != 64 {
		t.Errorf("%+v, %v", files, err)
	}
	large := dir + "/large"
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxFile+1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f, err := openFile(large)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := copyOut(ctx, f, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("hashing isn't ended with the call: %v", err)
	}
}

// A file that only root can change isn't hashed again while the kernel says that it
// is the same; any other is, whatever is claimed.
func TestStamp(t *testing.T) {
	t.Parallel()
	if !machinesIDs() {
		t.Skip("root may be anybody here")
	}
	files, err := Digest("/bin/sh", nil)
	if err != nil || files[0].Stamp == "" {
		t.Fatalf("%+v, %v", files, err)
	}
	own := filepath.Join(t.TempDir(), "hook")
	write2(t, own, "#!/bin/sh\nexit 0\n", 0o700)
	mine, err := Digest(own, nil)
	if err != nil || mine[0].Stamp != "" && os.Getuid() != 0 {
		t.Fatalf("%+v, %v", mine, err)
	}
	for name, tc := range map[string]struct {
		path    string
		trusted wire.HookFile
		want    string
	}{
		"the same file":      {"/bin/sh", wire.HookFile{SHA256: "as trusted", Stamp: files[0].Stamp}, "as trusted"},
		"without a stamp":    {"/bin/sh", wire.HookFile{SHA256: "as trusted"}, files[0].SHA256},
		"of another change":  {"/bin/sh", wire.HookFile{SHA256: "as trusted", Stamp: files[0].Stamp + "0"}, files[0].SHA256},
		"a file of a user's": {own, wire.HookFile{SHA256: "as trusted", Stamp: "x"}, mine[0].SHA256},
	} {
		f, err := openFile(tc.path)
		if err != nil {
			t.Fatal(err)
		}
		held, sum, err := hold(t.Context(), f, true, tc.trusted)
		if err != nil || sum != tc.want {
			t.Errorf("%s: %q, %v, want %q", name, sum, err, tc.want)
		}
		_ = held.Close()
		_ = f.Close()
	}
	if !wire.SameFiles(files, []wire.HookFile{{SHA256: files[0].SHA256}}) || wire.SameFiles(files, nil) || wire.SameFiles(files, []wire.HookFile{{SHA256: "x", Stamp: files[0].Stamp}}) {
		t.Error("bytes are compared by something else")
	}
}

// Only what root alone can change is believed to stay.
func TestOnlyRoots(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/sh", dir+"/sh"); err != nil {
		t.Fatal(err)
	}
	write2(t, dir+"/own", "", 0o755)
	for path, want := range map[string]bool{"/bin/sh": true, "/usr/bin/env": true, dir + "/sh": false, dir + "/own": false, "/nowhere/x": false, "/bin": false} {
		if got := onlyRoots(path); got != want {
			t.Errorf("onlyRoots(%q) = %v", path, got)
		}
	}
}

// A hook holds none of its runner's descriptors but those that it runs from.
func TestNoDescriptorForHooks(t *testing.T) {
	t.Parallel()
	h := script(t, `ls -l /proc/$$/fd >&2; exit 2`)
	extra, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = extra.Close() }()
	r := start(t, func(c *exec.Cmd) { c.ExtraFiles = append(c.ExtraFiles, extra) })
	r.send(wire.HookJob{Hooks: []wire.Hook{h}}, line)
	got := r.results()[0]
	r.answer(pass)
	want(t, got, wire.HookDenied, "hook")
	if strings.Contains(got.Reason, "socket:") || strings.Contains(got.Reason, "passwd") || strings.Contains(got.Reason, "anon_inode") {
		t.Errorf("a hook has %s", got.Reason)
	}
}
