//go:build hosts

package hosts

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
)

// hole is one way in which a client runs a tool although a hook is there, and
// what became of it. Rows of the table in docs/hosts.md come from here alone.
type hole struct {
	Host    string `json:"host"`    // claude, claudex, pi, codex
	Version string `json:"version"` // of the client
	ID      string `json:"id"`      // stable, such as project_disable_all_hooks
	What    string `json:"what"`    // one line for people
	State   string `json:"state"`   // closed, compensated, open
	By      string `json:"by"`      // what closes or compensates it; when open, what to do about it
	Test    string `json:"test"`
	Nightly bool   `json:"nightly,omitzero"` // only GUARD_SIZE=nightly tries it
}

// row is one of a client that runs here.
func row(runtime, id, what, state, by string) hole {
	return hole{ID: id, What: what, State: state, By: by}.of(runtime)
}

// of makes a hole one of a client; it is closed, unless it says otherwise.
func (h hole) of(runtime string) hole {
	h.Host, h.Version, h.State = runtime, versions[runtime], cmp.Or(h.State, "closed")
	return h
}

// report writes the row down once the test has shown it. A test that failed
// reports nothing, so its row is missing and the table doesn't agree. Two tests
// can't report one row: the one that is slower would hide the other.
func (h hole) report(t *testing.T) {
	t.Helper()
	h.Test = t.Name()
	t.Cleanup(func() {
		dir := os.Getenv("GUARD_HOLES")
		if dir == "" || t.Failed() || t.Skipped() {
			return
		}
		row, err := json.Marshal(h)
		if err != nil {
			t.Error(err)
			return
		}
		f, err := os.OpenFile(filepath.Join(dir, h.Host+"-"+h.Version+"-"+h.ID+".json"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			t.Error(err)
			return
		}
		_, err = f.Write(row)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Error(err)
		}
	})
}
