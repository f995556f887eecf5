package e2e

import (
	"testing"

	"leaseguard.internal/internal/sandbox"
)

// TestRevokedWhileRecorded: a pass whose record waits for a slow disk doesn't
// leave once the lease was revoked.
func TestRevokedWhileRecorded(t *testing.T) {
	w := start(t, setting{noZVM: true, checkpoint: `self = "none"`, brokerEnv: []string{"GUARD_FAILPOINT=audit/before-sync:sleep=1s"}})
	w.approve()
	answer := w.write()
	w.Must(w.Wait(w.Ctx(), func() bool {
		st, err := w.Status(w.Ctx())
		return err == nil && st.Sessions[0].Calls == 2 // counted just before its record is written
	}))
	w.Run("revoke", w.agent.Session)
	w.expect((<-answer)[0], "deny", "lease_revoked")
}

// write makes a changing call in the background.
func (w *world) write() <-chan []sandbox.Answer {
	w.T.Helper()
	payload, err := sandbox.Payload("Write", write, 1)
	w.Must(err)
	answer := make(chan []sandbox.Answer, 1)
	go func() {
		answers, err := w.agent.Do(w.Ctx(), w.agent.Gate("decide", payload))
		if err != nil {
			w.T.Error(err)
		}
		answer <- answers
	}()
	return answer
}
