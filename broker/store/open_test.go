package store

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

func TestOpenRefusesUnsafeFiles(t *testing.T) {
	type testCase struct {
		name, want string
		make       func(t *testing.T, path string) error
	}
	write := func(path string, mode os.FileMode) error {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
		return os.Chmod(path, mode)
	}
	cases := []testCase{
		{"group may read", "its mode is 0640, want 0600; run: chmod 0600", func(_ *testing.T, p string) error { return write(p, 0o640) }},
		{"all may read", "its mode is 0604, want 0600", func(_ *testing.T, p string) error { return write(p, 0o604) }},
		{"symbolic link", "it is a symbolic link", func(_ *testing.T, p string) error {
			return errors.Join(write(p+".target", 0o600), os.Symlink(p+".target", p))
		}},
		{"dangling link", "it is a symbolic link", func(_ *testing.T, p string) error { return os.Symlink(p+".target", p) }},
		{"hard link", "it has 2 names", func(_ *testing.T, p string) error {
			return errors.Join(write(p+".other", 0o600), os.Link(p+".other", p))
		}},
		{"directory", "is a directory", func(_ *testing.T, p string) error { return os.Mkdir(p, 0o700) }},
		{"pipe", "want a regular file", func(_ *testing.T, p string) error { return unix.Mkfifo(p, 0o600) }},
		{"no directory", "no such file or directory", func(_ *testing.T, p string) error { return os.Remove(filepath.Dir(p)) }},
	}
	if os.Geteuid() == 0 {
		cases = append(cases, testCase{"another's", "its owner is uid 12345, want 0; run: chown 0", func(_ *testing.T, p string) error {
			return errors.Join(write(p, 0o600), os.Chown(p, 12345, -1))
		}})
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state", "guard.db")
			if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), tt.make(t, path)); err != nil {
				t.Fatal(err)
			}
			s, aside, err := OpenOrSetAside(path, testWall)
			if err == nil {
				closeStore(t, s)
			}
			if aside != nil {
				t.Errorf("it was set aside as %q", aside.Path)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), `opening store "`+path) {
				t.Errorf("Open: %v, want an error with path and %q", err, tt.want)
			}
		})
	}
}

func TestOpenMakesPrivateFile(t *testing.T) {
	s := newStore(t)
	info, err := os.Lstat(s.path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v; want -rw-------", info.Mode(), err)
	}
}

func TestB1_NetworkFileSystemsByName(t *testing.T) {
	for magic, name := range map[uint32]string{0x6969: "NFS", 0xff534d42: "CIFS", 0x65735546: "FUSE", 0x01021997: "9P"} {
		if err := checkType(magic); err == nil || !strings.Contains(err.Error(), "it is on "+name+",") {
			t.Errorf("checkType(%#x) = %v, want a refusal that names %s", magic, err, name)
		}
	}
	for _, magic := range []uint32{unix.EXT4_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC} {
		if err := checkType(magic); err != nil {
			t.Errorf("checkType(%#x) = %v, want none", magic, err)
		}
	}
}

// A file system whose flock or statfs never returns ends Open in bounded time.
func TestB1_BlockedFileSystem(t *testing.T) {
	block := make(chan struct{})
	late := newStore(t)
	closedLate := make(chan struct{})
	_, err := bounded("/nfs/guard.db", 10*time.Millisecond, func() (*Store, error) {
		defer close(closedLate)
		<-block
		return late, nil
	})
	if err == nil || !strings.Contains(err.Error(), `"/nfs/guard.db"`) || !strings.Contains(err.Error(), "didn't answer") {
		t.Errorf("bounded: %v", err)
	}
	close(block)
	<-closedLate
}

// A process that holds the lock for ever is named.
func TestB1_LockHolderIsNamed(t *testing.T) {
	s := newStore(t)
	put(t, s, testToken(1))
	closeStore(t, s)
	c := startChild(t, "hold", s.path)
	c.expect(t, "held")
	for name, open := range map[string]func(string) (*Store, error){"Open": Open, "OpenReadOnly": look} {
		_, err := open(s.path)
		if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "process "+strconv.Itoa(c.cmd.Process.Pid)+" (") || !strings.Contains(err.Error(), s.path) {
			t.Errorf("%s: %v, want ErrLocked with path and process %d", name, err, c.cmd.Process.Pid)
		}
	}
	c.kill(t)
	s = reopen(t, s.path) // the kernel frees a dead holder's lock
	if _, err := s.ConsumeToken(t.Context(), at(testToken(1), 1)); err != nil {
		t.Error(err)
	}
}

// look opens a store of this uid's for reading.
func look(path string) (*Store, error) { return OpenReadOnly(path, self()) }

func TestOpenReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guard.db")
	if _, err := look(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v, want ErrNotExist", err)
	}
	s := reopen(t, path)
	put(t, s, testToken(1))
	closeStore(t, s)
	s, err := look(path)
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	second, err := look(path)
	if err != nil {
		t.Fatalf("two readers: %v", err)
	}
	closeStore(t, second)
	if _, found, err := s.LookupToken(testToken(1).Hash); !found || err != nil {
		t.Errorf("LookupToken = %t, %v", found, err)
	}
	if err := s.PutToken(t.Context(), testToken(2)); !errors.Is(err, ErrReadOnly) {
		t.Errorf("write: %v, want ErrReadOnly", err)
	}
}

// A newer guard's file is refused by name, and stays where it is: that guard may
// be back tomorrow. What no guard ever wrote as a layout is damage.
func TestOtherLayouts(t *testing.T) {
	for found, want := range map[string]error{"2": ErrNewer, "65535": ErrNewer, "": ErrDamaged, "0": ErrDamaged, "-1": ErrDamaged, "01": ErrDamaged, "one": ErrDamaged, "70000": ErrDamaged} {
		s := newStore(t)
		if err := s.write(t.Context(), "test", func(tx *bolt.Tx) error {
			return tx.Bucket(bucketMeta).Put(keySchema, []byte(found))
		}); err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
		again, aside, err := OpenOrSetAside(s.path, testWall)
		if errors.Is(want, ErrNewer) {
			if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "its layout is "+found+", and this one knows 1") {
				t.Errorf("layout %q: %v, want a refusal by name", found, err)
			}
			continue
		}
		if err != nil || aside == nil || !errors.Is(aside.Cause, ErrDamaged) {
			t.Fatalf("layout %q: %+v, %v; want it set aside", found, aside, err)
		}
		closeStore(t, again)
	}
}

// A file of a later bbolt is whole and of a later version, and stays as well.
func TestNewerFileFormatIsRefused(t *testing.T) {
	b := filled(t)
	for at := 0; at <= os.Getpagesize(); at += os.Getpagesize() {
		m := b[at+pageHeader:]
		binary.NativeEndian.PutUint32(m[4:], boltVersion+1)
		sum := fnv.New64a()
		_, _ = sum.Write(m[:56])
		binary.NativeEndian.PutUint64(m[56:], sum.Sum64())
	}
	path := filepath.Join(t.TempDir(), "guard.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenOrSetAside(path, testWall); !errors.Is(err, ErrNewer) {
		t.Errorf("OpenOrSetAside: %v, want ErrNewer", err)
	}
}

// FuzzFindLock: the text comes from the kernel, but in formats of many versions.
func FuzzFindLock(f *testing.F) {
	f.Add([]byte("1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 99 fe:00:5678 0 EOF\n"))
	f.Add([]byte("2: POSIX  ADVISORY  READ  -1 00:1c:9 0 EOF"))
	f.Add([]byte("1: FLOCK ADVISORY WRITE x fe:00:5678"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if pid, ok := findLock(text, 0xfe, 0, 5678); ok && pid <= 0 {
			t.Errorf("pid %d", pid)
		}
	})
}

func TestFindLock(t *testing.T) {
	text := "1: POSIX  ADVISORY  WRITE 1 fe:00:5678 0 EOF\n2: FLOCK  ADVISORY  WRITE -1 fe:00:5678 0 EOF\n" +
		"3: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF\n"
	if pid, ok := findLock([]byte(text), 0xfe, 0, 5678); pid != 1234 || !ok {
		t.Errorf("findLock = %d, %t", pid, ok)
	}
	if _, ok := findLock([]byte(text), 0xfe, 1, 5678); ok {
		t.Error("a lock of another device's file")
	}
}

// command runs the test binary as a child that plays role.
func command(role, path string, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childRole+"="+role, childPath+"="+path), env...)
	cmd.Stderr = os.Stderr
	return cmd
}
