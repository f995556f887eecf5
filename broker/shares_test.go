package broker

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/subuid"
	"leaseguard.internal/internal/testproc"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

const actVar = "BROKER_TEST_ACT"

// TestActorProcess is no test: it is a process of some user that does what it is
// told, line by line, and tells what came of it.
func TestActorProcess(t *testing.T) {
	socket := os.Getenv(actVar)
	if socket == "" {
		return
	}
	var held []net.Conn // until the end
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		said := ""
		switch in.Text() {
		case "register":
			said = actControl(t, socket, wire.Control{Verb: wire.VerbRegister, Register: &wire.Register{Runtime: "exec", Dir: "/", Command: "test", Hooks: wire.ProjectHooks{State: wire.ProjectAbsent}}})
		case "flood":
			held = append(held, actFlood(t, socket)...)
		case "ask":
			said = actAsk(t, socket)
		}
		_, _ = fmt.Println(said)
	}
	_ = held
	unix.Exit(0)
}

func actSend(t *testing.T, socket string, frame []byte) net.Conn {
	conn, err := net.Dial("unix", socket)
	if err == nil {
		_, err = conn.Write(frame)
	}
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func actReply(t *testing.T, socket string, req wire.Request) wire.Reply {
	conn := actSend(t, socket, wire.AppendRequest(nil, req))
	defer conn.Close()
	reply, err := wire.ReadReply(conn, wire.MaxContext)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func actControl(t *testing.T, socket string, ctl wire.Control) string {
	text, err := json.Marshal(ctl)
	if err != nil {
		t.Fatal(err)
	}
	var res wire.Result
	if err := json.Unmarshal(actReply(t, socket, wire.Request{Kind: wire.KindControl, Control: text}).Out, &res); err != nil {
		t.Fatal(err)
	}
	return string(codeOf(res))
}

func actAsk(t *testing.T, socket string) string {
	r := actReply(t, socket, wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide,
		Body: []byte(`{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Read","tool_input":{}}`)})
	return strings.TrimSpace(strings.ReplaceAll(string(r.Err), "\n", " "))
}

// actFlood sends 17 of the largest payloads, all but their last bytes.
func actFlood(t *testing.T, socket string) []net.Conn {
	frame := wire.AppendRequest(nil, wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide, Body: make([]byte, wire.MaxPayload)})
	conns := make([]net.Conn, 17)
	var all sync.WaitGroup
	for i := range conns {
		all.Go(func() { conns[i] = actSend(t, socket, frame[:len(frame)-8]) })
	}
	all.Wait()
	return conns
}

// actor is such a process.
type actor struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Scanner
	cmd *exec.Cmd
}

func act(f *fixture, uid uint32) *actor {
	f.t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestActorProcess$")
	cmd.Dir, cmd.Env, cmd.Stderr = "/", []string{actVar + "=" + f.opt.Paths.BrokerSocket}, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	in, out := testproc.Piped(f.t, cmd)
	a := &actor{f.t, in, bufio.NewScanner(out), cmd}
	f.t.Cleanup(a.end)
	return a
}

func (a *actor) end() {
	if a.cmd.ProcessState == nil {
		_ = a.in.Close()
		_ = a.cmd.Wait()
	}
}

// does has it act, and returns what it says.
func (a *actor) does(what string) string {
	a.t.Helper()
	if _, err := fmt.Fprintln(a.in, what); err != nil || !a.out.Scan() {
		a.t.Fatalf("%s: it has ended: %v", what, err)
	}
	return a.out.Text()
}

// TestPayloadsOfOthersCostNoAnswer: whatever payloads other users hold in flight,
// from outside of sessions or inside of one, a session's calls are judged, and a
// launcher is heard.
func TestPayloadsOfOthersCostNoAnswer(t *testing.T) {
	for name, inside := range map[string]bool{"outside of sessions": false, "inside a session": true} {
		t.Run(name, func(t *testing.T) {
			f := systemMode(t, nil)
			victim := act(f, bob)
			if said := victim.does("register"); said != "" {
				t.Fatal(said)
			}
			f.eventually("the session is launched", func() bool { all := f.sessions.All(); return len(all) == 1 && all[0].Launched() })
			before := victim.does("ask")
			for _, uid := range []uint32{ann, ann + 100} {
				flooder := act(f, uid)
				if inside {
					flooder.does("register")
				}
				flooder.does("flood")
			}
			after := victim.does("ask")
			if after != before || strings.Contains(after, string(verdict.BrokerBusy)) {
				t.Errorf("the session's call: %q, before the flood: %q", after, before)
			}
			if held := f.bytes.outside.taken() + f.bytes.small.taken() + f.bytes.large.taken(); held > maxBytes-wire.MaxPayload {
				t.Errorf("the floods hold %d bytes", held)
			}
			if !inside && f.bytes.large.taken()+f.bytes.outside.taken() != 0 {
				t.Error("large payloads from outside of sessions hold memory")
			}
			if said := act(f, bob+100).does("register"); said != "" {
				t.Errorf("a launcher is refused: %s", said)
			}
		})
	}
}

// owned is a table by which the uids from 61800 on are ann's, and 61900 is nobody's.
func owned(t *testing.T) *subuid.Table {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"passwd": fmt.Sprintf("ann:x:%d:1::/:/bin/sh\n", ann), "subuid": "ann:61800:100\ngone:61900:1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return subuid.New(filepath.Join(dir, "subuid"), filepath.Join(dir, "passwd"), 0)
}

// noSubuids is a table without any.
func noSubuids(t *testing.T) *subuid.Table {
	t.Helper()
	x := subuid.New("/nonexistent/subuid", "/etc/passwd", 0)
	if err := x.Refresh(); err != nil {
		t.Fatal(err)
	}
	return x
}

// TestSubordinateUidsAreTheirOwner: by however many subordinate uids, a user has
// the sessions and the places of one, and is no operator for the sessions of any
// of them.
func TestSubordinateUidsAreTheirOwner(t *testing.T) {
	f := systemMode(t, func(c *config.Config) { c.Limits.SessionsPerUID = 2 }, func(o *Options) { o.Owners = owned(t) })
	if said := act(f, 61900).does("register"); said != string(verdict.BadRequest) {
		t.Errorf("a uid of unknown owner registers: %q", said)
	}
	for i, want := range []string{"", "", string(verdict.LimitReached)} {
		if said := act(f, 61800+uint32(i)).does("register"); said != want {
			t.Errorf("session %d of ann's subordinate uids: %q, want %q", i+1, said, want)
		}
	}
	for uid, want := range map[uint32]bool{ann: false, 61850: false, 61900: false, bob: true, 0: true} {
		if why := f.outsider(uid, []uint32{theGroup}); (why == "") != want {
			t.Errorf("uid %d as an operator: %q", uid, why)
		}
	}
	for uid := range uint32(2) {
		if f.people.take(tree{user: f.owners.Owner(61810 + uid)}, 1, maxOperators) != fits {
			t.Fatal("no place")
		}
	}
	if n := f.people.trees[tree{user: ann}]; n != 2 {
		t.Errorf("ann's uids have %d places as hers, want 2", n)
	}
}
