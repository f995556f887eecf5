package sdunit

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// passed is what a test passes on.
type passed struct {
	t          *testing.T
	a, b, c, d string // paths: a and b are the broker's
}

func newPassed(t *testing.T) *passed {
	dir, err := os.MkdirTemp("", "sd-") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	at := func(name string) string { return filepath.Join(dir, name) }
	return &passed{t: t, a: at("a"), b: at("b"), c: at("c"), d: at("d")}
}

// socket makes a socket of any kind, and returns a duplicate to pass on.
func (p *passed) socket(network, addr string) *os.File {
	p.t.Helper()
	if network == "unix" {
		_ = os.Remove(addr)
	}
	var s any
	var err error
	if network == "unixgram" {
		s, err = net.ListenUnixgram(network, &net.UnixAddr{Name: addr, Net: network})
	} else {
		s, err = net.Listen(network, addr)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = s.(interface{ Close() error }).Close() })
	f, err := s.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		p.t.Fatal(err)
	}
	return f
}

func (p *passed) unix(path string) *os.File { return p.socket("unix", path) }

// connected is a stream socket that listens for nobody.
func (p *passed) connected() *os.File {
	p.t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = unix.Close(pair[1])
	return os.NewFile(uintptr(pair[0]), "pair")
}

func (p *passed) pidfd() *os.File {
	p.t.Helper()
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		p.t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "pidfd")
}

// start runs a broker with the descriptors and variables, and returns what it says.
func (p *passed) start(files []*os.File, env ...string) string {
	p.t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(append(os.Environ(), playsBroker+"="+p.a+" "+p.b, "GORACE=atexit_sleep_ms=0"), env...)
	cmd.ExtraFiles = files
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Errorf("%v: %s", err, out)
	}
	for _, f := range files {
		_ = f.Close()
	}
	return strings.TrimSpace(strings.NewReplacer(p.a, "A", p.b, "B", p.c, "C", p.d, "D").Replace(string(out)))
}

func TestD1_Activation(t *testing.T) {
	const both = "sockets: [A B] stored: []"
	for _, tt := range []struct {
		name  string
		files func(p *passed) []*os.File
		env   []string
		want  string // a whole line, or the beginning of an error
	}{
		{"not activated", nil, nil, "nothing"},
		{"names are optional", func(p *passed) []*os.File { return []*os.File{p.unix(p.a), p.unix(p.b)} },
			[]string{"LISTEN_PID=own", "LISTEN_FDS=2"}, both},
		{"told apart by their paths", func(p *passed) []*os.File { return []*os.File{p.unix(p.b), p.unix(p.a)} },
			[]string{"LISTEN_PID=own", "LISTEN_FDS=2", "LISTEN_FDNAMES=guard-broker.socket:guard-operator.socket"}, both},
		{"names that don't fit", func(p *passed) []*os.File { return []*os.File{p.unix(p.b), p.unix(p.a)} },
			[]string{"LISTEN_PID=own", "LISTEN_FDS=2", "LISTEN_FDNAMES=:::x"}, both},
		{"of another process", func(p *passed) []*os.File { return []*os.File{p.unix(p.a), p.unix(p.b)} },
			[]string{"LISTEN_PID=1", "LISTEN_FDS=2"}, "nothing"},
		{"of no process", func(p *passed) []*os.File { return []*os.File{p.unix(p.a), p.unix(p.b)} },
			[]string{"LISTEN_PID=x", "LISTEN_FDS=2"}, "nothing"},
		{"without a pid", func(p *passed) []*os.File { return []*os.File{p.unix(p.a), p.unix(p.b)} },
			[]string{"LISTEN_FDS=2"}, "nothing"},
		{"a count that is none", nil, []string{"LISTEN_PID=own", "LISTEN_FDS=x"}, `error: taking over descriptors: LISTEN_FDS is "x"`},
		{"no count", nil, []string{"LISTEN_PID=own"}, `error: taking over descriptors: LISTEN_FDS is ""`},
		{"a count of none", nil, []string{"LISTEN_PID=own", "LISTEN_FDS=0"}, `error: taking over descriptors: LISTEN_FDS is "0"`},
		{"a huge count", nil, []string{"LISTEN_PID=own", "LISTEN_FDS=2000000000"}, `error: taking over descriptors: LISTEN_FDS is "2000000000"`},
		{"more than are there", func(p *passed) []*os.File { return []*os.File{p.unix(p.a), p.unix(p.b)} },
			[]string{"LISTEN_PID=own", "LISTEN_FDS=300"}, `error: taking over "LISTEN_FD_`},
		{"one of two", func(p *passed) []*os.File { return []*os.File{p.unix(p.a)} },
			[]string{"LISTEN_PID=own", "LISTEN_FDS=1"}, "error: taking over sockets: 1 came, want A and B"},
		{"one twice", func(p *passed) []*os.File { return []*os.File{p.unix(p.a), p.unix(p.a)} },
			[]string{"LISTEN_PID=own", "LISTEN_FDS=2"}, `error: taking over "LISTEN_FD_4": two sockets at "A"`},
		{"a third", func(p *passed) []*os.File { return []*os.File{p.unix(p.a), p.unix(p.b), p.unix(p.c)} },
			[]string{"LISTEN_PID=own", "LISTEN_FDS=3"}, `error: taking over "LISTEN_FD_5": a socket at "C" is none of the broker's`},
		{"TCP", func(p *passed) []*os.File { return []*os.File{p.unix(p.a), p.socket("tcp", "127.0.0.1:0")} },
			[]string{"LISTEN_PID=own", "LISTEN_FDS=2"}, `error: taking over "LISTEN_FD_4": it is not a unix socket`},
		{"datagrams", func(p *passed) []*os.File { return []*os.File{p.unix(p.a), p.socket("unixgram", p.b)} },
			[]string{"LISTEN_PID=own", "LISTEN_FDS=2"}, `error: taking over "LISTEN_FD_4": it is not a stream socket`},
		{"a connection", func(p *passed) []*os.File { return []*os.File{p.unix(p.a), p.connected()} },
			[]string{"LISTEN_PID=own", "LISTEN_FDS=2"}, `error: taking over "LISTEN_FD_4": it is not a listening socket`},
		{"no socket and no name", func(p *passed) []*os.File { return []*os.File{p.unix(p.a), p.unix(p.b), p.pidfd()} },
			[]string{"LISTEN_PID=own", "LISTEN_FDS=3"}, `error: taking over "LISTEN_FD_5": it is no socket`},
		{"stored beside the sockets", func(p *passed) []*os.File { return []*os.File{p.pidfd(), p.unix(p.a), p.unix(p.b), p.pidfd()} },
			[]string{"LISTEN_PID=own", "LISTEN_FDS=4", "LISTEN_FDNAMES=anchor-1:x:y:anchor-2"}, "sockets: [A B] stored: [anchor-1 anchor-2]"},
		{"stored alone", func(p *passed) []*os.File { return []*os.File{p.pidfd(), p.pidfd()} },
			[]string{"LISTEN_PID=own", "LISTEN_FDS=2", "LISTEN_FDNAMES=anchor-1:anchor-1"}, "sockets: [] stored: [anchor-1]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPassed(t)
			var files []*os.File
			if tt.files != nil {
				files = tt.files(p)
			}
			got := p.start(files, append(tt.env, "LISTEN_PIDFDID=7", "WATCHDOG_PID=1", "WATCHDOG_USEC=5")...)
			if strings.HasPrefix(tt.want, "error") {
				if !strings.HasPrefix(got, tt.want) || strings.Contains(got, "\nleft") {
					t.Errorf("said %q, want it to begin with %q and to leave no variable", got, tt.want)
				}
				return
			}
			if got != tt.want {
				t.Errorf("said %q, want %q", got, tt.want)
			}
		})
	}
}

// A child of the broker could take a stale variable for its own.
func TestD1_VariablesAreTakenOut(t *testing.T) {
	p := newPassed(t)
	got := p.start([]*os.File{p.unix(p.a), p.unix(p.b)}, "LISTEN_PID=own", "LISTEN_FDS=2", "LISTEN_FDNAMES=x:y", "LISTEN_PIDFDID=7",
		"NOTIFY_SOCKET="+p.d, "WATCHDOG_PID=1", "WATCHDOG_USEC=1000000")
	if got != "sockets: [A B] stored: []" {
		t.Errorf("said %q", got)
	}
}
