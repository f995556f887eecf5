package hookrun

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/wire"
)

// maxFile bounds a file that a hook runs. It has to be hashed for each call.
const maxFile = 512 << 20

// errChanged: what would run isn't what was trusted.
var errChanged = errors.New("it isn't what was trusted")

// Digest hashes what a definition would run: its command, and each argument that
// is the absolute path of a regular file.
func Digest(command string, args []string) ([]wire.HookFile, error) {
	var files []wire.HookFile
	err := eachFile(command, args, func(n int, f *os.File) error {
		stamp := ""
		if fixed(f) {
			stamp = stampOf(f)
		}
		sum, err := copyOut(context.Background(), f, io.Discard)
		if stampOf(f) != stamp {
			stamp = ""
		}
		files = append(files, wire.HookFile{Arg: n, SHA256: sum, Stamp: stamp})
		return err
	})
	return files, err
}

// eachFile opens what a definition runs.
func eachFile(command string, args []string, use func(n int, f *os.File) error) error {
	for n, path := range append([]string{command}, args...) {
		f, err := openFile(path)
		switch {
		case err == nil:
		case n > 0 && (errors.Is(err, errNoFile) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENAMETOOLONG)):
			continue // an argument like any other
		default:
			return fmt.Errorf("opening %q: %w: %w", path, errUnopened, err)
		}
		err = use(n, f)
		_ = f.Close()
		if err != nil {
			return fmt.Errorf("%q: %w", path, err)
		}
	}
	return nil
}

// errUnopened: who may write a directory can have any of its files opened no more.
var errUnopened = errors.New("it is not there to be run")

var errNoFile = errors.New("it is no absolute path of a regular file")

// openFile opens a regular file, and nothing else: a device is never opened, a
// pipe never waited for.
func openFile(path string) (*os.File, error) {
	if !filepath.IsAbs(path) {
		return nil, errNoFile
	}
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(at) }()
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errNoFile
	}
	fd, err := unix.Open(ownFD(at), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("it can't be read, so that nobody can tell what it is: %w", err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

func ownFD(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// copyOut copies a file and returns its hash.
func copyOut(ctx context.Context, f *os.File, to io.Writer) (string, error) {
	h := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(h, to), io.LimitReader(interruptible{ctx, f}, maxFile+1), make([]byte, 256<<10))
	if err == nil && n > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (r interruptible) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

// pinned is a hook whose files are those that were trusted.
type pinned struct {
	argv  []string
	files []*os.File // the command, then what arguments name by descriptor
}

// firstFD is the descriptor that files[0] has in the hook.
const firstFD = 3

func (p *pinned) close() {
	for _, f := range p.files {
		_ = f.Close()
	}
}

// pin opens what the hook runs and holds it, so that it can't change any more.
func pin(ctx context.Context, h wire.Hook) (*pinned, error) {
	p := &pinned{argv: append([]string{h.Command}, h.Args...)}
	want := map[int]wire.HookFile{}
	for _, f := range h.Files {
		want[f.Arg] = f
	}
	err := eachFile(h.Command, h.Args, func(n int, f *os.File) error {
		held, sum, err := hold(ctx, f, n == 0, want[n])
		if held != nil {
			if n > 0 {
				p.argv[n] = ownFD(firstFD + len(p.files))
			}
			p.files = append(p.files, held)
		}
		if err == nil && (sum == "" || want[n].SHA256 != sum) {
			err = errChanged
		}
		delete(want, n)
		return err
	})
	if errors.Is(err, errUnopened) && len(h.Files) > 0 { // it could be when it was trusted
		err = fmt.Errorf("%w: %w", errChanged, err)
	}
	if err == nil && len(want) > 0 {
		err = fmt.Errorf("a file of its arguments is gone: %w", errChanged)
	}
	if err == nil {
		err = checkInterpreter(p.files[0])
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func dup(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// seal copies a file into memory that nobody can change any more.
func seal(ctx context.Context, f *os.File) (*os.File, string, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("hook", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("hook", flags)
	}
	if err != nil {
		return nil, "", fmt.Errorf("making memory to run it from: %w", err)
	}
	mem := os.NewFile(uintptr(fd), f.Name())
	sum, err := copyOut(ctx, f, mem)
	if err == nil {
		_, err = unix.FcntlInt(mem.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err == nil {
		_, err = mem.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = sameMode(f, mem)
	}
	if err != nil {
		_ = mem.Close()
		return nil, "", err
	}
	return mem, sum, nil
}

// sameMode lets the copy be executed where its original may be.
func sameMode(f, mem *os.File) error {
	if unix.Access(ownFD(int(f.Fd())), unix.X_OK) == nil {
		return mem.Chmod(0o500)
	}
	return mem.Chmod(0o400)
}

// checkInterpreter refuses a script whose interpreter others than root can change.
func checkInterpreter(f *os.File) error {
	var head [256]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	line, script := bytes.CutPrefix(head[:n], []byte("#!"))
	if !script {
		return nil
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 || !filepath.IsAbs(words[0]) {
		return errors.New("its first line names no interpreter by an absolute path")
	}
	if !onlyRoots(words[0]) {
		return fmt.Errorf("others than root can change its interpreter %q: name that one as the command, and the script as its argument", words[0])
	}
	return nil
}
