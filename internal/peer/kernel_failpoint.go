//go:build failpoint

package peer

import (
	"fmt"
	"os"
	"sync"
)

// kernelVar makes a program that is built with fail points behave as on an older
// kernel.
const kernelVar = "GUARD_KERNEL"

func init() {
	kernel = sync.OnceValues(func() (features, error) {
		k, err := probe()
		switch name := os.Getenv(kernelVar); name {
		case "":
		case "6.9": // before SO_PASSRIGHTS and PIDFD_GET_INFO
			k.getInfo, k.passRights = false, false
		case "5.3":
			k = features{}
		default:
			return features{}, fmt.Errorf("%s=%q names no kernel; want 6.9 or 5.3", kernelVar, name)
		}
		return k, err
	})
}
