//go:build faults

package faults

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"leaseguard.internal/internal/wire"
)

// second runs another broker of the same user, which has to end by itself.
func (w *world) second(env ...string) string {
	w.T.Helper()
	cmd := exec.CommandContext(w.Ctx(), programs.Broker)
	cmd.Env = append(append([]string{}, w.Env...), env...)
	said, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		w.T.Fatalf("a second broker ended with %v: %s", err, said)
	}
	return string(said)
}

// TestK4_SecondBroker: the first broker is stopped, so that it answers nobody.
// That makes it no dead one: a second is refused, on the same sockets and on
// others with the same state, and names the first. Once that goes on, what was
// revoked stays revoked.
func TestK4_SecondBroker(t *testing.T) {
	w := prepare(t)
	w.start()
	pid := w.BrokerPID()
	w.Must(syscall.Kill(pid, syscall.SIGSTOP))
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	if said := w.second(); !strings.Contains(said, fmt.Sprintf("another broker is running with pid %d", pid)) {
		t.Errorf("on the same sockets: %s", said)
	}
	elsewhere := filepath.Join(w.Dir, "elsewhere")
	w.Must(exec.Command("mkdir", "-m", "0700", elsewhere).Run())
	if said := w.second("XDG_RUNTIME_DIR=" + elsewhere); !strings.Contains(said, fmt.Sprintf("process %d (\"guard-broker\")", pid)) || !strings.Contains(said, w.Paths.DB) {
		t.Errorf("on other sockets: %s", said)
	}

	// A revocation that waits in the stopped broker's queue is answered by it.
	revoked := make(chan error, 1)
	go func() {
		_, err := w.operate(wire.Control{Verb: wire.VerbRevoke, All: true})
		revoked <- err
	}()
	select {
	case err := <-revoked:
		t.Fatalf("somebody answered: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	w.Must(syscall.Kill(pid, syscall.SIGCONT))
	w.Must(<-revoked)
	w.expect("Write", "deny", "lease_revoked")
	if st := w.status(); st.Broker.PID != pid {
		t.Errorf("broker %d answers, want %d", st.Broker.PID, pid)
	}
}

// TestStoppedBroker: the gate doesn't wait for a broker that is stopped longer
// than its own deadline, and the call is judged anew when the broker goes on.
func TestStoppedBroker(t *testing.T) {
	w := prepare(t)
	w.start()
	w.Must(syscall.Kill(w.BrokerPID(), syscall.SIGSTOP))
	order := w.agent.Gate("decide", []byte(`{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Write","tool_input":{}}`))
	order.Argv = append(order.Argv, "--deadline", "1")
	answers, err := w.agent.Do(w.Ctx(), order)
	w.Must(syscall.Kill(w.BrokerPID(), syscall.SIGCONT))
	w.Must(err)
	if verdict, reason := answers[0].Read(); verdict != "deny" || !strings.HasPrefix(reason, "guard: deadline: ") {
		t.Errorf("got %s %q", verdict, reason)
	}
	w.expect("Write", "pass", "")
}
