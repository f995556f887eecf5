package main

import (
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// dialer makes a connection to a server, broker or echo.
type dialer func(socket string) (io.ReadWriteCloser, error)

// dialPoller is for many clients: threads that block would keep each other from
// the scheduler's two places.
func dialPoller(socket string) (io.ReadWriteCloser, error) { return net.Dial("unix", socket) }

// blocking is a connection as the gate has it: its thread waits in the kernel.
type blocking int

func dialBlocking(socket string) (io.ReadWriteCloser, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return blocking(fd), nil
}

func (c blocking) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(c), b)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (c blocking) Write(b []byte) (int, error) {
	for done := 0; done < len(b); {
		n, err := unix.Write(int(c), b[done:])
		if err != nil && err != unix.EINTR {
			return done, err
		}
		done += max(n, 0)
	}
	return len(b), nil
}

func (c blocking) Close() error { return unix.Close(int(c)) }
