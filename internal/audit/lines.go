package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// line is one complete line of a segment, without its newline.
type line struct {
	data []byte // valid until the next line is read
	end  int64  // offset behind the newline, from where reading began
	long bool   // over MaxRecord; data is its beginning
}

// readLines calls f for each complete line. What follows the last newline is
// unfinished: its size is returned, and a writer may be at it right now.
func readLines(r io.Reader, f func(line) error) (unfinished int64, err error) {
	br := bufio.NewReaderSize(r, MaxRecord+1)
	var l line
	for {
		data, err := br.ReadSlice('\n')
		size := int64(len(data))
		l.long = errors.Is(err, bufio.ErrBufferFull)
		if l.long {
			data = append([]byte(nil), data...)
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			var more []byte
			more, err = br.ReadSlice('\n')
			size += int64(len(more))
		}
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return 0, fmt.Errorf("reading audit: %w", err)
		}
		l.data, l.end = data, l.end+size
		if !l.long {
			l.data = data[:len(data)-1]
		}
		if err := f(l); err != nil {
			return 0, err
		}
	}
}

// decode reads the line as a record.
func (l line) decode() (Record, error) {
	if l.long {
		return Record{}, fmt.Errorf("%w: over %d bytes", ErrMalformed, MaxRecord)
	}
	return DecodeRecord(l.data)
}
