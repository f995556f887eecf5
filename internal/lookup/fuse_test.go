package lookup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/testproc"
)

// silence is a FUSE file system that answers until it is told to be silent. To
// close dev is to end it, and whoever waits for it.
type silence struct {
	dev     *os.File
	silent  atomic.Bool
	waiting chan uint32 // what was asked and isn't answered
}

// Numbers of the kernel's linux/fuse.h.
const (
	fuseLookup, fuseForget, fuseGetattr, fuseInit, fuseBatchForget = 1, 2, 3, 26, 42
	fuseDir                                                        = 2 // the number of the directory in it
)

func (s *silence) serve() {
	request := make([]byte, 1<<18)
	for {
		n, err := s.dev.Read(request)
		if err != nil || n < 40 {
			return
		}
		op, id := binary.NativeEndian.Uint32(request[4:]), request[8:16]
		node := binary.NativeEndian.Uint64(request[16:])
		switch {
		case op == fuseForget, op == fuseBatchForget:
		case op == fuseInit: // version 7.31, and room for writes
			init := make([]byte, 64)
			binary.NativeEndian.PutUint32(init, 7)
			binary.NativeEndian.PutUint32(init[4:], 31)
			binary.NativeEndian.PutUint32(init[20:], 1<<16)
			s.answer(id, 0, init)
		case s.silent.Load():
			s.waiting <- op
		case op == fuseLookup: // good for no time at all
			entry := make([]byte, 40)
			binary.NativeEndian.PutUint64(entry, fuseDir)
			s.answer(id, 0, append(entry, attributes(fuseDir)...))
		case op == fuseGetattr:
			s.answer(id, 0, append(make([]byte, 16), attributes(node)...))
		default:
			s.answer(id, -int32(unix.ENOSYS), nil)
		}
	}
}

func (s *silence) answer(id []byte, errno int32, body []byte) {
	head := binary.NativeEndian.AppendUint32(nil, uint32(16+len(body)))
	head = binary.NativeEndian.AppendUint32(head, uint32(errno))
	_, _ = s.dev.Write(append(append(head, id...), body...))
}

// attributes are those of a directory.
func attributes(node uint64) []byte {
	a := make([]byte, 88)
	binary.NativeEndian.PutUint64(a, node)
	binary.NativeEndian.PutUint32(a[60:], unix.S_IFDIR|0o755)
	binary.NativeEndian.PutUint32(a[64:], 2)
	return a
}

// mount puts it into a mount namespace of this thread alone.
func mount(dir string) (*silence, error) {
	if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_FS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")); err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Mount("silence", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd))
	// It can be waited for only now that it is mounted.
	return &silence{dev: os.NewFile(uintptr(fd), "fuse"), waiting: make(chan uint32, 100)}, err
}

// standIn makes a directory of it, called as if it were deleted, the working
// directory of this thread alone.
func (s *silence) standIn(dir string) (held int, err error) {
	if err := unix.Chdir(filepath.Join(dir, "x (deleted)")); err != nil {
		return -1, err
	}
	held, err = unix.Open(".", unix.O_PATH|unix.O_CLOEXEC, 0)
	s.silent.Store(true)
	return held, err
}

// A file system that never answers is asked nothing, whatever leads there; and it
// would hold whoever asked.
func TestAttack20_NothingIsAskedOfASilentFileSystem(t *testing.T) {
	if os.Geteuid() != 0 || unix.Access("/dev/fuse", unix.R_OK|unix.W_OK) != nil {
		testproc.Lacks(t, "this test mounts, so it needs root and /dev/fuse")
	}
	dir, held := t.TempDir(), 0
	up, looked := make(chan *silence, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends, and its mounts
		s, err := mount(dir)
		up <- s
		if err == nil {
			go s.serve()
			held, err = s.standIn(dir)
		}
		if err == nil {
			err = lookAround(dir, held)
		}
		looked <- err
	}()
	s := <-up
	if s == nil {
		t.Fatal(<-looked)
	}
	defer s.dev.Close()
	select {
	case op := <-s.waiting:
		t.Fatalf("request %d was sent", op)
	case err := <-looked:
		if err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _ = unix.Close(held) }()
	asked := make(chan error, 1)
	go func() { _, err := os.Stat("/proc/self/fd/" + strconv.Itoa(held)); asked <- err }()
	select {
	case <-s.waiting:
	case err := <-asked:
		t.Fatalf("the file system of this test holds nobody: %v", err)
	}
	_ = s.dev.Close()
	if err := <-asked; err == nil {
		t.Error("an answer came from nowhere")
	}
}

// lookAround looks from the thread whose working directory is there.
func lookAround(dir string, fd int) error {
	cwd, err := Link("/proc/thread-self/cwd")
	if err != nil {
		return err
	}
	if same, err := Link("/proc/self/fd/" + strconv.Itoa(fd)); err != nil || same != cwd || cwd.Ino != fuseDir {
		return fmt.Errorf("the directory is %v by its descriptor and %v as working directory: %w", same, cwd, err)
	}
	for _, path := range []string{filepath.Join(dir, "x (deleted)"), filepath.Join(dir, "y"), filepath.Join(dir, "x (deleted)", "z")} {
		if got, err := Named(path); err == nil {
			return fmt.Errorf("%q is %v, and nobody said so", path, got)
		}
		if got, err := Resolved(path); err == nil {
			return fmt.Errorf("%q leads to %q, and nobody said so", path, got)
		}
	}
	return nil
}
