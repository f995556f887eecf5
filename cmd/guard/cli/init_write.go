package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
)

// oldSuffix is added to the name of a guard.toml that was replaced.
const oldSuffix = ".old"

// writeConfig puts the file in place only when the broker could start with it.
func (c Command) writeConfig(ctx context.Context, p paths.Paths, in initFlags) error {
	cfg, text, err := in.check(p)
	if err != nil {
		return err
	}
	if err := paths.EnsureDir(filepath.Dir(p.Config), uid()); err != nil {
		return err
	}
	draft, err := writeDraft(p.Config, text)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(draft) }() // gone already where it was renamed
	if _, err := config.Load(draft, p.Mode, uid()); err != nil {
		return fmt.Errorf("reading back the new guard.toml, which was not put in place: %w", err)
	}
	place := os.Link // which refuses to overwrite
	if in.force {
		if err := c.keepOld(p.Config); err != nil {
			return err
		}
		place = os.Rename
	}
	if err := place(draft, p.Config); errors.Is(err, fs.ErrExist) {
		return exists(p.Config, "guard init --force")
	} else if err != nil {
		return fmt.Errorf("writing %q: %w", p.Config, err)
	}
	return c.written(ctx, p, cfg)
}

// keepOld gives the file that is about to be replaced a second name.
func (c Command) keepOld(path string) error {
	old := path + oldSuffix
	err := os.Remove(old)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.Link(path, old)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // there is nothing to replace
	case err != nil:
		return fmt.Errorf("keeping the old guard.toml as %q: %w; nothing was replaced", old, err)
	}
	fmt.Fprintf(c.Stdout, "kept the old one as %s\n", verdict.Object(old))
	return nil
}

func writeDraft(path string, text []byte) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return "", fmt.Errorf("writing %q: %w", path, err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(f.Name()) // nothing is left to say but the error
		return "", fmt.Errorf("writing %q: %w", path, err)
	}
	return f.Name(), nil
}

// written says what was written, what it still lacks, and what comes next.
func (c Command) written(ctx context.Context, p paths.Paths, cfg *config.Config) error {
	fmt.Fprintf(c.Stdout, "wrote %s\n", verdict.Object(p.Config))
	c.lacks(cfg)
	next := "guard launch claude, or: guard launch exec -- COMMAND"
	if up, err := client.Running(ctx, p); err == nil && up {
		next = "guard broker restart"
	}
	fmt.Fprintf(c.Stdout, "Next: %s\n", next)
	return nil
}

// lacks says what can't work with this configuration.
func (c Command) lacks(cfg *config.Config) {
	switch {
	case cfg.ZVM == nil && cfg.Checkpoint.SelfNone:
		c.warn([]string{"no [zvm]: only the host's own tools can change anything, unprotected (self = \"none\")"})
	case cfg.ZVM == nil:
		c.warn([]string{"no [zvm] and no self = \"none\": every change will be denied"})
	}
}
