package gate

import (
	"os"
	"os/exec"
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
