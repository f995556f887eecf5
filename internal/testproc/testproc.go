// Package testproc gives tests real processes to look at: alive, zombie,
// reaped, orphaned, exec'd, renamed, and with a socket that they inherited.
//
// The processes are the test program itself, started once more: a package's
// TestMain has to be
//
//	func TestMain(m *testing.M) { testproc.Enter(); os.Exit(m.Run()) }
//
// Each of them connects back to its Zoo, and does one thing at a time on the
// test's word, so that no test has to wait for a moment. They end with the
// connection, thus with the test, whatever happens to it.
//
// All methods fail the test on error. Nothing here is part of a program.
package testproc

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/clock"
)

// env tells a process that it belongs to a zoo: socket, name, and whether it
// inherited a connection as descriptor 3.
const env = "LEASEGUARD_TESTPROC"

// patience is how long a process may take for one thing.
const patience = 20 * time.Second

// order is what a process is told, and answer what it replies.
type order struct {
	Do   string
	Text string
	Data []byte
	Flag bool
	N    int
}

type answer struct {
	PID   int
	Error string
	Data  []byte
}

// Enter does nothing in the test itself, and never returns in a process of a zoo.
func Enter() {
	if spec, ok := os.LookupEnv(env); ok {
		go child(spec)
		endLeader()
	}
}

func init() {
	if _, ok := os.LookupEnv(env); ok {
		onFirstThread()
	}
}

// Zoo is the processes of one test.
type Zoo struct {
	t     testing.TB
	ctl   *net.UnixListener
	count int
	procs []*Proc
}

// Proc is one process of a zoo.
type Proc struct {
	PID int

	zoo    *Zoo
	name   string
	conn   *net.UnixConn
	cmd    *exec.Cmd // of a direct child of the test, else nil
	reaped bool
}

// New makes an empty zoo, whose processes end with the test.
func New(t testing.TB) *Zoo {
	t.Helper()
	dir, err := os.MkdirTemp("", "zoo") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	ctl, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(dir, "ctl")})
	if err != nil {
		t.Fatal(err)
	}
	z := &Zoo{t: t, ctl: ctl}
	t.Cleanup(func() {
		for _, p := range z.procs {
			_ = p.conn.Close()
		}
		for _, p := range z.procs {
			if p.cmd != nil && !p.reaped {
				_ = p.cmd.Process.Kill()
				_ = p.cmd.Wait()
			}
		}
		_ = ctl.Close()
		_ = os.RemoveAll(dir)
	})
	return z
}

// Dir returns a directory with a short name, for sockets.
func (z *Zoo) Dir() string { return filepath.Dir(z.ctl.Addr().String()) }

// Start starts a child of the test.
func (z *Zoo) Start() *Proc { z.t.Helper(); return z.start(asChild) }

// StartInPIDNamespace starts a child of the test that is process 1 of its own pid
// namespace.
func (z *Zoo) StartInPIDNamespace() *Proc { z.t.Helper(); return z.start(inPIDNamespace) }

func (z *Zoo) start(kind byte) *Proc {
	z.t.Helper()
	name := z.nextName()
	cmd := command(z.spec(name), nil, how([]byte{kind}))
	if err := cmd.Start(); err != nil {
		z.t.Fatalf("starting a process: %v", err)
	}
	p := z.greet(&Proc{zoo: z, name: name, cmd: cmd})
	if p.PID != cmd.Process.Pid {
		z.t.Fatalf("process %d answers as %d", cmd.Process.Pid, p.PID)
	}
	return p
}

// Spawn starts a child of p, which inherits p's connection if inherit is set,
// and gets a session of its own with detached.
func (p *Proc) Spawn(inherit, detached bool) *Proc {
	p.zoo.t.Helper()
	kind := byte(asChild)
	if detached {
		kind = inSession
	}
	return p.spawn(inherit, kind)
}

func (p *Proc) spawn(inherit bool, kind byte) *Proc {
	p.zoo.t.Helper()
	name := p.zoo.nextName()
	p.do(order{Do: "spawn", Text: p.zoo.spec(name), Flag: inherit, Data: []byte{kind}})
	return p.zoo.greet(&Proc{zoo: p.zoo, name: name})
}

// Connect makes p connect to the socket at path.
func (p *Proc) Connect(path string) { p.zoo.t.Helper(); p.do(order{Do: "connect", Text: path}) }

// Write makes p write on its connection, own or inherited.
func (p *Proc) Write(text string) {
	p.zoo.t.Helper()
	p.do(order{Do: "write", Data: []byte(text)})
}

// WriteWithFile makes p write and pass an open file along. Newer kernels refuse
// that on the sender's side: then it returns what p was told.
func (p *Proc) WriteWithFile(text string) error {
	p.zoo.t.Helper()
	return p.WriteWithFiles(text, 1)
}

// Hangup makes p close its connection.
func (p *Proc) Hangup() { p.zoo.t.Helper(); p.do(order{Do: "hangup"}) }

// Rename gives p's main thread another name, of at most 15 bytes.
func (p *Proc) Rename(name string) {
	p.zoo.t.Helper()
	p.do(order{Do: "rename", Data: []byte(name)})
}

// Subreaper makes p the new parent of the orphans below it.
func (p *Proc) Subreaper() { p.zoo.t.Helper(); p.do(order{Do: "subreaper"}) }

// Exec makes p exec the program anew; its connection survives if inherit is
// set.
func (p *Proc) Exec(inherit bool) {
	p.zoo.t.Helper()
	if err := p.send(order{Do: "exec", Text: p.zoo.spec(p.name), Flag: inherit}); err != nil {
		p.zoo.t.Fatalf("telling process %d to exec: %v", p.PID, err)
	}
	_ = p.conn.Close()
	before := p.PID
	p.zoo.meet(p)
	if p.PID != before {
		p.zoo.t.Fatalf("process %d is %d after exec", before, p.PID)
	}
}

// Kill ends p and waits until it has ended: its parent finds a zombie.
func (p *Proc) Kill() {
	p.zoo.t.Helper()
	pidfd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		p.zoo.t.Fatalf("opening process %d: %v", p.PID, err)
	}
	defer func() { _ = unix.Close(pidfd) }()
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil {
		p.zoo.t.Fatalf("killing process %d: %v", p.PID, err)
	}
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != unix.EINTR {
			return
		}
	}
}

// Reap makes the parent of p, which must be the test or given, collect it.
func (p *Proc) Reap(parent *Proc) {
	p.zoo.t.Helper()
	if parent != nil {
		parent.do(order{Do: "reap", Text: fmt.Sprint(p.PID)})
		return
	}
	_ = p.cmd.Wait()
	p.reaped = true
}

// do gives an order that must succeed.
func (p *Proc) do(o order) {
	p.zoo.t.Helper()
	if a := p.ask(o); a.Error != "" {
		p.zoo.t.Fatalf("process %d, %s: %s", p.PID, o.Do, a.Error)
	}
}

func (p *Proc) ask(o order) answer {
	p.zoo.t.Helper()
	err := p.send(o)
	var a answer
	if err == nil {
		err = receive(p.conn, &a)
	}
	if err != nil {
		p.zoo.t.Fatalf("process %d, %s: %v", p.PID, o.Do, err)
	}
	return a
}

func (p *Proc) send(o order) error {
	if err := p.conn.SetDeadline(soon()); err != nil {
		return err
	}
	return json.NewEncoder(p.conn).Encode(o)
}

func (z *Zoo) greet(p *Proc) *Proc {
	z.t.Helper()
	z.meet(p)
	z.procs = append(z.procs, p)
	return p
}

// meet takes the connection of a process that has just begun.
func (z *Zoo) meet(p *Proc) {
	z.t.Helper()
	_ = z.ctl.SetDeadline(soon())
	conn, err := z.ctl.AcceptUnix()
	if err != nil {
		z.t.Fatalf("waiting for process %q: %v", p.name, err)
	}
	_ = conn.SetDeadline(soon())
	var hello answer
	if err := receive(conn, &hello); err != nil || string(hello.Data) != p.name {
		z.t.Fatalf("waiting for process %q: got %q, %v", p.name, hello.Data, err)
	}
	// What it calls itself is another number where it has a pid namespace.
	raw, err := conn.SyscallConn()
	if err == nil {
		ctlErr := raw.Control(func(fd uintptr) {
			var cred *unix.Ucred
			if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
				p.PID = int(cred.Pid)
			}
		})
		err = errors.Join(err, ctlErr)
	}
	if err != nil {
		z.t.Fatalf("asking who process %q is: %v", p.name, err)
	}
	p.conn = conn
}

func (z *Zoo) nextName() string { z.count++; return fmt.Sprint("p", z.count) }

func (z *Zoo) spec(name string) string { return z.ctl.Addr().String() + " " + name }

func soon() time.Time { return clock.System{}.Wall().Add(patience) }
