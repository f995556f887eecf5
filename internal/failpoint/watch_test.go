//go:build failpoint

package failpoint

import (
	"errors"
	"testing"
)

func TestWatch(t *testing.T) {
	var seen []string
	stop := Watch(func(name string) error {
		seen = append(seen, name)
		if name == "watched/off" {
			return ErrInjected
		}
		return nil
	})
	if err := Hit("watched/on"); err != nil {
		t.Errorf("a point that the watcher lets pass: %v", err)
	}
	if err := Hit("watched/off"); !errors.Is(err, ErrInjected) {
		t.Errorf("a point that the watcher fails: %v", err)
	}
	stop()
	if err := Hit("watched/off"); err != nil || len(seen) != 2 {
		t.Errorf("after the end of the watch: %v, %q", err, seen)
	}
}
