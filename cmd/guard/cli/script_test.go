package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"leaseguard.internal/broker"
	"leaseguard.internal/gate"
	"leaseguard.internal/internal/wire"
	"leaseguard.internal/internal/zvmsim"
)

// The test binary plays all of guard's programs, each under its own name. They
// end without the second that the race detector waits at an exit.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "claude" { // a copy of guard's, in a script that needs a client
		fmt.Println("2.1.332 (Claude Code)")
		unix.Exit(0)
	}
	testscript.Main(m, map[string]func(){
		"guard": func() {
			unix.Exit(Command{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ()}.Main(os.Args[1:]))
		},
		"guard-broker": func() { unix.Exit(broker.Main(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) },
		"guard-gate":   gate.Main,
	})
}

// TestScripts runs testdata/script: real broker, real gate, real sockets. The
// scripts have commands of their own: see cmdSession and its neighbours.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup:               setupScript,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"session": cmdSession, "inside": cmdInside, "end": cmdEnd, "exit": cmdExit, "sim": cmdSim,
		},
	})
}

func setupScript(env *testscript.Env) error {
	if err := os.Chmod(env.WorkDir, 0o700); err != nil {
		return err
	}
	run := filepath.Join(env.WorkDir, "r")
	for name, value := range map[string]string{
		"HOME": env.WorkDir, "XDG_RUNTIME_DIR": run, "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "", "GUARD_SESSION": "",
		"NO_COLOR": "1", "SOCKET": filepath.Join(run, "guard", "broker.sock"), "STATE": filepath.Join(env.WorkDir, ".local", "state", "guard"),
		"GATE": fmt.Sprintf("guard-gate claude --socket %s --broker-uid %d --role decide", filepath.Join(run, "guard", "broker.sock"), os.Getuid()),
	} {
		env.Setenv(name, value)
	}
	if err := readmeAgent(filepath.Join(env.WorkDir, "my-agent")); err != nil {
		return err
	}
	env.Values[sessionsKey{}] = map[string]*scriptSession{}
	env.Defer(func() {
		for _, s := range env.Values[sessionsKey{}].(map[string]*scriptSession) {
			s.end()
		}
		stop := exec.Command("guard", "broker", "stop")
		stop.Env = env.Vars
		_ = stop.Run() // a script that broke the configuration has started none
	})
	return os.Mkdir(run, 0o700)
}

// readmeAgent writes the agent that README.md shows, so that it is run as it
// stands there.
func readmeAgent(path string) error {
	readme, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	if err != nil {
		return err
	}
	_, text, found := strings.Cut(string(readme), "```sh\n")
	text, _, closed := strings.Cut(text, "```\n")
	if !found || !closed {
		return errors.New("README.md has no block of sh")
	}
	return os.WriteFile(path, []byte(text), 0o700)
}

type sessionsKey struct{}

// scriptSession is a session whose runtime is a shell that runs lines.
type scriptSession struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (s *scriptSession) end() {
	s.in.Close()
	_ = s.cmd.Wait()
}

func sessions(ts *testscript.TestScript) map[string]*scriptSession {
	return ts.Value(sessionsKey{}).(map[string]*scriptSession)
}

// agent answers each line with its exit status, and says when it is up.
const agent = `echo up; while IFS= read -r line; do (eval "$line") </dev/null; echo $?; done`

// session NAME [FLAGS…] launches one, by the shell $SH, and puts its id into the
// variable NAME.
func cmdSession(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: session NAME [flags of guard launch exec]")
	}
	argv := append(append([]string{"launch", "exec"}, args[1:]...), "--", cmp.Or(ts.Getenv("SH"), "/bin/sh"), "-c", agent)
	cmd := exec.Command("guard", argv...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = scriptEnv(ts)
	stderr, err := os.Create(filepath.Join(cmd.Dir, args[0]+".stderr"))
	ts.Check(err)
	defer stderr.Close()
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	s := &scriptSession{cmd: cmd, in: in, out: bufio.NewReader(out)}
	sessions(ts)[args[0]] = s
	if line, err := s.out.ReadString('\n'); line != "up\n" {
		ts.Fatalf("the session didn't start: %q, %v: %s", line, err, ts.ReadFile(stderr.Name()))
	}
	id := idOf(ts, cmd.Process.Pid)
	if id == "" {
		ts.Fatalf("the broker doesn't know the session")
	}
	ts.Setenv(args[0], id)
}

// scriptEnv is the script's environment; the variables that it was given last
// count.
func scriptEnv(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "XDG_RUNTIME_DIR", "SOCKET", "STATE", "GATE", "WORK", "TMPDIR"} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	return env
}

// idOf asks the broker which session has this anchor; without one it is empty.
func idOf(ts *testscript.TestScript, pid int) string {
	cmd := exec.Command("guard", "status", "--json")
	cmd.Env = scriptEnv(ts)
	text, err := cmd.Output()
	ts.Check(err)
	var st wire.Status
	ts.Check(json.Unmarshal(text, &st, json.RejectUnknownMembers(true)))
	for _, s := range st.Sessions {
		if s.AnchorPID == pid {
			return s.ID
		}
	}
	return ""
}

// inside NAME CODE COMMAND… runs a shell line as a child of the session's
// runtime and wants its exit code.
func cmdInside(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: inside NAME CODE COMMAND…")
	}
	s := sessions(ts)[args[0]]
	if s == nil {
		ts.Fatalf("no session %q", args[0])
	}
	_, err := fmt.Fprintln(s.in, strings.Join(args[2:], " "))
	ts.Check(err)
	// Long enough for a loaded machine: it only ends a test that hangs.
	hang := time.AfterFunc(time.Minute, func() { _ = s.cmd.Process.Kill() })
	defer hang.Stop()
	line, err := s.out.ReadString('\n')
	ts.Check(err)
	if got := strings.TrimSpace(line); got != args[1] {
		ts.Fatalf("exit code %s, want %s", got, args[1])
	}
}

// end NAME ends a session's runtime and waits until the broker has seen it.
func cmdEnd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || sessions(ts)[args[0]] == nil {
		ts.Fatalf("usage: end NAME")
	}
	s := sessions(ts)[args[0]]
	s.end()
	delete(sessions(ts), args[0])
	for idOf(ts, s.cmd.Process.Pid) != "" {
		runtime.Gosched()
	}
}

// sim [FLAGS…] serves a simulated ZVM in sim/ and puts its address into URL.
func cmdSim(ts *testscript.TestScript, neg bool, args []string) {
	cmd := exec.Command("guard", append([]string{"zvm-sim", "--dir", "sim", "--speed", "fast"}, args...)...)
	cmd.Dir, cmd.Env = ts.Getenv("WORK"), scriptEnv(ts)
	in, err := cmd.StdinPipe()
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	s := &scriptSession{cmd: cmd, in: in, out: bufio.NewReader(out)}
	ts.Defer(s.end)
	line, err := s.out.ReadString('\n')
	ts.Check(err)
	var info zvmsim.Info
	ts.Check(json.Unmarshal([]byte(line), &info, json.RejectUnknownMembers(true)))
	ts.Setenv("URL", info.URL)
}

// exit CODE COMMAND… runs a program and wants exactly this exit code.
func cmdExit(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if neg || err != nil || len(args) < 2 {
		ts.Fatalf("usage: exit CODE COMMAND…")
	}
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	got := 0
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
