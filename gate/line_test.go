package gate

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"leaseguard.internal/internal/wire"
)

// Codex gives its hooks pipes. There the gate names who made its line, which the
// hook inherits through the shells between.
func TestCodexLine(t *testing.T) {
	if lineFD != wire.LineFD || hostCodex != wire.HostCodex {
		t.Fatal("gate and wire have other numbers")
	}
	b := serve(t, answerReply(pass))
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = syscall.Close(pair[0]), syscall.Close(pair[1]) }()
	for _, tc := range []struct {
		host, line string // line: what is put at its number
		want       int
	}{
		{"codex", "socketpair", os.Getpid()},
		{"codex", "null", 0},
		{"codex", "none", 0},
		{"claude", "socketpair", 0},
		{"pi", "socketpair", 0},
	} {
		t.Run(tc.host+" "+tc.line, func(t *testing.T) {
			fd := pair[1]
			if tc.line == "null" {
				if fd, err = syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = syscall.Close(fd) }()
			}
			if tc.line != "none" {
				if err := syscall.Dup3(fd, lineFD, 0); err != nil { // every child has it from here on
					t.Fatal(err)
				}
				defer func() { _ = syscall.Close(lineFD) }()
			}
			line := `timeout 60 "$@"; exit $?`
			cmd := exec.Command("sh", append([]string{"-c", line, "sh", program}, hook(b.socket, "decide").Args[1:]...)...)
			cmd.Args[5] = tc.host
			if got := runHook(t, cmd, payload); got.exit != 0 {
				t.Fatalf("got %v", got)
			}
			if r := b.requests[len(b.requests)-1]; int(r.Peer) != tc.want || string(r.Body) != payload {
				t.Errorf("peer %d, want %d; body %q", r.Peer, tc.want, r.Body)
			}
		})
	}
}

// What runs policy hooks in the gate's place has no line to pass on to them.
func TestRunnerHasNoLine(t *testing.T) {
	b := serve(t, answerReply(wire.Reply{Kind: wire.KindHooks}))
	dir := t.TempDir()
	gate := filepath.Join(dir, "guard-gate")
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		gate:                        text,
		filepath.Join(dir, "guard"): []byte("#!/bin/sh\n[ -e /proc/self/fd/3 ] && [ ! -e /proc/self/fd/200 ] && echo ran \"$@\"\n"),
	} {
		if err := os.WriteFile(name, data, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	if err := syscall.Dup3(int(null.Fd()), lineFD, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(lineFD) }()
	cmd := exec.Command(gate, hook(b.socket, "decide").Args[1:]...)
	cmd.Args[1] = "codex"
	if got := runHook(t, cmd, payload); got.exit != 0 || got.out != "ran hooks run\n" {
		t.Errorf("got %v", got)
	}
}
