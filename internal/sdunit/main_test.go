package sdunit

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// playsBroker makes this binary a process that a service manager started. The
// variable holds the paths that it wants sockets at.
const playsBroker = "SDUNIT_PLAYS_BROKER"

// ourPID stands for the started process's own pid in LISTEN_PID.
const ourPID = "own"

func TestMain(m *testing.M) {
	if want, ok := os.LookupEnv(playsBroker); ok {
		playBroker(strings.Fields(want))
		return
	}
	goleak.VerifyTestMain(m)
}

// playBroker opens what was passed on and prints what it got, then what is left
// in the environment.
func playBroker(want []string) {
	if os.Getenv("LISTEN_PID") == ourPID {
		_ = os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	}
	m, err := Open(want...)
	switch {
	case err != nil:
		fmt.Println("error:", err)
	case m == nil:
		fmt.Println("nothing")
	default:
		fmt.Println("sockets:", slices.Sorted(maps.Keys(m.sockets)), "stored:", slices.Sorted(maps.Keys(m.stored)))
		for _, path := range want {
			if f := m.Socket(path); f != nil && m.Socket(path) != nil {
				fmt.Println("given twice")
			}
		}
		m.Close()
	}
	for _, v := range os.Environ() {
		for _, p := range []string{"LISTEN_", "NOTIFY_", "WATCHDOG_"} {
			if strings.HasPrefix(v, p) {
				fmt.Println("left:", v)
			}
		}
	}
}
