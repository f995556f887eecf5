package gate

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// beside puts a program in the place of guard, beside a gate of its own. An empty
// text puts none there.
func beside(t *testing.T, text string) (gate string) {
	t.Helper()
	dir := private(t)
	gate = filepath.Join(dir, "guard-gate")
	b, err := os.ReadFile(program)
	if err == nil {
		err = os.WriteFile(gate, b, 0o700)
	}
	if err == nil && text != "" {
		err = os.WriteFile(filepath.Join(dir, "guard"), []byte(text), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	return gate
}

// hooksFirst answers that hooks are to be run, and then plays on.
func hooksFirst(then script) script {
	return func(conn *net.UnixConn, req *wire.Request) {
		_, _ = conn.Write(wire.HooksFrame())
		then(conn, req)
	}
}

// The gate becomes guard hooks run: the same process, with the connection as
// descriptor 3, no environment, the host's own three descriptors, and no more.
func TestBecomesTheRunnerOfHooks(t *testing.T) {
	if kindHooks != wire.KindHooks || kindAnswer != wire.KindAnswer {
		t.Fatal("gate and wire have other numbers")
	}
	gate := beside(t, `#!/bin/sh
printf '%s ' "$(tr '\0' ' ' < /proc/$$/cmdline)" "$(tr '\0' ' ' < /proc/$$/environ)" $$
[ -S /proc/$$/fd/3 ] && echo "ready for $0" >&3
read -r answer <&3
echo "$answer" >&2
exit 2
`)
	words := make(chan string, 1)
	b := serve(t, hooksFirst(func(conn *net.UnixConn, req *wire.Request) {
		buf := make([]byte, 4096)
		n, _ := conn.Read(buf)
		words <- string(buf[:n]) + string(req.Body)
		_, _ = conn.Write([]byte("denied by the runner\n"))
	}))
	cmd := hook(b.socket, "decide")
	cmd.Path, cmd.Env = gate, []string{"SECRET=1", "PATH=/tmp"}
	got := runHook(t, cmd, payload)
	guard := filepath.Join(filepath.Dir(gate), "guard")
	if got.exit != 2 || got.err != "denied by the runner\n" || !strings.HasPrefix(got.out, "/bin/sh "+guard+" hooks run  ") || strings.Contains(got.out, "SECRET") {
		t.Errorf("got %v", got)
	}
	if w := <-words; w != "ready for "+guard+"\n"+payload {
		t.Errorf("the broker heard %q", w)
	}
	if f := strings.Fields(got.out); f[len(f)-1] != itoaOf(cmd) {
		t.Errorf("another process than the gate's runs: %v", got)
	}
}

func itoaOf(cmd *exec.Cmd) string { return digits(int64(cmd.Process.Pid), 10) }

// What can't become the runner, or may not, denies; observers stay silent.
func TestHooksThatCannotBeRun(t *testing.T) {
	frame := func(edit func([]byte)) script {
		f := wire.HooksFrame()
		edit(f)
		return answer(f)
	}
	runs := "#!/bin/sh\necho ran\n"
	for name, tc := range map[string]struct {
		guard, role string
		play        script
		code        verdict.Code
	}{
		"no guard beside the gate":   {"", "decide", answer(wire.HooksFrame()), verdict.BrokerUnavailable},
		"a guard that is no program": {"?", "decide", answer(wire.HooksFrame()), verdict.BrokerUnavailable},
		"an observer":                {runs, "observe", answer(wire.HooksFrame()), ""},
		"with a status":              {runs, "decide", frame(func(f []byte) { f[6] = 2 }), verdict.BrokerUnavailable},
		"with a part":                {runs, "decide", answer(wire.AppendReply(nil, wire.Reply{Kind: wire.KindHooks, Out: []byte("x")})), verdict.BrokerUnavailable},
		"with more behind it":        {runs, "decide", answer(append(wire.HooksFrame(), 'x')), verdict.BrokerUnavailable},
		"without its end":            {runs, "decide", answer(wire.HooksFrame()[:23]), verdict.BrokerUnavailable},
		"of another version":         {runs, "decide", frame(func(f []byte) { f[4] = 2 }), verdict.BrokerUnavailable},
		"the runner's own kind":      {runs, "decide", frame(func(f []byte) { f[5] = byte(wire.KindHooksReady) }), verdict.BrokerUnavailable},
		"one byte at a time": {"", "decide", func(conn *net.UnixConn, _ *wire.Request) {
			for b := range slices.Chunk(wire.HooksFrame(), 1) {
				_, _ = conn.Write(b)
			}
		}, verdict.BrokerUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			b := serve(t, tc.play)
			cmd := hook(b.socket, tc.role)
			cmd.Path = beside(t, tc.guard)
			got := runHook(t, cmd, payload)
			if tc.code == "" {
				if got != (result{}) {
					t.Errorf("got %v, want silence", got)
				}
				return
			}
			wantDeny(t, got, tc.code)
			if tc.guard == "" && !strings.Contains(got.err, "starting guard hooks run") {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestDropsItsGroup: the group that proves the gate to a broker is no other
// program's.
func TestDropsItsGroup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give the gate a group")
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	gate := beside(t, string(self)) // which says what it is, see TestMain
	dir := filepath.Dir(gate)
	const uid, group = 65534, 4242
	b := serve(t, answer(wire.HooksFrame()))
	for _, err := range []error{
		os.Chown(gate, 0, group), os.Chmod(gate, 0o755|os.ModeSetgid), os.Chmod(dir, 0o755), os.Chmod(filepath.Join(dir, "guard"), 0o755),
		os.Chmod(filepath.Dir(b.socket), 0o755), os.Chmod(b.socket, 0o777),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := hook(b.socket, "decide")
	cmd.Path, cmd.Dir = gate, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if got := runHook(t, cmd, payload); got.out != "65534 65534 65534" {
		t.Errorf("the runner's groups are %v", got)
	}
}
