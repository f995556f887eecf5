//go:build system

package system

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/wire"
)

// people makes a user who works with an agent, and an operator.
func people(t testing.TB) {
	t.Helper()
	for _, name := range []string{"ada", "olga"} {
		run(t, "useradd", "--create-home", "--shell", "/bin/sh", name)
	}
	run(t, "usermod", "-aG", "guard-operators", "olga")
}

// as is a command of somebody's.
func as(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("setpriv", append([]string{"--reuid=" + name, "--regid=" + name, "--init-groups"}, args...)...)
	cmd.Env = []string{"PATH=" + programs + ":/usr/bin:/bin", "HOME=/home/" + name, "NO_COLOR=1"}
	cmd.Dir = "/home/" + name
	return cmd
}

// agentLoop answers each line with its exit status.
const agentLoop = `echo up; while IFS= read -r line; do (eval "$line") </dev/null 2>>errors; echo $?; done`

// agent is a session whose runtime is a shell that runs lines.
type agent struct {
	id  string
	dir string
	in  io.WriteCloser
	out *bufio.Reader
}

func launch(t testing.TB, user string) *agent {
	t.Helper()
	cmd := as(user, "guard", "launch", "exec", "--", "/bin/sh", "-c", agentLoop)
	stderr := new(bytes.Buffer)
	cmd.Stderr = stderr
	in, out := testproc.Piped(t, cmd)
	a := &agent{dir: cmd.Dir, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	if line, err := a.out.ReadString('\n'); line != "up\n" {
		_ = cmd.Wait()
		t.Fatalf("the session didn't start: %q, %v: %s", line, err, stderr)
	}
	for _, s := range status(t).Sessions {
		if s.AnchorPID == cmd.Process.Pid {
			a.id = s.ID
		}
	}
	if a.id == "" {
		t.Fatalf("the broker doesn't know the session: %s", stderr)
	}
	return a
}

// do runs a line inside the session and returns its exit status and what it
// wrote to stderr.
func (a *agent) do(t testing.TB, line string) (status, said string) {
	t.Helper()
	if err := os.Truncate(a.dir+"/errors", 0); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(a.in, line); err != nil {
		t.Fatal(err)
	}
	answer, err := a.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(a.dir + "/errors")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(answer), string(text)
}

// call asks the gate for a tool, and wants a verdict: "pass", or a code that denies.
func (a *agent) call(t testing.TB, tool, input, want string) {
	t.Helper()
	uid := strings.TrimSpace(run(t, "id", "-u", "guard"))
	payload := fmt.Sprintf(`{"hook_event_name":"PreToolUse","session_id":"s","tool_name":%q,"tool_input":%s}`, tool, input)
	code, said := a.do(t, fmt.Sprintf(`printf %%s '%s' | guard-gate claude --socket /run/guard/broker.sock --broker-uid %s --role decide >answer`, payload, uid))
	got := "pass"
	if code != "0" {
		got = said
	}
	if got != want && (code != "2" || !strings.Contains(said, "guard: "+want+": ")) {
		t.Fatalf("%s: exit status %s, %s; want %s", tool, code, said, want)
	}
}

func status(t testing.TB) wire.Status {
	t.Helper()
	var st wire.Status
	out, err := exec.Command(programs+"/guard", "status", "--json").CombinedOutput()
	if err != nil {
		t.Fatalf("guard status: %v: %s", err, out)
	}
	if err := json.Unmarshal(out, &st); err != nil {
		t.Fatal(err)
	}
	return st
}

func operator(t testing.TB, args ...string) string {
	t.Helper()
	out, err := as("olga", append([]string{"guard"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("guard %q: %v: %s", args, err, out)
	}
	return string(out)
}
