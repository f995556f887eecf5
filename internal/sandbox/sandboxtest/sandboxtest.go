// Package sandboxtest is what tests of the built programs begin with: the
// programs themselves, compiled once, and a World, which is a sandbox that fails
// its test on error and is gone after it.
package sandboxtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/sandbox"
)

// Failpoints is the build tag of a broker that dies where a test says.
const Failpoints = "failpoint"

// Main runs a package's tests with programs that it compiles for them, the broker
// with the given tags. use is told where they are, before the first test.
func Main(m *testing.M, brokerTags string, use func(client.Programs)) int {
	// Children die with the thread that started them, and so with this one.
	runtime.LockOSThread()
	dir, err := os.MkdirTemp("", "guard-programs-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = Build(dir, brokerTags)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	use(Programs(dir))
	return m.Run()
}

// Build compiles the programs into dir.
func Build(dir, brokerTags string) error {
	for _, args := range [][]string{
		{"build", "-o", dir + "/", "leaseguard.internal/cmd/guard", "leaseguard.internal/cmd/guard-gate"},
		{"build", "-tags", brokerTags, "-o", dir + "/", "leaseguard.internal/cmd/guard-broker"},
	} {
		cmd := exec.Command("go", args...) //nolint:gosec // the words above
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building the programs: %w\n%s", err, out)
		}
	}
	return nil
}

// Programs are those that Build put into dir.
func Programs(dir string) client.Programs {
	return client.Programs{Guard: filepath.Join(dir, "guard"), Broker: filepath.Join(dir, "guard-broker"), Gate: filepath.Join(dir, "guard-gate")}
}

// Play makes this program a scripted agent where the variable is set, and then
// never returns.
func Play(variable string) {
	if os.Getenv(variable) == "" {
		return
	}
	if err := sandbox.Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Nightly says whether this is the night's run, which may take longer.
func Nightly() bool { return os.Getenv("GUARD_SIZE") == "nightly" }

// Size is how often something is tried: a change's size, or the night's.
func Size(change, night int) int {
	if Nightly() {
		return night
	}
	return change
}

// World is a sandbox of one test.
type World struct {
	*sandbox.Sandbox
	T *testing.T
}

// New makes one, which ends with the test.
func New(t *testing.T, programs client.Programs, env []string) *World {
	t.Helper()
	box, err := sandbox.New(programs, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Errorf("closing the sandbox: %v", err)
		}
	})
	return &World{Sandbox: box, T: t}
}

// Must ends the test on an error.
func (w *World) Must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Ctx bounds one thing that a test does.
func (w *World) Ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	w.T.Cleanup(cancel)
	return ctx
}

// Run runs a command of guard that must succeed.
func (w *World) Run(args ...string) string {
	w.T.Helper()
	out, err := w.Guard(w.Ctx(), args...)
	w.Must(err)
	return string(out)
}

// KillBroker ends the broker at once, as nothing it could notice.
func (w *World) KillBroker() {
	w.T.Helper()
	w.Must(syscall.Kill(w.BrokerPID(), syscall.SIGKILL))
	if code := w.WaitBroker(); code != -1 {
		w.T.Fatalf("the broker ended with %d instead of being killed", code)
	}
}
