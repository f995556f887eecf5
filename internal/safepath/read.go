package safepath

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ReadFile reads a file that passes File's test, if it has at most limit bytes.
// What is tested is the open file itself, so nothing can take its place.
func ReadFile(path string, uid uint32, limit int64) ([]byte, error) {
	b, err := read(path, uid, limit, checkFile)
	return b, wrap(path, err)
}

// ReadSecret reads a file like ReadFile, if its mode is 0600 or 0400.
func ReadSecret(path string, uid uint32, limit int64) ([]byte, error) {
	b, err := read(path, uid, limit, checkSecret)
	return b, wrap(path, err)
}

// ReadCredential reads a secret that a service manager made for us. It may be
// readable for a group, since an access list for our own uid shows as one, and
// its directory has a mode of the manager's own. Nobody but root and uid may have
// written either.
func ReadCredential(path string, uid uint32, limit int64) ([]byte, error) {
	b, err := readAt(path, uid, limit, reach, func(path string, info fs.FileInfo, uid uint32) error {
		if err := checkFile(path, info, uid); err != nil {
			return err
		}
		if info.Mode().Perm()&0o007 != 0 {
			return refuse(path, info, "a credential is for nobody else")
		}
		return nil
	})
	return b, wrap(path, err)
}

func checkSecret(path string, info fs.FileInfo, uid uint32) error {
	if err := checkFile(path, info, uid); err != nil {
		return err
	}
	if perm := info.Mode().Perm(); perm != 0o600 && perm != 0o400 {
		return refuse(path, info, "a secret has mode 0600 or 0400; run: chmod 0600 %q", path)
	}
	return nil
}

type check func(path string, info fs.FileInfo, uid uint32) error

func read(path string, uid uint32, limit int64, check check) ([]byte, error) {
	return readAt(path, uid, limit, dir, check)
}

// readAt is read where the directory is found by enter.
func readAt(path string, uid uint32, limit int64, enter func(string, uint32) (*walk, error), check check) ([]byte, error) {
	resolved, err := locate(path, uid, enter)
	if err != nil {
		return nil, err
	}
	// A look before the open gives links and devices their own refusal, and
	// keeps a device from being opened.
	if info, err := os.Lstat(resolved); err != nil {
		return nil, err
	} else if err := check(resolved, info, uid); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(resolved, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) //nolint:gosec // the caller names it; its test stands above and below
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := check(resolved, info, uid); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("file %q has more than %d bytes, which is the limit; make it shorter", resolved, limit)
	}
	return b, nil
}
