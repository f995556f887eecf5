//go:build failpoint

package failpoint

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"leaseguard.internal/internal/clock"
)

// Enabled says whether this program was built with fail points.
const Enabled = true

var active = sync.OnceValue(func() *set {
	s, err := parse(os.Getenv(variable))
	if err != nil {
		panic(err) // a test that crashes nowhere would prove nothing
	}
	return s
})

var watcher atomic.Pointer[func(string) error]

// Watch has look called at every point from now on, before anything else: it
// may take its time, and the error that it returns is the point's. A test that
// runs the program's code in its own process crashes or fails any step this way.
func Watch(look func(name string) error) (stop func()) {
	watcher.Store(&look)
	return func() { watcher.CompareAndSwap(&look, nil) }
}

// Hit takes the action that the environment asks for at this point.
func Hit(name string) error {
	if look := watcher.Load(); look != nil {
		if err := (*look)(name); err != nil {
			return err
		}
	}
	a, ok := active().reached(name)
	if !ok {
		return nil
	}
	switch a.kind {
	case kindKill:
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			panic(fmt.Sprintf("killing own process at %s: %v", name, err))
		}
		select {}
	case kindPanic:
		panic(fmt.Sprintf("%s: %v", name, ErrInjected))
	case kindSleep:
		return clock.Sleep(context.Background(), a.sleep)
	}
	return fmt.Errorf("%s: %w", name, ErrInjected)
}
