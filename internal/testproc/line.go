package testproc

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Line makes p keep one end of a socket pair of its own at a number, where what
// it starts or becomes has it too.
func (p *Proc) Line(fd int) {
	p.zoo.t.Helper()
	p.do(order{Do: "line", N: fd})
}

// Close makes p close a number, if it is open.
func (p *Proc) Close(fd int) {
	p.zoo.t.Helper()
	p.do(order{Do: "close", N: fd})
}

func line(fd int) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Dup3(pair[0], fd, 0), unix.Close(pair[0]), unix.Close(pair[1]))
}
