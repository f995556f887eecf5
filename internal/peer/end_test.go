package peer

import (
	"context"
	"errors"
	"os"
	"testing"

	"leaseguard.internal/internal/testproc"
)

func TestWaitEnd(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		child := testproc.New(t).Start()
		p := mustOpen(t, k, child.PID)
		ended := make(chan error, 1)
		go func() { ended <- p.WaitEnd(context.Background()) }()
		child.Kill()
		if err := <-ended; err != nil {
			t.Errorf("WaitEnd of a process that ends: %v", err)
		}
		if err := p.WaitEnd(context.Background()); err != nil {
			t.Errorf("WaitEnd of a zombie: %v", err)
		}
		child.Reap(nil)
		if err := p.WaitEnd(context.Background()); err != nil {
			t.Errorf("WaitEnd of a reaped process: %v", err)
		}
	})
}

func TestWaitEndGivesUp(t *testing.T) {
	p := mustOpen(t, mustKernel(t), os.Getpid())
	before := openFiles(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.WaitEnd(ctx) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("WaitEnd = %v, want Canceled", err)
	}
	if err := p.WaitEnd(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitEnd with an ended context = %v, want Canceled", err)
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	_ = p.Close()
	if err := p.WaitEnd(context.Background()); err == nil {
		t.Error("WaitEnd of a closed process says that it has ended")
	}
	if err := (*Process)(nil).WaitEnd(context.Background()); err == nil {
		t.Error("WaitEnd of nobody says that it has ended")
	}
}
