package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

// Under the name "launch" the test binary launches its arguments, under "guard"
// it launches claude with them, and under "claude" it is that client, and the node
// of Pi under "pi"; under any name with "report" first, it plays a runtime that
// says what it found.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "launch" {
		unix.Exit(launch(os.Args[1:])) // without the race detector's second at an exit
	}
	switch filepath.Base(os.Args[0]) {
	case "guard":
		unix.Exit(launchClaude(os.Args[1:]))
	case "claude":
		unix.Exit(playClient())
	case "pi":
		unix.Exit(playPi())
	}
	if len(os.Args) > 1 && os.Args[1] == "report" {
		unix.Exit(report())
	}
	os.Exit(m.Run())
}

func launch(argv []string) int {
	p, err := paths.Resolve(os.Getenv, uint32(os.Getuid()))
	if err == nil {
		err = Exec(context.Background(), Launch{
			Paths: p, Argv: argv, Env: os.Environ(), Resume: os.Getenv("TEST_RESUME"),
			Warn: func(w string) { fmt.Fprintln(os.Stderr, "warning:", w) },
		})
	}
	var refused *wire.Error
	if errors.As(err, &refused) {
		fmt.Fprint(os.Stderr, refused.Code+": ")
	}
	fmt.Fprintln(os.Stderr, err)
	return 3
}

// runtimeView is what a launched runtime finds around itself.
type runtimeView struct {
	PID       int
	Args      [][]byte
	Env       []string
	Dir       string
	Open      []int
	Subreaper int
}

func report() int {
	v := runtimeView{PID: os.Getpid(), Env: os.Environ()}
	for _, a := range os.Args {
		v.Args = append(v.Args, []byte(a))
	}
	v.Dir, _ = os.Getwd()
	for fd := range 64 {
		link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		own := strings.HasPrefix(link, "anon_inode:") || strings.HasPrefix(link, "/sys/fs/cgroup/") // the Go runtime's
		if err == nil && !own {
			v.Open = append(v.Open, fd)
		}
	}
	var flag int32
	if err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&flag)), 0, 0, 0); err != nil {
		return 1
	}
	v.Subreaper = int(flag)
	text, err := json.Marshal(v)
	if err != nil {
		return 1
	}
	_, _ = os.Stdout.Write(text)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test has looked at us
	return 42
}

// fixture is a user's directory with programs and a scripted broker.
type fixture struct {
	dir     string
	launch  string // the launcher
	runtime string // what it launches
	env     []string
	paths   paths.Paths
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HOME": dir, "XDG_RUNTIME_DIR": dir, "PATH": filepath.Join(dir, "bin")}
	p, err := paths.Resolve(func(name string) string { return env[name] }, uint32(os.Getuid()))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{dir: dir, launch: filepath.Join(dir, "bin", "launch"), runtime: filepath.Join(dir, "bin", "my-agent"), paths: p}
	for _, d := range []string{filepath.Dir(f.launch), p.RunDir} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{f.launch, f.runtime} {
		if err := os.Symlink(self, path); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range env {
		f.env = append(f.env, name+"="+value)
	}
	return f
}

// broker listens on both sockets and answers each registration with res. It
// returns what was registered and, later, how the connection ended.
func (f fixture) broker(t *testing.T, res wire.Result) (<-chan wire.Register, <-chan error) {
	t.Helper()
	registered, ended := make(chan wire.Register, 1), make(chan error, 1)
	operators, err := net.Listen("unix", f.paths.OperatorSocket)
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := net.Listen("unix", f.paths.BrokerSocket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { operators.Close(); sessions.Close() })
	go func() {
		conn, err := sessions.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		reg, err := readRegister(conn)
		if err != nil {
			t.Error(err)
			return
		}
		registered <- reg
		text, err := json.Marshal(res)
		if err != nil {
			t.Error(err)
		}
		_, _ = conn.Write(wire.AppendReply(nil, wire.Reply{Kind: wire.KindResult, Out: text}))
		_, err = conn.Read(make([]byte, 1))
		ended <- err
	}()
	return registered, ended
}

func readRegister(conn net.Conn) (wire.Register, error) {
	h, err := wire.ReadHeader(conn, wire.Limits{Control: wire.MaxControl})
	if err != nil {
		return wire.Register{}, err
	}
	req, err := wire.ReadBody(conn, h)
	if err != nil {
		return wire.Register{}, err
	}
	var ctl wire.Control
	if err := json.Unmarshal(req.Control, &ctl, json.RejectUnknownMembers(true)); err != nil {
		return wire.Register{}, err
	}
	if ctl.Verb != wire.VerbRegister || ctl.Register == nil {
		return wire.Register{}, fmt.Errorf("got %+v, want a registration", ctl)
	}
	return *ctl.Register, nil
}

var session = wire.Result{Session: &wire.Session{ID: "s1", Generation: 7}, Warnings: []string{"nothing is enforced"}}

func TestExec(t *testing.T) {
	f := newFixture(t)
	registered, ended := f.broker(t, session)
	argv := []string{"my-agent", "report", "--", "", "a b", "\xff\xfe", "--resume=x", "ü"}
	cmd := exec.Command(f.launch, argv...)
	cmd.Env = append(slices.Clone(f.env), "GUARD_SESSION_OLD=1", "GUARD_X=1", "LISTEN_FDS=1", "LISTEN_PID=1", "NOTIFY_SOCKET=/x",
		"NOTIFY_SOCKET_2=kept", "SECRET=mine", "ODD", "TEST_RESUME=s0")
	cmd.Dir = f.dir
	leak, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	cmd.ExtraFiles = []*os.File{leak, leak} // as a careless parent leaves them open
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdin, stdout := testproc.Piped(t, cmd)
	reg := <-registered
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("the registration ended with %v, want its end", err)
	}
	stdin.Close()
	text, err := io.ReadAll(stdout)
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 42 {
		t.Errorf("the launched process ended with %v, want the runtime's own 42; stderr: %s", err, &stderr)
	}
	if want := (wire.Register{Runtime: "exec", Resume: "s0", Dir: f.dir, Command: f.runtime, Hooks: wire.ProjectHooks{State: wire.ProjectAbsent}}); reg != want {
		t.Errorf("registered %+v, want %+v", reg, want)
	}
	if !strings.Contains(stderr.String(), "warning: nothing is enforced") {
		t.Errorf("stderr %q lacks the broker's warning", &stderr)
	}
	checkView(t, f, text, cmd.Process.Pid, argv)
}

// readView reads what a runtime found around itself, and looks at what all of them
// have to find; env must be in its environment.
func readView(t *testing.T, f fixture, text []byte, env ...string) (v runtimeView, args []string) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("the runtime said %q: %v", text, err)
	}
	if v.Dir != f.dir || v.Subreaper != 1 || !slices.Equal(v.Open, []int{0, 1, 2}) {
		t.Errorf("in %q, subreaper %d, open %v; want %q, subreaper 1, open 0 to 2", v.Dir, v.Subreaper, v.Open, f.dir)
	}
	for _, want := range append(env, "GUARD_SESSION=s1", "GUARD_GENERATION=7") {
		if !slices.Contains(v.Env, want) {
			t.Errorf("the runtime lacks %q", want)
		}
	}
	for _, a := range v.Args {
		args = append(args, string(a))
	}
	return v, args
}

func checkView(t *testing.T, f fixture, text []byte, pid int, argv []string) {
	t.Helper()
	v, args := readView(t, f, text, "SECRET=mine", "NOTIFY_SOCKET_2=kept", "ODD")
	if v.PID != pid {
		t.Errorf("pid %d, want %d", v.PID, pid)
	}
	if !slices.Equal(args, argv) {
		t.Errorf("arguments %q, want %q", args, argv)
	}
	for _, v := range v.Env {
		name, _, _ := strings.Cut(v, "=")
		removed := strings.HasPrefix(name, "LISTEN_") || name == "NOTIFY_SOCKET" || strings.HasPrefix(name, "GUARD_")
		if removed && v != "GUARD_SESSION=s1" && v != "GUARD_GENERATION=7" {
			t.Errorf("the runtime has %q", v)
		}
	}
}

// run launches argv and returns what was said when it failed.
func (f fixture) run(argv ...string) string {
	cmd := exec.Command(f.launch, argv...)
	cmd.Env, cmd.Dir = f.env, f.dir
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return fmt.Sprintf("ended with %v: %s", err, out)
	}
	return strconv.Itoa(exit.ExitCode()) + " " + string(out)
}

func TestL1_ExecRefusesRuntimes(t *testing.T) {
	f := newFixture(t)
	bin := filepath.Join(f.dir, "bin")
	for name, text := range map[string]string{"claude": "#!/bin/sh\n", "shim": "#!/bin/sh\nexec codex \"$@\"\n"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("claude", filepath.Join(bin, "linked")); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"claude": "guard launch claude", "./bin/claude": "guard launch claude", "linked": "guard launch claude", "shim": "guard launch codex",
	} {
		t.Run(command, func(t *testing.T) {
			if got := f.run(command, "report"); !strings.HasPrefix(got, "3 flag_refused: ") || !strings.Contains(got, want) {
				t.Errorf("launching %q: %s", command, got)
			}
		})
	}
}

func TestExecRefused(t *testing.T) {
	f := newFixture(t)
	f.broker(t, wire.Result{Error: &wire.Error{Code: "nested_launch", Message: "guard: nested_launch: no"}})
	if got := f.run("my-agent", "report"); !strings.HasPrefix(got, "3 nested_launch: ") {
		t.Errorf("launch: %s", got)
	}
}

func TestExecFails(t *testing.T) {
	f := newFixture(t)
	for name, text := range map[string]string{"bin/text": "no program", "bin/not-executable": ""} {
		mode := os.FileMode(0o700)
		if text == "" {
			mode = 0o600
		}
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, argv := range []string{"nowhere", "./nowhere", "not-executable", "bin", ""} {
		if got := f.run(argv); !strings.HasPrefix(got, "3 finding the command") {
			t.Errorf("launching %q: %s", argv, got)
		}
	}
	_, ended := f.broker(t, session)
	if got := f.run("text"); !strings.HasPrefix(got, "3 ") || !strings.Contains(got, "executing") {
		t.Errorf("launching a text file: %s", got)
	}
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("the registration ended with %v", err)
	}
}

func TestExecFromGoneDirectory(t *testing.T) {
	f := newFixture(t)
	gone := filepath.Join(f.dir, "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `cd gone && rmdir ../gone && exec "$0" my-agent report`, f.launch)
	cmd.Env, cmd.Dir = f.env, f.dir
	cmd.Env = append(slices.Clone(f.env), "PATH=/usr/bin:/bin:"+filepath.Join(f.dir, "bin"))
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "working directory") {
		t.Errorf("launch from a directory that is gone: %v, %s", err, out)
	}
}
