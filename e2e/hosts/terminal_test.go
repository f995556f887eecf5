//go:build hosts

package hosts

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a client in front of a person: a pseudo-terminal whose output is
// kept, and on which a test types.
type terminal struct {
	t    *testing.T
	tty  *os.File
	cmd  *exec.Cmd
	read sync.WaitGroup

	mu   sync.Mutex
	text []byte
	seen int // up to here shown has looked
}

// openPTY gives both ends of a new pseudo-terminal of 50 lines.
func openPTY() (ptm, pts *os.File, err error) {
	ptm, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(ptm.Fd())
	err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 160})
	}
	var n int
	if err == nil {
		n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
	}
	if err == nil {
		pts, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		ptm.Close()
		return nil, nil, err
	}
	return ptm, pts, nil
}

// interact starts the client in a terminal with exactly these arguments.
func (w *world) interact(args ...string) *terminal {
	w.t.Helper()
	ptm, pts, err := openPTY()
	must(w.t, err)
	cmd := exec.Command(w.Client, args...)
	cmd.Dir, cmd.Env = w.Project, w.environ()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pts, pts, pts
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	pts.Close()
	must(w.t, err)
	term := &terminal{t: w.t, tty: ptm, cmd: cmd}
	term.read.Go(term.follow)
	w.t.Cleanup(term.end)
	return term
}

// follow keeps what the client writes, and answers the one question to which a
// terminal's silence would cost it time: what it is.
func (x *terminal) follow() {
	buf := make([]byte, 32<<10)
	for {
		n, err := x.tty.Read(buf)
		x.mu.Lock()
		x.text = append(x.text, buf[:n]...)
		x.mu.Unlock()
		if strings.Contains(string(buf[:n]), "\x1b[c") {
			_, _ = x.tty.WriteString("\x1b[?62;22c")
		}
		if err != nil {
			return // the last process has closed the other end
		}
	}
}

// escapes are what a terminal doesn't show.
var escapes = regexp.MustCompile(`\x1b\[[0-9;?<>=!]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[()][0-9A-Za-z]|\x1b[=>78PX^_cDEHMNOZ]`)

// screen is all that was shown so far without its escapes and white space, which
// a program may write as moves of the cursor.
func (x *terminal) screen() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Join(strings.Fields(escapes.ReplaceAllString(string(x.text[x.seen:]), "")), "")
}

// shown waits for text, which is compared without white space. The next look
// begins after it.
func (x *terminal) shown(text string) {
	x.t.Helper()
	want := strings.Join(strings.Fields(text), "")
	for end := time.Now().Add(patience); !strings.Contains(x.screen(), want); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			x.t.Fatalf("waited %v for %q on the screen, which shows\n%s", patience, text, x.screen())
		}
	}
	x.mu.Lock()
	x.seen = len(x.text)
	x.mu.Unlock()
}

// keys types text as it stands; a line ends with "\r".
func (x *terminal) keys(text string) {
	x.t.Helper()
	_, err := x.tty.WriteString(text)
	must(x.t, err)
}

// press types a key again and again until it has had its effect: a dialog takes
// no key in its first moments, lest a person answers it by accident.
func (x *terminal) press(key, what string, done func() bool) {
	x.t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(300 * time.Millisecond) {
		if time.Now().After(end) {
			x.t.Fatalf("pressed %q for %v without %s", key, patience, what)
		}
		x.keys(key)
	}
}

// enter types a line. The client takes a return that comes in one piece with
// text for a pasted new line, so it is sent once the text is on the screen.
func (x *terminal) enter(line string) {
	x.t.Helper()
	x.keys(line)
	x.shown(line)
	x.keys("\r")
}

// wait waits for the client's own end and gives its exit status.
func (x *terminal) wait() int {
	x.t.Helper()
	done := make(chan struct{})
	timer := time.AfterFunc(patience, func() { close(done); _ = syscall.Kill(-x.cmd.Process.Pid, syscall.SIGKILL) })
	_ = x.cmd.Wait()
	timer.Stop()
	select {
	case <-done:
		x.t.Fatalf("the client didn't end in %v; its screen shows\n%s", patience, x.screen())
	default:
	}
	return x.cmd.ProcessState.ExitCode()
}

// end makes sure that nothing of the client stays.
func (x *terminal) end() {
	if x.t.Failed() {
		x.t.Logf("the screen showed\n%s", x.screen())
	}
	if x.cmd.ProcessState == nil {
		_ = syscall.Kill(-x.cmd.Process.Pid, syscall.SIGKILL)
		_ = x.cmd.Wait()
	}
	x.tty.Close()
	x.read.Wait()
}
