package peer

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestPrivileged(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		self := mustOpen(t, k, os.Getpid())
		if got, err := self.Privileged(); err != nil || got != (os.Geteuid() == 0) {
			t.Errorf("uid %d: Privileged = %v, %v", os.Geteuid(), got, err)
		}
		cmd := exec.Command("cat")
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ordinary := mustOpen(t, k, cmd.Process.Pid)
		if got, err := ordinary.Privileged(); err != nil || got {
			t.Errorf("uid %d: Privileged = %v, %v", ordinary.UID(), got, err)
		}
		_ = stdin.Close()
		_ = cmd.Wait()
		if got, err := ordinary.Privileged(); err == nil || !got {
			t.Errorf("a process that has ended: Privileged = %v, %v; want an error and true", got, err)
		}
	})
}
