package client

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
)

// SpawnArgs is guard's hidden command that runs Spawn.
var SpawnArgs = []string{"broker", "spawn"}

// brokerEnv is all of the environment that a started broker gets.
var brokerEnv = []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"}

// maxLog is the size from which broker.log is begun anew at a start.
const maxLog = 1 << 20

// started is the intermediate process of a double fork. It leads a session of
// its own, has the broker as its child, and ends when we let go of its stdin or
// when the broker ends; the broker then belongs to init, not to us.
type started struct {
	stdin io.Closer
	ended chan struct{}
	log   *os.File
	from  int64 // where this start's part of the log begins
}

func logPath(p paths.Paths) string { return filepath.Join(p.StateDir, "broker.log") }

// spawn starts the intermediate process.
func spawn(p paths.Paths) (*started, error) {
	programs, err := Siblings()
	if err != nil {
		return nil, err
	}
	for _, path := range []string{programs.Guard, programs.Broker} {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("starting the broker: %w; guard's programs must lie in one directory", err)
		}
	}
	log, from, err := openLog(p)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(programs.Guard, SpawnArgs...) // #nosec G204 -- the program beside our own
	cmd.Env, cmd.Dir, cmd.Stderr = filterEnv(), "/", log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		log.Close()
		return nil, fmt.Errorf("starting %q: %w", programs.Guard, err)
	}
	s := &started{stdin: stdin, ended: make(chan struct{}), log: log, from: from}
	go func() {
		defer close(s.ended)
		_ = cmd.Wait() // what the broker said is in its log
	}()
	return s, nil
}

// Spawn is the intermediate process itself: it starts the broker and stays
// until in ends or the broker does. That the broker failed is no error here:
// its own last line is to be the log's last.
func Spawn(in io.Reader) error {
	programs, err := Siblings()
	if err != nil {
		return err
	}
	if err := CloseOnExec(); err != nil {
		return err
	}
	cmd := exec.Command(programs.Broker) // #nosec G204 -- the program beside our own
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = filterEnv(), "/", os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %q: %w", programs.Broker, err)
	}
	ended := make(chan error, 2)
	go func() {
		err := cmd.Wait()
		if errors.As(err, new(*exec.ExitError)) {
			err = nil
		}
		ended <- err
	}()
	go func() {
		_, err := io.Copy(io.Discard, in)
		ended <- err
	}()
	return <-ended
}

func filterEnv() []string {
	env := []string{} // not nil: that would mean all of ours
	for _, name := range brokerEnv {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func openLog(p paths.Paths) (*os.File, int64, error) {
	if err := paths.EnsureDir(p.StateDir, p.BrokerUID); err != nil {
		return nil, 0, err
	}
	path := logPath(p)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600) // #nosec G304 -- from paths, whose directory was checked
	if err != nil {
		return nil, 0, fmt.Errorf("opening the broker's log: %w", err)
	}
	st, err := f.Stat()
	switch {
	case err != nil:
	case !st.Mode().IsRegular():
		err = errors.New("not a regular file; remove it")
	case st.Size() > maxLog:
		err = f.Truncate(0)
	}
	end, seekErr := f.Seek(0, io.SeekEnd)
	if err = errors.Join(err, seekErr); err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("opening the broker's log %q: %w", path, err)
	}
	return f, end, nil
}

func (s *started) alive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// release lets the intermediate process go, waits for its end and returns the
// last line that the broker wrote.
func (s *started) release() string {
	s.stdin.Close()
	<-s.ended
	defer s.log.Close()
	text, err := io.ReadAll(io.NewSectionReader(s.log, s.from, 16<<10))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	last := verdict.Cut(verdict.Clean(lines[len(lines)-1]), verdict.MaxReason)
	if err != nil || last == "" {
		return "it wrote nothing"
	}
	return strings.TrimPrefix(last, "guard-broker: ")
}
