package sdunit

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"
)

// maxInherited bounds the descriptors that are taken over: two sockets, and one
// for each session's anchor.
const maxInherited = 1 << 16

// unnamed is what go-systemd calls a descriptor without a name.
const unnamed = "LISTEN_FD_"

// inherited is what was passed on at start.
type inherited struct {
	sockets map[string]*os.File // by their paths; none: nobody listens for us
	stored  map[string]*os.File // by their names
}

// inherit takes over the descriptors that are announced for this process. Its
// sockets are those of want, each once, or none at all: of a broker that listens
// on one by itself there could be two. Names of sockets mean nothing, since they
// are optional; a socket is told by its path. What isn't a socket was stored by
// an earlier run under a name.
func inherit(want []string) (in inherited, err error) {
	n, err := announced()
	files := activation.Files(true) // takes the variables out also on error
	_ = os.Unsetenv("LISTEN_PIDFDID")
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	in = inherited{sockets: map[string]*os.File{}, stored: map[string]*os.File{}}
	if err == nil && len(files) != n {
		err = fmt.Errorf("taking over %d descriptors: %d are there", n, len(files))
	}
	for i, f := range files {
		if err == nil {
			err = in.sort(f, want)
		}
		if err != nil {
			closeAll(files[i:])
			return inherited{}, fmt.Errorf("%w; correct the .socket units, which listen on %s", err, strings.Join(want, " and "))
		}
	}
	if len(in.sockets) != 0 && len(in.sockets) != len(want) {
		return in, fmt.Errorf("taking over sockets: %d came, want %s; start both .socket units", len(in.sockets), strings.Join(want, " and "))
	}
	return in, err
}

// announced is how many descriptors are announced for this process. What is
// announced for another one was left in the environment by mistake, and is none
// of ours.
func announced() (int, error) {
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return 0, nil
	}
	text := os.Getenv("LISTEN_FDS")
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxInherited {
		_ = os.Unsetenv("LISTEN_FDS") // not even to be tried
		return 0, fmt.Errorf("taking over descriptors: LISTEN_FDS is %q, want 1 to %d", text, maxInherited)
	}
	return n, nil
}

// sort puts a descriptor where it belongs. On error it is still the caller's.
func (in inherited) sort(f *os.File, want []string) error {
	path, isSocket, err := socketPath(f)
	switch {
	case err != nil:
		return fmt.Errorf("taking over %q: %w", f.Name(), err)
	case !isSocket && strings.HasPrefix(f.Name(), unnamed):
		return fmt.Errorf("taking over %q: it is no socket, and nothing that was stored by a name", f.Name())
	case !isSocket:
		if old := in.stored[f.Name()]; old != nil {
			_ = old.Close()
		}
		in.stored[f.Name()] = f
		return nil
	case !slices.Contains(want, path):
		return fmt.Errorf("taking over %q: a socket at %q is none of the broker's", f.Name(), path)
	case in.sockets[path] != nil:
		return fmt.Errorf("taking over %q: two sockets at %q", f.Name(), path)
	}
	in.sockets[path] = f
	return nil
}

// socketPath returns where a listening stream socket is, or that it is no socket.
func socketPath(f *os.File) (path string, isSocket bool, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return "", false, err
	}
	ctlErr := raw.Control(func(fd uintptr) { path, err = inspect(int(fd)) })
	if errors.Is(err, unix.ENOTSOCK) {
		return "", false, nil
	}
	return path, true, errors.Join(ctlErr, err)
}

func inspect(fd int) (string, error) {
	for _, is := range []struct {
		option, want int
		what         string
	}{
		{unix.SO_DOMAIN, unix.AF_UNIX, "a unix socket"},
		{unix.SO_TYPE, unix.SOCK_STREAM, "a stream socket"},
		{unix.SO_ACCEPTCONN, 1, "a listening socket"},
	} {
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, is.option)
		if err != nil {
			return "", fmt.Errorf("looking at the descriptor: %w", err)
		}
		if got != is.want {
			return "", fmt.Errorf("it is not %s", is.what)
		}
	}
	addr, err := unix.Getsockname(fd)
	if err != nil {
		return "", fmt.Errorf("reading the socket's path: %w", err)
	}
	return addr.(*unix.SockaddrUnix).Name, nil
}

func (in inherited) close() {
	for _, m := range []map[string]*os.File{in.sockets, in.stored} {
		for _, f := range m {
			_ = f.Close()
		}
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
