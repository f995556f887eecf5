package testproc

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// inherited is the descriptor of a connection that came from the parent.
const inherited = 3

// self is one process of a zoo, from within.
type self struct {
	sock     int // the connection that the tests are about, -1: none
	children map[int]*exec.Cmd
	flooded  []int
}

// child does what the zoo says until the zoo is gone.
func child(spec string) {
	fields := strings.Fields(spec)
	conn, err := net.Dial("unix", fields[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testproc:", err)
		os.Exit(1)
	}
	s := &self{sock: -1, children: map[int]*exec.Cmd{}}
	if len(fields) > 2 {
		s.sock = inherited
		unix.CloseOnExec(inherited)
	}
	ctl := conn.(*net.UnixConn)
	out := json.NewEncoder(ctl)
	err = out.Encode(answer{PID: os.Getpid(), Data: []byte(fields[1])})
	for err == nil {
		var o order
		if err = receive(ctl, &o); err != nil {
			break
		}
		a := answer{PID: os.Getpid()}
		var doErr error
		switch o.Do {
		case "take":
			s.sock, doErr = receiveFile(ctl)
		default:
			a.Data, doErr = s.obey(o)
		}
		if doErr != nil {
			a.Error = doErr.Error()
		}
		if err = out.Encode(a); err == nil && o.Do == "lend" {
			err = sendFile(ctl, s.sock)
		}
	}
	os.Exit(0)
}

// obey does one thing. What it finds out is Data of the answer.
func (s *self) obey(o order) ([]byte, error) {
	switch o.Do {
	case "read":
		return s.read()
	case "run":
		return run(o)
	case "begin":
		return begin(o)
	case "flood":
		return s.flood(o)
	case "lend":
		return nil, nil // it follows the answer
	}
	return nil, s.act(o)
}

func (s *self) act(o order) error {
	switch o.Do {
	case "spawn":
		return s.spawn(o)
	case "exec":
		return s.exec(o)
	case "become":
		return s.become(o)
	case "connect":
		return s.connect(o.Text)
	case "write":
		return s.write(o.Data, nil)
	case "writefiles":
		return s.write(o.Data, unix.UnixRights(make([]int, len(o.Text))...))
	case "hangup":
		err := unix.Close(s.sock)
		s.sock = -1
		return err
	case "rename":
		return os.WriteFile("/proc/self/comm", o.Data, 0)
	case "subreaper":
		return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	case "reap":
		return s.reap(o.Text)
	case "calm":
		s.calm()
		return nil
	case "line":
		return line(o.N)
	case "close":
		_ = unix.Close(o.N)
		return nil
	case "leader":
		leader <- struct{}{}
		return nil
	}
	return errors.New("no such order")
}

// spawn starts a child and leaves it to itself: nothing reaps it unasked.
func (s *self) spawn(o order) error {
	var sock *os.File
	if o.Flag {
		fd, err := unix.FcntlInt(uintptr(s.sock), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		sock = os.NewFile(uintptr(fd), "inherited")
		defer func() { _ = sock.Close() }()
	}
	cmd := command(o.Text, sock, how(o.Data))
	if err := cmd.Start(); err != nil {
		return err
	}
	s.children[cmd.Process.Pid] = cmd
	return nil
}

// command starts the test program as a process of a zoo.
func command(spec string, sock *os.File, how syscall.SysProcAttr) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Stderr = os.Stderr
	if sock != nil {
		spec += " inherits"
		cmd.ExtraFiles = []*os.File{sock}
	}
	cmd.Env = append(os.Environ(), env+"="+spec)
	cmd.SysProcAttr = &how
	return cmd
}

func (s *self) exec(o order) error {
	spec := o.Text
	if o.Flag {
		spec += " inherits"
		if s.sock != inherited {
			if err := unix.Dup3(s.sock, inherited, unix.O_CLOEXEC); err != nil {
				return err
			}
		}
		// Go opens everything close-on-exec.
		if _, err := unix.FcntlInt(inherited, unix.F_SETFD, 0); err != nil {
			return err
		}
	}
	if err := os.Setenv(env, spec); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", os.Args[:1], os.Environ())
}

// connect uses plain system calls: a descriptor that the runtime polls can't be
// lent out as this one is.
func (s *self) connect(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s.sock = fd
	return unix.Connect(fd, &unix.SockaddrUnix{Name: path})
}

func (s *self) write(data, oob []byte) error {
	return unix.Sendmsg(s.sock, data, oob, nil, unix.MSG_NOSIGNAL)
}

func (s *self) reap(pid string) error {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	if cmd := s.children[n]; cmd != nil {
		_ = cmd.Wait() // it was killed: the status is no news
		return nil
	}
	var status unix.WaitStatus
	_, err = unix.Wait4(n, &status, 0, nil)
	return err
}
