package recovery

import (
	"context"
	"fmt"

	"leaseguard.internal/internal/peer"
)

// WithParent returns a context that ends with the process that started us.
func WithParent(ctx context.Context) (context.Context, context.CancelFunc, error) {
	self, err := peer.Self()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = self.Close() }()
	parent, err := self.Parent()
	if err != nil {
		return nil, nil, fmt.Errorf("finding the host: %w; guard mcp is started by a host, as its child", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel() // also when the parent can't be watched
		defer func() { _ = parent.Close() }()
		_ = parent.WaitEnd(ctx)
	}()
	return ctx, func() { cancel(); <-ended }, nil
}
