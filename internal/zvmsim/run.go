package zvmsim

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Run is `guard zvm-sim`: it starts a simulator, prints its Info to stdout as
// one JSON line, and serves until stdin ends or ctx does. A read of stdin that
// is still waiting then is left behind, so Run belongs at the end of a program.
func Run(ctx context.Context, o Options, stdin io.Reader, stdout io.Writer) error {
	s, err := Start(o)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "%s\n", jsonText(s.Info())); err != nil {
		return errors.Join(fmt.Errorf("printing the simulator's address: %w", err), s.Close())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, stdin) // an unreadable stdin is a closed one
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return s.Close()
}
