package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"leaseguard.internal/internal/clock"
)

// followEvery is how often Follow looks for new records.
const followEvery = 100 * time.Millisecond

// Read calls f for each record in dir, oldest first, with its line as it stands
// in the file; raw is valid only during the call. An unfinished last line is
// left out: its writer may still be at it. A line that is no record ends the
// reading; Verify says more about it.
func Read(dir string, f func(r Record, raw []byte) error) error {
	c := cursor{dir: dir}
	return c.pass(f)
}

// Follow does what Read does and then goes on with each record that is added,
// across rotation, until ctx ends; it then returns the context's error.
func Follow(ctx context.Context, dir string, f func(r Record, raw []byte) error) error {
	c := cursor{dir: dir}
	for {
		if err := c.pass(f); err != nil {
			return err
		}
		if err := clock.Sleep(ctx, followEvery); err != nil {
			return err
		}
	}
}

// cursor remembers how far one reader has come.
type cursor struct {
	dir    string
	first  uint64 // the segment
	offset int64
	line   int
}

// pass reads what is there beyond the cursor. The segments are listed first: a
// segment that has a successor by then is complete.
func (c *cursor) pass(f func(Record, []byte) error) error {
	firsts, err := listSegments(c.dir)
	if err != nil {
		return err
	}
	for _, first := range firsts {
		if first < c.first {
			continue
		}
		if first > c.first {
			*c = cursor{dir: c.dir, first: first}
		}
		if err := c.segment(f); err != nil {
			return err
		}
	}
	return nil
}

func (c *cursor) segment(f func(Record, []byte) error) error {
	file, err := openFile(c.dir, c.first, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // retention was faster
	}
	if err != nil {
		return err
	}
	from := c.offset
	if _, err = file.Seek(from, io.SeekStart); err == nil {
		_, err = readLines(file, func(l line) error {
			r, err := l.decode()
			if err != nil {
				return fmt.Errorf("reading %s line %d: %w; run: guard audit verify", segmentName(c.first), c.line+1, err)
			}
			if err := f(r, l.data); err != nil {
				return err
			}
			c.line, c.offset = c.line+1, from+l.end
			return nil
		})
	}
	return errors.Join(err, file.Close())
}
