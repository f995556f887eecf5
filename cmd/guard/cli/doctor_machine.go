package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
)

// sudoTime bounds the question whether sudo asks for a password.
const sudoTime = 5 * time.Second

// sudoPlaces are where systems have sudo. PATH is not searched: a program of that
// name there may be somebody else's.
var sudoPlaces = []string{"/usr/bin/sudo", "/bin/sudo", "/usr/local/bin/sudo", "/run/wrappers/bin/sudo"}

// sudo says whether this user becomes root for the asking: then so does an agent
// that runs as this user, and nothing of guard's holds it.
func (d *doctor) sudo() {
	if uid() == 0 {
		d.ok("sudo", "this is root; run guard doctor as the user that agents run as, too: it matters whether sudo asks that one")
		return
	}
	free, err := freeSudo(d.ctx, sudoPlaces)
	who := fmt.Sprintf("uid %d", uid())
	fix := fmt.Sprintf("sudo -l shows the rule; take NOPASSWD for uid %d out of /etc/sudoers and /etc/sudoers.d by visudo", uid())
	switch {
	case err != nil:
		d.unknown("sudo", saidOnce(err), "sudo -n true")
	case !free:
		d.ok("sudo", who+" is not root without a password")
	case d.paths.Mode == paths.System:
		d.fail("sudo", who+" is root without a password (sudo -n true), and so is an agent that runs as it", fix)
	default:
		d.warned("sudo", who+" is root without a password (sudo -n true), and so is an agent that runs as it", fix)
	}
}

// freeSudo runs "sudo -n true" in a process session without a terminal, where no
// password can be asked for.
func freeSudo(ctx context.Context, places []string) (bool, error) {
	for _, path := range places {
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, sudoTime)
		defer cancel()
		cmd := exec.CommandContext(ctx, path, "-n", "true") // #nosec G204 -- one of a few fixed names
		cmd.Dir, cmd.Env, cmd.WaitDelay = "/", []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}, time.Second
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		err := cmd.Run()
		switch {
		case ctx.Err() != nil:
			return false, fmt.Errorf("asking %s: it didn't answer within %v", verdict.Object(path), sudoTime)
		case err == nil:
			return true, nil
		case errors.As(err, new(*exec.ExitError)):
			return false, nil
		}
		return false, fmt.Errorf("asking %s: %w", verdict.Object(path), err)
	}
	return false, nil // nor is there a sudo
}

// journalSocket is journald's.
const journalSocket = "/run/systemd/journal/socket"

// journal says whether the audit's events show up there too.
func (d *doctor) journal() {
	_, err := os.Lstat(journalSocket)
	switch {
	case d.status != nil && d.status.Broker.JournalLost > 0:
		d.warned("journal", "it lacks "+count(d.status.Broker.JournalLost, "event")+", which the audit has", "guard log has them; systemctl status systemd-journald says what is wrong there")
	case err == nil:
		d.ok("journal", "journald takes the audit's events too")
	case d.paths.Mode == paths.System && paths.Managed():
		d.warned("journal", "journald is not there: "+verdict.Clean(err.Error()), "systemctl start systemd-journald")
	default:
		d.ok("journal", "no journald here; the audit has every event")
	}
}
