package peer

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// limitNames are the resources without which a process can't start another, as
// the kernel calls them.
var limitNames = [...]string{"processes", "open files", "stack size", "address space", "data size"}

// Limits are how much a process may have of each. Whoever runs as the same user
// may lower them, of a running process too.
type Limits [len(limitNames)]uint64

// Limits reads the process's soft limits. Everybody may.
func (p *Process) Limits() (l Limits, err error) {
	err = p.byNumber("limits", func(path string) error {
		text, err := os.ReadFile(path) // #nosec G304 -- of the kernel's own
		if err == nil {
			l, err = parseLimits(string(text))
		}
		return err
	})
	return l, err
}

// Below names a resource of which there is less than in what was; empty: none.
func (l Limits) Below(was Limits) string {
	for i, name := range limitNames {
		if l[i] < was[i] {
			return name
		}
	}
	return ""
}

// parseLimits reads the table of /proc/PID/limits.
func parseLimits(text string) (l Limits, err error) {
	for i, name := range limitNames {
		_, rest, found := strings.Cut(text, "\nMax "+name+" ")
		soft, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
		switch {
		case !found:
			return Limits{}, fmt.Errorf("reading the limit of %s: there is none", name)
		case soft == "unlimited":
			l[i] = math.MaxUint64
		default:
			if l[i], err = strconv.ParseUint(soft, 10, 64); err != nil {
				return Limits{}, fmt.Errorf("reading the limit of %s: %w", name, err)
			}
		}
	}
	return l, nil
}
