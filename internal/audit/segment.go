package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/durable"
)

const (
	namePrefix = "audit-"
	nameSuffix = ".jsonl"
	nameDigits = 20 // as many as a uint64 has, so that names sort by number
)

// segmentName names the segment that begins with record first.
func segmentName(first uint64) string {
	return fmt.Sprintf("%s%0*d%s", namePrefix, nameDigits, first, nameSuffix)
}

// parseName is the reverse of segmentName.
func parseName(name string) (first uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return 0, false
	}
	first, err := strconv.ParseUint(strings.TrimSuffix(digits, nameSuffix), 10, 64)
	if err != nil || first == 0 || segmentName(first) != name {
		return 0, false
	}
	return first, true
}

// listSegments returns the first numbers of the segments in dir, oldest first.
func listSegments(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing audit segments: %w", err)
	}
	var firsts []uint64
	for _, e := range entries {
		if first, ok := parseName(e.Name()); ok {
			firsts = append(firsts, first)
		}
	}
	slices.Sort(firsts)
	return firsts, nil
}

// openFile opens one segment and refuses what isn't a plain file: a link or a
// pipe of that name would send the audit elsewhere or block its reader.
func openFile(dir string, first uint64, flags int, perm os.FileMode) (*os.File, error) {
	path := filepath.Join(dir, segmentName(first))
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, perm) //nolint:gosec // a fixed name in the broker's own directory
	if err != nil {
		return nil, fmt.Errorf("opening audit segment: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("opening audit segment %q: it is %s, want a regular file; move it away", path, info.Mode().Type())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// segment is the one that is being written.
type segment struct {
	file  *os.File
	size  int64
	seq   uint64 // of the last line that was added
	prev  string // its hash
	buf   []byte // added and not yet written
	dirty bool   // written and not yet synced
}

// inPlace makes sure that the file is still the one under its name: records in a
// file that somebody removed or replaced are on no disk that anyone will read.
func (s *segment) inPlace() error {
	held, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("looking at the audit segment: %w", err)
	}
	named, err := os.Lstat(s.file.Name())
	if err != nil {
		return fmt.Errorf("looking for the audit segment: %w", err)
	}
	if !os.SameFile(held, named) {
		return fmt.Errorf("audit segment %q was replaced while it was written", s.file.Name())
	}
	return nil
}

// add appends one record to the buffer.
func (s *segment) add(body []byte) Head {
	from := len(s.buf)
	s.buf = seal(s.buf, body, s.seq+1, s.prev)
	s.seq, s.prev = s.seq+1, hashLine(s.buf[from:len(s.buf)-1])
	return Head{Seq: s.seq, Hash: s.prev}
}

func (s *segment) write() error {
	n, err := s.file.Write(s.buf)
	s.size += int64(n)
	s.dirty = true
	if cap(s.buf) > 2*batchBytes {
		s.buf = nil
	}
	s.buf = s.buf[:0]
	if err != nil {
		return fmt.Errorf("appending: %w", err)
	}
	return nil
}

func (s *segment) sync() error {
	if err := unix.Fdatasync(int(s.file.Fd())); err != nil {
		return fmt.Errorf("syncing %q: %w", s.file.Name(), err)
	}
	s.dirty = false
	return nil
}

// next closes the segment and creates the one that goes on from it.
func (s *segment) next(dir string) error {
	if err := s.close(); err != nil {
		return err
	}
	return s.create(dir)
}

// create makes the file for the record after s.seq. It and its name are on
// disk before anything is written to it.
func (s *segment) create(dir string) error {
	perm, err := filePerm(dir)
	if err != nil {
		return err
	}
	f, err := openFile(dir, s.seq+1, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if err := f.Chmod(perm); err != nil { // the umask may have taken the group's right to read
		return errors.Join(fmt.Errorf("setting mode of audit segment: %w", err), f.Close())
	}
	s.file, s.size, s.dirty = f, 0, false
	return durable.SyncDir(dir)
}

func (s *segment) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	if err != nil {
		return fmt.Errorf("closing audit segment: %w", err)
	}
	return nil
}

// filePerm gives segments the rights of their directory: the audit group of
// system mode may read both, in user mode the owner alone.
func filePerm(dir string) (os.FileMode, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return 0, fmt.Errorf("opening audit directory: %w", err)
	}
	if !info.IsDir() {
		return 0, fmt.Errorf("opening audit directory %q: it is %s, want a directory; move it away", dir, info.Mode().Type())
	}
	return info.Mode().Perm() & 0o640, nil
}
