package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/sandbox"
	"leaseguard.internal/internal/wire"
	"leaseguard.internal/internal/zvmsim"
)

// leftRunning is what a tool can leave behind; each writes its number to PIDS.
const leftRunning = `
setsid sh -c 'sleep 1000 & echo $! >> PIDS'
trap '' TERM HUP INT; sleep 1000 & echo $! >> PIDS
sleep 1000 & echo $! >> PIDS; kill -STOP $!
(trap '' TERM; echo $(exec sh -c 'echo $PPID') >> PIDS; while [ -e GO ]; do sleep 1000; done) &
`

// leaveRunning has the session leave four processes running and returns them.
func (w *world) leaveRunning() []int {
	w.T.Helper()
	file, gone := filepath.Join(w.Dir, "pids"), filepath.Join(w.Dir, "go")
	w.Must(os.WriteFile(gone, nil, 0o600))
	w.Must(os.WriteFile(file, nil, 0o600))
	w.T.Cleanup(func() { // also of a test that failed
		_ = os.Remove(gone)
		for _, pid := range numbers(file) {
			if lives(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	script := strings.NewReplacer("PIDS", file, "GO", gone).Replace(leftRunning)
	answers, err := w.agent.Do(w.Ctx(), sandbox.Order{Argv: []string{"/bin/sh", "-c", "exec >/dev/null 2>&1 </dev/null\n" + script}})
	w.Must(err)
	if answers[0].Exit != 0 {
		w.T.Fatalf("leaving processes: %s", answers[0].Err)
	}
	w.Must(w.Wait(w.Ctx(), func() bool { return len(numbers(file)) == 4 }))
	pids := numbers(file)
	for _, pid := range pids {
		if !lives(pid) {
			w.T.Fatalf("process %d doesn't run", pid)
		}
	}
	return pids
}

// numbers are those of a file's lines that are complete.
func numbers(file string) (list []int) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		if n, err := strconv.Atoi(strings.TrimSuffix(line, "\n")); err == nil && strings.HasSuffix(line, "\n") {
			list = append(list, n)
		}
	}
	return list
}

// lives says whether the process is there and no zombie.
func lives(pid int) bool {
	st, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(st), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

func (w *world) ended(pids []int) bool {
	for _, pid := range pids {
		if lives(pid) {
			return false
		}
	}
	return true
}

// TestRevokeKill: what the session left running is gone with the answer, the
// session itself goes on, and it is on record.
func TestRevokeKill(t *testing.T) {
	w := start(t, setting{noZVM: true, checkpoint: `self = "none"`})
	w.approve()
	pids := w.leaveRunning()
	w.Run("revoke", w.agent.Session)
	if w.ended(pids[:1]) {
		t.Error("revoke alone ended it")
	}
	var out struct {
		Revoked []string     `json:"revoked"`
		Ended   []wire.Ended `json:"ended"`
	}
	w.Must(json.Unmarshal([]byte(w.Run("revoke", w.agent.Session, "--kill", "--json")), &out))
	if len(out.Ended) != 1 || out.Ended[0].Session != w.agent.Session || out.Ended[0].Fence != "sweep" || out.Ended[0].Killed < 4 || out.Ended[0].Left != 0 {
		t.Errorf("answer %+v", out)
	}
	if !w.ended(pids) {
		t.Errorf("of %v some live", pids)
	}
	w.expect(w.call("Write", write), "deny", "lease_revoked")
	again := w.leaveRunning()
	if text := w.Run("revoke", "--all", "--kill"); !strings.Contains(text, w.agent.Session+"  processes killed: ") {
		t.Errorf("the answer for people is %q", text)
	}
	if !w.ended(again) {
		t.Errorf("of %v some live", again)
	}
	w.Must(w.Wait(w.Ctx(), func() bool { return w.recorded(w.agent.Session, "tree_ended") == 2 }))
}

// TestKillSparesTheGate: a host may run a tool whose gate was killed, so a call
// that is under way gets its answer.
func TestKillSparesTheGate(t *testing.T) {
	behaviour, err := zvmsim.Preset("fast")
	if err != nil {
		t.Fatal(err)
	}
	behaviour.Latency[zvmsim.Done] = zvmsim.Fixed(time.Second)
	w := start(t, setting{sim: zvmsim.Options{Behaviour: &behaviour}})
	w.approve()
	answer := w.write()
	w.Must(w.Wait(w.Ctx(), func() bool {
		return slices.ContainsFunc(w.Sim.Requests(), func(r zvmsim.Request) bool { return r.Op == zvmsim.OpInsert })
	}))
	_, _ = w.Guard(w.Ctx(), "revoke", w.agent.Session, "--kill") // it may tell that the gate is left
	w.expect((<-answer)[0], "deny", "lease_revoked")
}

const killTools = "[session]\non_revoke = \"kill_tools\"\n"

// TestKillToolsAtAnEvent: the host's own gate tells of lost context, and what the
// session left running ends; the gate that told it has its answer.
func TestKillToolsAtAnEvent(t *testing.T) {
	w := start(t, setting{noZVM: true, checkpoint: `self = "none"`, extra: killTools})
	w.approve()
	pids := w.leaveRunning()
	a := w.raw("observe", `{"hook_event_name":"PreCompact","session_id":"scripted-conversation","trigger":"auto"}`)
	if a.Exit != 0 {
		t.Errorf("the gate ended with %d: %s", a.Exit, a.Err)
	}
	w.Must(w.Wait(w.Ctx(), func() bool { return w.ended(pids) }))
	w.Run("approve", w.agent.Session)
	w.expect(w.call("Write", write), "pass", "")
}

// TestKillToolsAtTheEndOfTheAnchor: without a cgroup, what the broker knew to be
// below the anchor ends with it.
func TestKillToolsAtTheEndOfTheAnchor(t *testing.T) {
	w := start(t, setting{noZVM: true, checkpoint: `self = "none"`, extra: killTools})
	w.approve()
	pids := w.leaveRunning()
	w.looked()
	w.agent.End()
	w.Must(w.Wait(w.Ctx(), func() bool { return w.ended(pids) }))
}

// looked returns when the broker has looked anew at what sessions have started.
// Nobody sees what it holds, but each round of it first ends the leases whose
// time is over: when a second one has been ended, the round that ended the first
// is complete.
func (w *world) looked() {
	w.T.Helper()
	other := w.launch()
	_, err := other.Call(w.Ctx(), "Read", `{"file_path":"/etc/hostname"}`)
	w.Must(err)
	for rounds := 1; rounds <= 2; rounds++ {
		w.Run("approve", other.Session, "--ttl", "1s")
		w.Must(w.Wait(w.Ctx(), func() bool { return w.recorded(other.Session, "expired") == rounds }))
	}
}

// recorded counts the session's records of a code.
func (w *world) recorded(session, code string) (n int) {
	w.T.Helper()
	w.Must(audit.Read(w.Paths.AuditDir, func(r audit.Record, _ []byte) error {
		if r.Code == code && r.Session == session {
			n++
		}
		return nil
	}))
	return n
}
