package peer

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// TestAttack02_SlowFork: two processes with the same pid that began within one
// tick of the start time, as far as this machine lets us choose, are two. The
// number of pidfs tells them apart (fill); where there is none, the held pidfd,
// which has ended.
func TestAttack02_SlowFork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, as which CI runs it: only root chooses pids")
	}
	onKernels(t, func(t *testing.T, k features) {
		same := 0
		for try := 0; same < 3 && try < 150; try++ {
			first := exec.Command("sleep", "60")
			if err := first.Start(); err != nil {
				t.Fatal(err)
			}
			held, err := open(k, first.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			start := held.StartTime()
			_ = first.Process.Kill()
			_ = first.Wait()
			if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", fmt.Append(nil, held.PID()-1), 0); err != nil {
				t.Fatal(err)
			}
			second := exec.Command("sleep", "60")
			if err := second.Start(); err != nil {
				t.Fatal(err)
			}
			if p := mustOpen(t, k, second.Process.Pid); p.PID() == held.PID() && p.StartTime() == start {
				same++
				if k.pidfs && p.ID().Same(held.ID()) {
					t.Errorf("two processes are one: %v", p.ID())
				}
				if held.Alive() {
					t.Error("the dead one lives")
				}
			}
			_ = second.Process.Kill()
			_ = second.Wait()
			_ = held.Close()
		}
		if same == 0 {
			t.Error("no pid was had again within a tick")
		}
	})
}
