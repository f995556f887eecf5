package runtime

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/verdict"
)

// remoteSettings is the client's own copy of settings that its service sends to
// the members of an organisation. The client believes the copy when the service
// can't be asked, whoever wrote it, and it can switch hooks off. The proof runs
// against a model on loopback, where the client takes no such settings: so what
// is in force in the session would not be what was proved.
const remoteSettings = "remote-settings.json"

// maxRemote is more than an empty copy has.
const maxRemote = 64

// CheckRemote refuses a launch while the user's directory of Claude holds a copy
// of remote settings that says anything.
func (u User) CheckRemote() error {
	path := filepath.Join(filepath.Dir(u.SettingsFile), remoteSettings)
	cause := "it could switch the gate off in the session, and no proof sees it"
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0) // #nosec G304 -- where the client looks for it
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil:
		defer func() { _ = f.Close() }()
		text, readErr := io.ReadAll(io.LimitReader(f, maxRemote+1))
		if readErr == nil && len(text) <= maxRemote && bytes.Equal(bytes.TrimSpace(text), []byte("{}")) {
			return nil
		}
	default:
		cause = err.Error()
	}
	return refuse(verdict.WiringUnproved, "proving the client beside remote settings in", path, cause, "look at the file and remove it: rm "+shellWord(path))
}
