package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/wire"
)

// crashPoints are the places between begin and VERIFIED, in their order, where
// the broker is killed with SIGKILL.
var crashPoints = []string{
	"broker/begun", "broker/token-stored", "broker/promoting", "broker/consumed", "broker/recorded", "broker/before-verified", "broker/verified",
}

// commitPoints are those of store and audit. They are met at many commits, so
// the n-th time counts; some n may come after the promotion.
var commitPoints = []string{"store/before-begin", "store/before-commit", "store/after-commit", "store/before-reply", "audit/before-write", "audit/before-sync", "audit/after-sync"}

// startCommits is how often a first start writes to the store before a session
// can: this run is noted, the audit is empty, this run is on record.
const startCommits = 3

// TestAttack16_KilledBetweenBeginAndVerified: wherever the broker dies, afterwards no
// token is usable, nobody is VERIFIED, the audit is whole, and a record of a
// grant is never there without its consumed token.
func TestAttack16_KilledBetweenBeginAndVerified(t *testing.T) {
	for _, point := range crashPoints {
		t.Run(strings.ReplaceAll(point, "/", " "), func(t *testing.T) { crash(t, point+":kill", true) })
	}
	for _, point := range commitPoints {
		from := 3
		if strings.HasPrefix(point, "store/") {
			from += startCommits
		}
		for n := from; n < from+3; n++ {
			spec := fmt.Sprintf("%s:kill@%d", point, n)
			t.Run(strings.ReplaceAll(spec, "/", " "), func(t *testing.T) { crash(t, spec, false) })
		}
	}
}

func crash(t *testing.T, spec string, certain bool) {
	w := prepare(t, setting{noZVM: true, checkpoint: `self = "none"`})
	w.Must(w.StartBroker(w.Ctx(), "GUARD_FAILPOINT="+spec))
	w.agent = w.launch()
	w.call("Read", `{}`) // passes, unless the broker is dead by now
	if st, err := w.Status(w.Ctx()); err == nil && st.Broker.PID != w.BrokerPID() {
		return // it died before there was a session, and guard launch has started another
	}
	token := ""
	if res, err := w.operate(wire.VerbVerify, ""); err == nil {
		token = res.Grant.Token
		if _, err := w.operate(wire.VerbPromote, token); err == nil && certain {
			t.Fatal("the promotion was answered by a broker that should be dead")
		}
	}
	if !certain {
		w.Must(syscall.Kill(w.BrokerPID(), syscall.SIGKILL))
	}
	if code := w.WaitBroker(); code != -1 {
		t.Fatalf("the broker ended with %d instead of being killed", code)
	}
	w.Must(w.StartBroker(w.Ctx()))
	st, err := w.Status(w.Ctx())
	w.Must(err)
	if len(st.Sessions) != 1 || st.Sessions[0].State != "UNVERIFIED" || st.Sessions[0].ID != w.agent.Session {
		t.Fatalf("after the restart: %+v", st.Sessions)
	}
	w.expect(w.call("Write", write), "deny", "lease_unverified")
	if token != "" {
		if r := w.promote(w.agent.Session, token); r == "" {
			t.Fatal("a token survived the crash")
		} else if granted(w) && !strings.Contains(r, "token_used") {
			t.Errorf("the grant is on record, but its token wasn't consumed: %s", r)
		}
	}
	w.Run("audit", "verify")
	w.Run("approve", w.agent.Session)
	w.expect(w.call("Write", write), "pass", "")
}

// granted says whether a promotion stands in the audit.
func granted(w *world) (found bool) {
	w.T.Helper()
	w.Must(audit.Read(w.Paths.AuditDir, func(r audit.Record, _ []byte) error {
		found = found || r.Event == audit.EventLease && r.Code == "promote"
		return nil
	}))
	return found
}

// TestRestartTakesAllAuthority: an orderly restart brings sessions back under
// their ids, UNVERIFIED.
func TestRestartTakesAllAuthority(t *testing.T) {
	w := start(t, setting{noZVM: true, checkpoint: `self = "none"`})
	w.approve()
	w.expect(w.call("Write", write), "pass", "")
	w.Run("broker", "stop")
	if code := w.WaitBroker(); code != 0 {
		t.Fatalf("guard broker stop ended the broker with %d", code)
	}
	if got, detail := w.call("Read", `{}`).Read(); got != "deny" || !strings.Contains(detail, "broker_unavailable") {
		t.Fatalf("with no broker: %s %s", got, detail)
	}
	w.Must(w.StartBroker(w.Ctx()))
	w.expect(w.call("Write", write), "deny", "lease_unverified")
	w.Run("approve", w.agent.Session)
	w.expect(w.call("Write", write), "pass", "")
}
