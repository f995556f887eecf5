package testproc

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// Line makes p keep one end of a socket pair of its own at a number, where what
// it starts or becomes has it too.
func (p *Proc) Line(fd int) {
	p.zoo.t.Helper()
	p.do(order{Do: "line", Text: strconv.Itoa(fd)})
}

// Close makes p close a number, if it is open.
func (p *Proc) Close(fd int) {
	p.zoo.t.Helper()
	p.do(order{Do: "close", Text: strconv.Itoa(fd)})
}

func line(number string) error {
	fd, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Dup3(pair[0], fd, 0), unix.Close(pair[0]), unix.Close(pair[1]))
}

func closeNumber(number string) error {
	fd, err := strconv.Atoi(number)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}
