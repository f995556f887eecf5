package cli

import (
	"fmt"
	"io"
)

// output is stdout. It keeps the first error of a write, so that a command that
// printed into a full disk or a closed pipe ends with 3 and not with 0, without
// a check at every print.
type output struct {
	to  io.Writer
	err error
}

// Write hands on until a write has failed.
func (o *output) Write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.to.Write(p)
	if err != nil {
		o.err = fmt.Errorf("writing to stdout: %w; what was printed is not complete", err)
	}
	return n, o.err
}

// outputOf is what a command's stdout is below its output.
func outputOf(stream any) any {
	if o, ok := stream.(*output); ok {
		return o.to
	}
	return stream
}

// writerFunc is a function as a writer.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
