package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/paths"
)

// The test binary also plays guard and guard-broker, under their names. They
// end without the second that the race detector waits at an exit.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "guard":
		unix.Exit(playGuard())
	case "guard-broker":
		unix.Exit(playBroker())
	}
	os.Exit(m.Run())
}

// playGuard is the hidden command of guard, and otherwise a starter.
func playGuard() int {
	if slices.Equal(os.Args[1:], SpawnArgs) {
		if Spawn(os.Stdin) != nil {
			return 1
		}
		return 0
	}
	p, err := paths.Resolve(os.Getenv, uint32(os.Getuid()))
	if err == nil {
		err = EnsureBroker(context.Background(), p)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// world is what a started broker finds around itself.
type world struct {
	PID, Parent, Session int
	Dir                  string
	Env                  []string
	Open                 []string
}

// playBroker takes the lock, says what it found and listens until it is killed.
func playBroker() int {
	p, err := paths.Resolve(os.Getenv, uint32(os.Getuid()))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	if _, err := os.Stat(filepath.Join(p.StateDir, "refuse")); err == nil {
		fmt.Fprintln(os.Stderr, "guard-broker: told to\x1b[31m fail")
		return 3
	}
	w := look()
	if err := paths.EnsureDir(p.RunDir, uint32(os.Getuid())); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	lock, err := os.OpenFile(p.Lock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil || unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		fmt.Fprintln(os.Stderr, "guard-broker: another one runs")
		return 3
	}
	if _, err := os.Stat(filepath.Join(p.StateDir, "stopped")); err == nil {
		return 0 // the lock was free because the test is over
	}
	text, err := json.Marshal(w)
	if err == nil {
		err = os.WriteFile(filepath.Join(p.StateDir, "world-"+strconv.Itoa(w.PID)), text, 0o600)
	}
	_ = os.Remove(p.OperatorSocket)
	l, listenErr := net.Listen("unix", p.OperatorSocket)
	if err = errors.Join(err, listenErr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
	l.Close()
	runtime.KeepAlive(lock) // a finalizer would release it
	return 0
}

func look() world {
	w := world{PID: os.Getpid(), Parent: os.Getppid(), Env: os.Environ()}
	w.Session, _ = unix.Getsid(0)
	w.Dir, _ = os.Getwd()
	for fd := range 64 {
		link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		own := strings.HasPrefix(link, "anon_inode:") || strings.HasPrefix(link, "/sys/fs/cgroup/") // the Go runtime's
		if err == nil && !own {
			w.Open = append(w.Open, strconv.Itoa(fd))
		}
	}
	return w
}

// stage is a directory with guard's programs and an environment of its own.
type stage struct {
	guard string
	env   []string
	paths paths.Paths
}

func newStage(t *testing.T) stage {
	t.Helper()
	// Not t.TempDir: a broker that lost the race may still make a file while it ends.
	dir, err := os.MkdirTemp("", "guard-stage-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for try := 0; os.RemoveAll(dir) != nil && try < 100; try++ {
			time.Sleep(20 * time.Millisecond)
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"guard", "guard-broker"} {
		if err := os.Link(self, filepath.Join(bin, name)); err != nil {
			copyFile(t, self, filepath.Join(bin, name))
		}
	}
	env := map[string]string{"HOME": dir, "XDG_CONFIG_HOME": dir + "/config", "XDG_STATE_HOME": dir + "/state", "XDG_RUNTIME_DIR": dir}
	p, err := paths.Resolve(func(name string) string { return env[name] }, uint32(os.Getuid()))
	if err != nil {
		t.Fatal(err)
	}
	s := stage{guard: filepath.Join(bin, "guard"), paths: p, env: []string{"LANG=C", "GUARD_FAILPOINT=x", "SECRET=1"}}
	for name, value := range env {
		s.env = append(s.env, name+"="+value)
	}
	if err := paths.EnsureDir(p.StateDir, uint32(os.Getuid())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop(t) })
	return s
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ensure runs EnsureBroker in a process of its own.
func (s stage) ensure(extra ...string) (string, error) {
	cmd := exec.Command(s.guard, "ensure")
	cmd.Env = append(slices.Clone(s.env), extra...)
	out, err := cmd.Output()
	return string(out), err
}

// worlds are those of all brokers that got the lock.
func (s stage) worlds(t *testing.T) []world {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.paths.StateDir, "world-*"))
	if err != nil {
		t.Fatal(err)
	}
	var all []world
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var w world
		if err := json.Unmarshal(text, &w); err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	return all
}

// stop ends the broker of the stage and waits until it has. One that lost the
// race and is still on its way must not take its place.
func (s stage) stop(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.paths.StateDir, "stopped"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, w := range s.worlds(t) {
		_ = unix.Kill(w.PID, unix.SIGTERM)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := AwaitStop(ctx, s.paths); err != nil {
		t.Error(err)
	}
}

func TestEnsureBroker(t *testing.T) {
	s := newStage(t)
	for range 2 { // the second time it runs already
		if out, err := s.ensure(); err != nil {
			t.Fatalf("EnsureBroker: %v: %s", err, out)
		}
	}
	worlds := s.worlds(t)
	if len(worlds) != 1 {
		t.Fatalf("%d brokers were started", len(worlds))
	}
	w := worlds[0]
	if w.Dir != "/" {
		t.Errorf("working directory %q", w.Dir)
	}
	if own, _ := unix.Getsid(0); w.Session == own || w.Session == w.PID {
		t.Errorf("session %d of pid %d: want one of its own that it doesn't lead", w.Session, w.PID)
	}
	if !slices.Equal(w.Open, []string{"0", "1", "2"}) {
		t.Errorf("open file descriptors %v", w.Open)
	}
	names := make([]string, 0, len(w.Env))
	for _, v := range w.Env {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"}; !slices.Equal(names, want) {
		t.Errorf("environment %v, want %v", names, want)
	}
	// The process between us and the broker has ended by now.
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/cmdline", w.Parent)); err == nil && w.Parent != 1 {
		if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", w.Parent)); strings.Contains(string(stat), s.guard) {
			t.Errorf("the broker still has a parent of ours: %q", stat)
		}
	}
}

func TestK4_EnsureBrokerRace(t *testing.T) {
	s := newStage(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if out, err := s.ensure(); err != nil {
				t.Errorf("EnsureBroker: %v: %s", err, out)
			}
		})
	}
	wg.Wait()
	if worlds := s.worlds(t); len(worlds) != 1 {
		t.Errorf("%d brokers got the lock, want 1", len(worlds))
	}
}

func TestEnsureBrokerFails(t *testing.T) {
	s := newStage(t)
	if err := os.WriteFile(filepath.Join(s.paths.StateDir, "refuse"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := s.ensure()
	if err == nil || !strings.Contains(out, "told to [31m fail") {
		t.Errorf("EnsureBroker = %v, %q; want the broker's last words, cleaned", err, out)
	}
}

func TestEnsureBrokerRefused(t *testing.T) {
	s := newStage(t)
	if out, err := s.ensure("GUARD_SESSION=s1"); err == nil || !strings.Contains(out, "inside a session") {
		t.Errorf("inside a session: %v, %q", err, out)
	}
	if err := os.Remove(filepath.Join(filepath.Dir(s.guard), "guard-broker")); err != nil {
		t.Fatal(err)
	}
	if out, err := s.ensure(); err == nil || !strings.Contains(out, "guard-broker") {
		t.Errorf("without the program: %v, %q", err, out)
	}
	if len(s.worlds(t)) != 0 {
		t.Error("a broker was started")
	}
}

func TestEnsureBrokerConfig(t *testing.T) {
	s := newStage(t)
	if err := os.MkdirAll(filepath.Dir(s.paths.Config), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.paths.Config, []byte("lease = 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := s.ensure(); err == nil || !strings.Contains(out, "guard.toml") {
		t.Errorf("EnsureBroker = %v, %q; want the fault of guard.toml", err, out)
	}
}

func TestCloseOnExec(t *testing.T) {
	for name, mark := range map[string]func() error{"at once": CloseOnExec, "one by one": closeOnExecOneByOne} {
		t.Run(name, func(t *testing.T) {
			fd, err := unix.Dup(2) // without close-on-exec, as one that a shell left open
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unix.Close(fd) }()
			if err := mark(); err != nil {
				t.Fatal(err)
			}
			for fd, want := range map[int]int{2: 0, fd: unix.FD_CLOEXEC} {
				if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags != want {
					t.Errorf("descriptor %d has flags %d, %v; want %d", fd, flags, err, want)
				}
			}
		})
	}
}
