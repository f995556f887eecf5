package launcher

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/wire"
)

// newLine makes the line by which a gate shows that Codex has started it as a
// hook: Codex closes it for its tools. It stands at a number that the gate knows,
// and names its maker, this process, to whoever holds it.
func newLine() (sealed, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Dup3(pair[0], wire.LineFD, unix.O_CLOEXEC)
		err = errors.Join(err, unix.Close(pair[0]), unix.Close(pair[1])) // the maker stays known
	}
	if err != nil {
		return sealed{-1}, fmt.Errorf("making the line of Codex's hooks, file descriptor %d: %w; raise the limit of open files (ulimit -n)", wire.LineFD, err)
	}
	return sealed{wire.LineFD}, nil
}
