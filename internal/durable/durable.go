// Package durable makes names of files outlive a power failure. A file's own
// sync covers its content; that it is in its directory, or no longer is, takes
// a sync of the directory.
package durable

import (
	"errors"
	"fmt"
	"os"
)

// SyncDir makes creations, renames and removals in dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // callers pass directories of guard's own
	if err != nil {
		return fmt.Errorf("syncing directory: %w", err)
	}
	if err := d.Sync(); err != nil {
		return errors.Join(fmt.Errorf("syncing directory: %w", err), d.Close())
	}
	return d.Close()
}
