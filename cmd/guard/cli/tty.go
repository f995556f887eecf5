package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/wire"
)

// errNoTerminal says that this process has no terminal to ask on.
var errNoTerminal = errors.New("there is no terminal to ask on")

// maxSecret is the most bytes that are taken of one answer.
const maxSecret = 1024

// endings are the signals at which a question on the terminal ends: echo is
// switched on again before anything else happens, also before a stop, after
// which the shell would have a terminal that shows nothing.
var endings = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP}

// past ends a read at once.
var past = time.Unix(1, 0)

// askSecret puts a question on the terminal of this process, wherever stdin and
// stdout lead, and takes one line without showing it. What was typed before the
// question doesn't count.
func askSecret(ctx context.Context, question string) (_ wire.Secret, err error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoTerminal, err)
	}
	defer tty.Close()
	ctx, stop := signal.NotifyContext(ctx, endings...)
	defer stop()
	was, err := quieten(tty)
	if err != nil {
		return "", fmt.Errorf("switching the terminal's echo off: %w", err)
	}
	defer func() {
		if backErr := setTermios(tty, was); backErr != nil {
			err = errors.Join(err, fmt.Errorf("switching the terminal's echo on again: %w; run: stty sane", backErr))
		}
	}()
	defer context.AfterFunc(ctx, func() { _ = tty.SetReadDeadline(past) })()
	if _, err := tty.WriteString(question); err != nil {
		return "", fmt.Errorf("asking on the terminal: %w", err)
	}
	line, err := readLine(tty)
	switch {
	case ctx.Err() != nil:
		_, _ = tty.WriteString("\n") // so that the next line begins as one
		return "", errors.New("interrupted at the question; nothing was sent")
	case err != nil:
		return "", fmt.Errorf("reading the answer from the terminal: %w", err)
	}
	return wire.Secret(line), nil
}

// quieten switches echo off, but for the line feed at the end, and returns how
// the terminal was.
func quieten(tty *os.File) (was *unix.Termios, err error) {
	err = onFd(tty, func(fd int) (err error) {
		was, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	})
	if err != nil {
		return nil, err
	}
	quiet := *was
	quiet.Lflag &^= unix.ECHO
	quiet.Lflag |= unix.ECHONL | unix.ICANON | unix.ISIG
	return was, setTermios(tty, &quiet)
}

// setTermios drops what was typed so far, lest the rest of an answer become a
// command.
func setTermios(tty *os.File, t *unix.Termios) error {
	return onFd(tty, func(fd int) error { return unix.IoctlSetTermios(fd, unix.TCSETSF, t) })
}

// onFd lends the descriptor without making it blocking, as Fd would: then
// nothing could end a read.
func onFd(f *os.File, use func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	ctlErr := raw.Control(func(fd uintptr) { err = use(int(fd)) })
	return errors.Join(ctlErr, err)
}

// readLine reads up to the line feed.
func readLine(tty *os.File) (string, error) {
	var line []byte
	for len(line) <= maxSecret {
		var b [128]byte
		n, err := tty.Read(b[:])
		line = append(line, b[:n]...)
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			return string(line[:i]), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("it has more than %d bytes", maxSecret)
}
