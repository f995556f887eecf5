//go:build failpoint

package broker

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"leaseguard.internal/internal/failpoint"
)

// disk stands at the broker's commit points and lets one of them be its last: it
// keeps what a kill at that moment would leave of the state directory, and fails
// all that comes after. Or it only fails that one step, as a full disk would.
type disk struct {
	dir  string
	look func(name string) // sees each point first
	stop func()            // of the watch

	committing sync.Mutex // held while the store writes: a copy in the middle would be one that no kill leaves
	inCommit   bool       // the store's own

	mu    sync.Mutex
	armed int // so many points from now
	kills bool
	point string            // where it struck; empty: not yet
	left  map[string][]byte // the state directory as the kill left it
}

var errDead = errors.New("the broker is dead")

func watchDisk(dir string, look func(name string)) *disk {
	d := &disk{dir: dir, look: look}
	d.stop = failpoint.Watch(d.hit)
	return d
}

// arm makes the n-th point from now the one.
func (d *disk) arm(n int, kills bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed, d.kills = n, kills
}

// struck says where it has struck.
func (d *disk) struck() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.point
}

// hit is called at each point, by the goroutine that got there.
func (d *disk) hit(name string) error {
	if name == "store/before-begin" {
		d.committing.Lock()
		d.inCommit = true
	}
	if name == "store/before-reply" && d.inCommit {
		defer d.committing.Unlock()
		d.inCommit = false
	}
	d.look(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left != nil {
		return errDead
	}
	if d.armed == 0 {
		return nil
	}
	if d.armed--; d.armed > 0 {
		return nil
	}
	d.point = name
	if !d.kills {
		return failpoint.ErrInjected
	}
	if filepath.Dir(name) != "store" { // which writes meanwhile
		d.mu.Unlock() // it may wait here before it gets on
		d.committing.Lock()
		defer d.committing.Unlock()
		d.mu.Lock()
	}
	d.left = d.copy()
	return errDead
}

// atRest kills the broker now, if that hasn't happened yet.
func (d *disk) atRest() {
	if d.struck() != "" {
		return
	}
	d.committing.Lock()
	defer d.committing.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == nil {
		d.point, d.left = "rest", d.copy()
	}
}

// rest copies the directory while no commit is under way.
func (d *disk) rest() map[string][]byte {
	d.committing.Lock()
	defer d.committing.Unlock()
	return d.copy()
}

// copy reads the directory: the store first, so that a head in it is never newer
// than the audit.
func (d *disk) copy() map[string][]byte {
	files := map[string][]byte{}
	for _, pattern := range []string{"guard.db", "audit/*"} {
		names, _ := filepath.Glob(filepath.Join(d.dir, pattern))
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				panic(err)
			}
			rel, _ := filepath.Rel(d.dir, name)
			files[rel] = b
		}
	}
	return files
}

// restore puts files in the place of what is there; the broker must be gone.
func (d *disk) restore(files map[string][]byte) error {
	for _, pattern := range []string{"guard.db", "audit/*"} {
		names, _ := filepath.Glob(filepath.Join(d.dir, pattern))
		for _, name := range names {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	for rel, b := range files {
		if err := os.WriteFile(filepath.Join(d.dir, rel), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// reset forgets what was armed and what it did, and returns what a kill left.
func (d *disk) reset() map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := d.left
	d.armed, d.point, d.left = 0, "", nil
	return left
}
