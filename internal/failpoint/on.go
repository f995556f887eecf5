//go:build failpoint

package failpoint

import (
	"context"
	"fmt"
	"os"
	"sync"
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

// Hit takes the action that the environment asks for at this point.
func Hit(name string) error {
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
