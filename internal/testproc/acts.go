package testproc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// What a child is started as.
const (
	asChild        = iota // like any
	inSession             // leader of a session of its own
	inPIDNamespace        // first of a pid namespace of its own, and of a user's if it isn't root
)

func how(kind []byte) syscall.SysProcAttr {
	switch {
	case len(kind) == 0 || kind[0] == asChild:
		return syscall.SysProcAttr{}
	case kind[0] == inSession:
		return syscall.SysProcAttr{Setsid: true}
	case os.Geteuid() == 0:
		return syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	}
	return syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWUSER}
}

// SpawnInPIDNamespace starts a child of p that is process 1 of its own pid
// namespace.
func (p *Proc) SpawnInPIDNamespace(inherit bool) *Proc {
	p.zoo.t.Helper()
	return p.spawn(inherit, inPIDNamespace)
}

// TryWrite makes p write on its connection and returns what p was told.
func (p *Proc) TryWrite(text string) error {
	p.zoo.t.Helper()
	return told(p.ask(order{Do: "write", Data: []byte(text)}))
}

// WriteWithFiles makes p write and pass n open files along.
func (p *Proc) WriteWithFiles(text string, n int) error {
	p.zoo.t.Helper()
	return told(p.ask(order{Do: "writefiles", Data: []byte(text), Text: strings.Repeat("f", n)}))
}

// Read makes p read once from its connection. The end of it is io.EOF.
func (p *Proc) Read() (string, error) {
	p.zoo.t.Helper()
	a := p.ask(order{Do: "read"})
	if a.Error == io.EOF.Error() {
		return "", io.EOF
	}
	return string(a.Data), told(a)
}

func told(a answer) error {
	if a.Error == "" {
		return nil
	}
	return fmt.Errorf("process %d: %s", a.PID, a.Error)
}

// Lend returns a descriptor of p's connection that belongs to the test, as if p
// had passed it on.
func (p *Proc) Lend() (int, error) {
	p.zoo.t.Helper()
	a := p.ask(order{Do: "lend"})
	if err := told(a); err != nil {
		return -1, err
	}
	return receiveFile(p.conn)
}

// Take gives p a descriptor of the test's for its connection.
func (p *Proc) Take(fd int) error {
	p.zoo.t.Helper()
	if err := p.send(order{Do: "take"}); err != nil {
		return err
	}
	if err := sendFile(p.conn, fd); err != nil {
		return err
	}
	var a answer
	if err := receive(p.conn, &a); err != nil {
		return err
	}
	return told(a)
}

// Become makes p exec another program, to which its connection stays open if
// inherit is set. p obeys no more.
func (p *Proc) Become(inherit bool, argv ...string) {
	p.zoo.t.Helper()
	p.BecomeWith(inherit, "", argv...)
}

// BecomeWith is Become with something to read on stdin, a socket pair that p has
// made.
func (p *Proc) BecomeWith(inherit bool, stdin string, argv ...string) {
	p.zoo.t.Helper()
	if err := p.send(order{Do: "become", Text: strings.Join(argv, "\x00"), Data: []byte(stdin), Flag: inherit}); err != nil {
		p.zoo.t.Fatalf("telling process %d to become %q: %v", p.PID, argv, err)
	}
	// The program closes the order's connection, or p has failed and says why.
	var a answer
	if err := receive(p.conn, &a); err == nil {
		p.zoo.t.Fatalf("process %d, becoming %q: %s", p.PID, argv, a.Error)
	}
}

// Flood makes p open n connections more and write the text on each; they stay
// open until Calm. It returns how many it could open.
func (p *Proc) Flood(n int, path, text string) int {
	p.zoo.t.Helper()
	a := p.ask(order{Do: "flood", Text: path, Data: []byte(text), N: n})
	var opened int
	if err := errors.Join(told(a), json.Unmarshal(a.Data, &opened)); err != nil {
		p.zoo.t.Fatalf("process %d, flooding: %v", p.PID, err)
	}
	return opened
}

// Calm closes what Flood has opened.
func (p *Proc) Calm() { p.zoo.t.Helper(); p.do(order{Do: "calm"}) }

// LeaveLeader makes the first thread of p end, while the others live on.
func (p *Proc) LeaveLeader() { p.zoo.t.Helper(); p.do(order{Do: "leader"}) }

// Output is what a program did that p has run.
type Output struct {
	Out, Err []byte
	Exit     int
}

// Run makes p run a program and wait for it. Its stdin is one end of a socket
// pair that p makes, as node's hosts do it; with piped it is a pipe.
func (p *Proc) Run(piped bool, stdin string, argv ...string) Output {
	p.zoo.t.Helper()
	a := p.ask(order{Do: "run", Text: strings.Join(argv, "\x00"), Data: []byte(stdin), Flag: piped})
	var out Output
	if err := errors.Join(told(a), json.Unmarshal(a.Data, &out)); err != nil {
		p.zoo.t.Fatalf("process %d, running %q: %v", p.PID, argv, err)
	}
	return out
}

// Begin makes p start a program, with a socket pair of p's as stdin, and returns
// its pid. Nothing is read of what it writes; p doesn't wait for it.
func (p *Proc) Begin(stdin string, argv ...string) int {
	p.zoo.t.Helper()
	a := p.ask(order{Do: "begin", Text: strings.Join(argv, "\x00"), Data: []byte(stdin)})
	var pid int
	if err := errors.Join(told(a), json.Unmarshal(a.Data, &pid)); err != nil {
		p.zoo.t.Fatalf("process %d, starting %q: %v", p.PID, argv, err)
	}
	return pid
}

// receive reads one order or answer and not a byte of what comes behind it: that
// may bring a descriptor.
func receive(conn *net.UnixConn, v any) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var line []byte
	for !bytes.HasSuffix(line, []byte{'\n'}) {
		buf, n := make([]byte, 64<<10), 0
		peekErr := raw.Read(func(fd uintptr) bool {
			n, _, err = unix.Recvfrom(int(fd), buf, unix.MSG_PEEK)
			return !errors.Is(err, unix.EAGAIN)
		})
		switch {
		case peekErr != nil || err != nil:
			return errors.Join(peekErr, err)
		case n == 0:
			return io.EOF
		}
		if end := bytes.IndexByte(buf[:n], '\n'); end >= 0 {
			n = end + 1
		}
		if _, err := io.ReadFull(conn, buf[:n]); err != nil {
			return err
		}
		line = append(line, buf[:n]...)
	}
	return json.Unmarshal(line, v)
}

// receiveFile takes a descriptor that comes with one byte.
func receiveFile(conn *net.UnixConn) (int, error) {
	b, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(b, oob)
	if err != nil {
		return -1, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) != 1 {
		return -1, fmt.Errorf("no descriptor came: %w", err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return -1, fmt.Errorf("no descriptor came: %w", err)
	}
	unix.CloseOnExec(fds[0])
	return fds[0], nil
}

func sendFile(conn *net.UnixConn, fd int) error {
	_, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(fd), nil)
	return err
}

// The other side of all these.

// leader is told when the first thread is to end.
var leader = make(chan struct{})

// onFirstThread keeps the first goroutine on the first thread.
func onFirstThread() { runtime.LockOSThread() }

// endLeader ends the first thread once that is wanted: whoever calls it must be
// on it.
func endLeader() {
	<-leader
	_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

func (s *self) read() ([]byte, error) {
	buf := make([]byte, 256<<10)
	n, err := unix.Read(s.sock, buf)
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, io.EOF
	}
	return buf[:n], nil
}

// flood leaves no time for the other side to keep up: who finds the queue full
// doesn't wait.
func (s *self) flood(o order) ([]byte, error) {
	opened := 0
	for range o.N {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			break
		}
		s.flooded = append(s.flooded, fd)
		if unix.Connect(fd, &unix.SockaddrUnix{Name: o.Text}) == nil {
			opened++
			_ = unix.Sendmsg(fd, o.Data, nil, nil, unix.MSG_NOSIGNAL) // it may be closed by now
		}
	}
	return json.Marshal(opened)
}

func (s *self) calm() {
	for _, fd := range s.flooded {
		_ = unix.Close(fd)
	}
	s.flooded = nil
}

func (s *self) become(o order) error {
	if o.Flag {
		if _, err := unix.FcntlInt(uintptr(s.sock), unix.F_SETFD, 0); err != nil {
			return err
		}
	}
	if len(o.Data) > 0 {
		stdin, err := filled(o.Data)
		if err != nil {
			return err
		}
		if err := unix.Dup2(stdin, 0); err != nil {
			return err
		}
	}
	argv := strings.Split(o.Text, "\x00")
	return syscall.Exec(argv[0], argv, os.Environ())
}

// filled is one end of a new socket pair, from which the data and then nothing
// more is read. All of it has to fit.
func filled(data []byte) (int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if _, err := unix.Write(pair[0], data); err != nil {
		return -1, err
	}
	return pair[1], unix.Close(pair[0])
}

func begin(o order) ([]byte, error) {
	stdin, err := filled(o.Data)
	if err != nil {
		return nil, err
	}
	argv := strings.Split(o.Text, "\x00")
	cmd := exec.Command(argv[0], argv[1:]...)
	far := os.NewFile(uintptr(stdin), "far")
	defer func() { _ = far.Close() }()
	cmd.Stdin = far
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return json.Marshal(cmd.Process.Pid)
}

func run(o order) ([]byte, error) {
	argv := strings.Split(o.Text, "\x00")
	cmd := exec.Command(argv[0], argv[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(o.Data), &out, &errs
	if !o.Flag {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		near, far := os.NewFile(uintptr(pair[0]), "near"), os.NewFile(uintptr(pair[1]), "far")
		defer func() { _ = far.Close() }()
		cmd.Stdin = far
		go func() {
			_, _ = near.Write(o.Data) // a program that doesn't read is the test's business
			_ = near.Close()
		}()
	}
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return nil, err
	}
	return json.Marshal(Output{Out: out.Bytes(), Err: errs.Bytes(), Exit: cmd.ProcessState.ExitCode()})
}
