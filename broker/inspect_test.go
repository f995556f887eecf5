package broker

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/broker/checkpoint"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

var stubRefusal = checkpoint.Refusal{Code: verdict.CheckpointUnsupported, Object: `VM "x"`, Cause: "why", Next: "what helps"}

// TestCheckpointByHand: an operator's checkpoint is confirmed as any other, and
// recorded whatever comes of it; it gives no session anything to reuse.
func TestCheckpointByHand(t *testing.T) {
	f := newFixture(t, nil)
	r := f.operate(wire.Control{Verb: wire.VerbCheckpoint, VM: "app-01"})
	if r.Error != nil || len(r.Checkpoints) != 1 || r.Checkpoints[0].ID != "7" {
		t.Errorf("%+v, %v", r.Checkpoints, r.Error)
	}
	if n := f.found(audit.EventBroker, "checkpoint_confirmed", ""); n != 1 {
		t.Errorf("%d records of it", n)
	}
	f.zvm.set(nil, &stubRefusal)
	r = f.operate(wire.Control{Verb: wire.VerbCheckpoint, VM: "x"})
	if codeOf(r) != verdict.CheckpointUnsupported || r.Error.Message != `guard: checkpoint_unsupported: protecting VM "x": why. Next: what helps` || r.Checkpoints != nil {
		t.Errorf("%+v, %v", r.Checkpoints, r.Error)
	}
	if n := f.found(audit.EventBroker, "checkpoint_unsupported", "why"); n != 1 {
		t.Errorf("%d records of it", n)
	}
	f.zvm.set(nil, errors.New("boom"))
	if r := f.operate(wire.Control{Verb: wire.VerbCheckpoint, VM: "x", Identifier: true}); codeOf(r) != verdict.CheckpointFailed || !strings.Contains(r.Error.Message, "boom") {
		t.Errorf("%v", r.Error)
	}
	if r := f.operate(wire.Control{Verb: wire.VerbCheckpoint}); codeOf(r) != verdict.BadRequest {
		t.Errorf("no machine: %v", r.Error)
	}
}

// TestCheckpointWithoutZVM: there is nothing to take one of.
func TestCheckpointWithoutZVM(t *testing.T) {
	f := newFixture(t, nil, func(o *Options) { o.Checkpoints = nil })
	if r := f.operate(wire.Control{Verb: wire.VerbCheckpoint, VM: "app-01"}); codeOf(r) != verdict.CheckpointFailed || !strings.Contains(r.Error.Message, "[zvm]") {
		t.Errorf("%v", r.Error)
	}
	if r := f.operate(wire.Control{Verb: wire.VerbInspect}); r.ZVM == nil || r.ZVM.URL != "" || r.ZVM.Fault != nil || len(r.ZVM.Machines) != 0 {
		t.Errorf("%+v, %v", r.ZVM, r.Error)
	}
}

// TestInspect: what the ZVM says of itself and of each machine that guard.toml
// names, each once.
func TestInspect(t *testing.T) {
	f := newFixture(t, func(c *config.Config) {
		c.Tools = []catalog.Entry{
			{Match: "mcp__a__*", Class: catalog.Mutating, VM: []string{"app-01", "db-01"}, VMKind: catalog.ByName},
			{Match: "mcp__b__*", Class: catalog.Mutating, VMArg: "vm", VMKind: catalog.ByName},
			{Match: "mcp__c__*", Class: catalog.Mutating, VM: []string{"db-01"}, VPG: "G", VMKind: catalog.ByName},
		}
	})
	f.zvm.mu.Lock()
	f.zvm.now = f.clock.Wall().Add(90 * time.Second)
	f.zvm.mu.Unlock()
	z := f.operate(wire.Control{Verb: wire.VerbInspect}).ZVM
	if z == nil || z.Fault != nil || z.SkewMS != 90_000 {
		t.Fatalf("%+v", z)
	}
	var names []string
	for _, m := range z.Machines {
		names = append(names, m.Name+" of "+m.From)
		if m.Fault != nil || len(m.VPGs) != 1 || m.VPGs[0] != "VPG-LOCAL" {
			t.Errorf("%+v", m)
		}
	}
	if got, want := strings.Join(names, ", "), "app-01 of checkpoint.self, db-01 of mcp__a__*, db-01 of mcp__c__*"; got != want {
		t.Errorf("machines %s, want %s", got, want)
	}
	now, digest := f.opt.Clock.Now(), strings.Repeat("ab", 32)
	f.proofs.keep(proved{f.opt.UID, digest}, now)
	f.proofs.keep(proved{f.opt.UID + 1, strings.Repeat("cd", 32)}, now)
	f.proofs.keep(proved{f.opt.UID, strings.Repeat("ef", 32)}, now.Add(-proofLife))
	if r := f.operate(wire.Control{Verb: wire.VerbInspect}); len(r.Proofs) != 1 || r.Proofs[0] != digest {
		t.Errorf("proofs %q", r.Proofs)
	}
	f.zvm.set(nil, &stubRefusal)
	if z := f.operate(wire.Control{Verb: wire.VerbInspect}).ZVM; z.Fault == nil || z.Fault.Next != "what helps" || len(z.Machines) != 0 {
		t.Errorf("%+v", z)
	}
	if n := f.zvm.asked(); n != 0 {
		t.Errorf("%d inserts", n)
	}
}

// TestNoSessionInspects: what an operator may ask, no process of a session may.
func TestNoSessionInspects(t *testing.T) {
	f := newFixture(t, nil)
	f.session()
	for _, verb := range []wire.Verb{wire.VerbCheckpoint, wire.VerbInspect} {
		if r := f.operate(wire.Control{Verb: verb, VM: "app-01"}); codeOf(r) != verdict.NotOperator {
			t.Errorf("%s: %v", verb, r.Error)
		}
	}
	ctl := wire.Control{Verb: wire.VerbExplain, Explain: &wire.Explain{Tool: "Bash"}}
	r, err := client.Dial(f.opt.Paths).Do(t.Context(), ctl, []byte(`{}`))
	f.must(err)
	if e := r.Explained; e.Session != f.sessions.All()[0].ID || !e.Answers[len(e.Answers)-1].Unasked || len(e.Answers[len(e.Answers)-1].Checkpoints) != 0 {
		t.Errorf("its own explanation: %+v", e)
	}
}

// TestCheckpointByHandGivenUp: who hangs up waits for no checkpoint, and holds no
// place of an operator's.
func TestCheckpointByHandGivenUp(t *testing.T) {
	f := newFixture(t, nil)
	hold := make(chan struct{})
	defer close(hold)
	f.zvm.set(hold, nil)
	text, err := json.Marshal(wire.Control{Verb: wire.VerbCheckpoint, VM: "app-01"})
	f.must(err)
	conn, err := peer.Dial(t.Context(), f.opt.Paths.OperatorSocket, f.opt.UID)
	f.must(err)
	_, err = conn.Write(wire.AppendRequest(nil, wire.Request{Kind: wire.KindControl, Control: text}))
	f.must(err)
	f.eventually("the checkpoint is under way", func() bool { return f.zvm.asked() == 1 })
	f.must(conn.Close())
	f.eventually("it is given up", func() bool { return f.found(audit.EventBroker, "checkpoint_failed", "canceled") == 1 })
}
