//go:build kills

package kills

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/sandbox/sandboxtest"
	"leaseguard.internal/internal/wire"
)

// TestKilledUnderLoad kills the broker 200 times while sessions make changes and
// operators approve, promote, renew and revoke.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	all := ledger{tokens: map[string]string{}, accepted: map[string]int{}}
	t.Run("worlds", func(t *testing.T) {
		for n := range sandboxtest.Size(10, 50) {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				killOften(t, rand.New(rand.NewPCG(seed, uint64(n))), &all)
			})
		}
	})
	t.Logf("%d kills: %d changes passed, %d tokens minted, %d accepted, %d grants renewed or approved, %d revoked",
		all.kills, len(all.passes), len(all.tokens), len(all.accepted), all.granted, all.revoked)
	for what, n := range map[string]int{"passes": len(all.passes), "accepted tokens": len(all.accepted), "grants": all.granted, "revocations": all.revoked} {
		if n < all.kills/2 {
			t.Errorf("only %d %s in %d runs: there was no load", n, what, all.kills)
		}
	}
}

// killOften takes one world through 20 brokers.
func killOften(t *testing.T, random *rand.Rand, all *ledger) {
	w := start(t, 3)
	for range sandboxtest.Size(20, 40) {
		l := newLedger(w)
		l.run(random.IntN(4) == 0, time.Duration(random.IntN(100))*time.Millisecond, w.KillBroker)
		w.Must(w.StartBroker(w.Ctx()))
		l.judge()
		all.add(l)
		if t.Failed() {
			return
		}
	}
}

// ledger is what clients saw of one broker.
type ledger struct {
	w *world

	mu       sync.Mutex
	kills    int
	passes   []string          // tool use ids of changes that passed
	tokens   map[string]string // minted, with their session
	accepted map[string]int    // tokens, by how often
	granted  int
	revoked  int
}

func newLedger(w *world) *ledger {
	return &ledger{w: w, tokens: map[string]string{}, accepted: map[string]int{}}
}

var uses struct {
	sync.Mutex
	n int
}

func newUse() string {
	uses.Lock()
	defer uses.Unlock()
	uses.n++
	return fmt.Sprint("toolu_", uses.n)
}

// run loads the broker and ends it so long after its first grants, or after its
// first request if it is early.
func (l *ledger) run(early bool, d time.Duration, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	for i, id := range l.w.ids {
		for range 3 {
			work.Go(func() { l.repeat(ctx, func() bool { return l.change(id) }) })
		}
		work.Go(func() { l.repeat(ctx, func() bool { return l.raise(id) }) })
		if i < 2 {
			work.Go(func() { l.repeat(ctx, func() bool { return l.revoke(i == 0, id) }) })
		}
	}
	if !early {
		l.w.Must(l.w.Wait(l.w.Ctx(), l.busy))
	}
	time.Sleep(d) // how long is what the test varies
	end()
	cancel()
	work.Wait()
	l.kills = 1
}

func (l *ledger) passed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.passes)
}

// busy says whether there were grants and a pass.
func (l *ledger) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.passes) > 0 && l.granted > 0
}

// repeat does it until the broker is gone.
func (l *ledger) repeat(ctx context.Context, do func() bool) {
	for ctx.Err() == nil && do() {
	}
}

func (l *ledger) change(id string) bool {
	use := newUse()
	out, _, err := l.w.call(id, "Write", use)
	if err != nil {
		l.w.T.Error(err)
	}
	if out == passed {
		l.mu.Lock()
		l.passes = append(l.passes, use)
		l.mu.Unlock()
	}
	return out == passed || out == refused
}

// raise takes all ways to a lease, one after the other.
func (l *ledger) raise(id string) bool {
	for _, verb := range []wire.Verb{wire.VerbApprove, wire.VerbRenew} {
		if out, _ := l.w.operate(wire.Control{Verb: verb, Session: id}); out == passed {
			l.mu.Lock()
			l.granted++
			l.mu.Unlock()
		}
	}
	out, text := l.w.operate(wire.Control{Verb: wire.VerbVerify, Session: id})
	if out == passed {
		l.mu.Lock()
		l.tokens[text] = id
		l.mu.Unlock()
		var both sync.WaitGroup // one token, two clients
		for range 2 {
			both.Go(func() { l.present(id, text) })
		}
		both.Wait()
	}
	return out == passed || out == refused
}

func (l *ledger) present(id, text string) {
	if out, _ := l.w.operate(wire.Control{Verb: wire.VerbPromote, Session: id, Token: text}); out == passed {
		l.mu.Lock()
		l.accepted[text]++
		l.mu.Unlock()
	}
}

func (l *ledger) revoke(all bool, id string) bool {
	for before, n := l.passed(), 0; l.passed() < before+3 && n < 50; n++ {
		time.Sleep(2 * time.Millisecond) // else nothing else gets through
	}
	ctl := wire.Control{Verb: wire.VerbRevoke, Session: id}
	if all {
		ctl = wire.Control{Verb: wire.VerbRevoke, All: true}
	}
	out, _ := l.w.operate(ctl)
	if out == passed {
		l.mu.Lock()
		l.revoked++
		l.mu.Unlock()
	}
	return out == passed || out == refused
}

// judge holds what was seen against what the next broker has.
func (l *ledger) judge() {
	w := l.w
	st, err := w.Status(w.Ctx())
	w.Must(err)
	if len(st.Sessions) != len(w.ids) || st.Broker.StoreError+st.Broker.AuditError+st.Broker.AuditFault != "" {
		w.T.Errorf("after a kill: %d sessions, %+v", len(st.Sessions), st.Broker)
	}
	for _, s := range st.Sessions {
		if s.State != "UNVERIFIED" || !s.GateSeen || !s.Launched {
			w.T.Errorf("after a kill: %+v", s)
		}
	}
	for text, id := range l.tokens {
		if l.accepted[text] > 1 {
			w.T.Errorf("a token was accepted %d times", l.accepted[text])
		}
		if out, code := w.operate(wire.Control{Verb: wire.VerbPromote, Session: id, Token: text}); out != refused || l.accepted[text] > 0 && code != "token_used" {
			w.T.Errorf("a token that was accepted %d times before the kill: %s %s", l.accepted[text], out, code)
		}
	}
	if _, err := w.Guard(w.Ctx(), "audit", "verify"); err != nil {
		w.T.Errorf("after a kill: %v", err)
	}
	recorded := map[string]bool{}
	w.Must(audit.Read(w.Paths.AuditDir, func(r audit.Record, _ []byte) error {
		if r.Event == audit.EventVerdict && r.Verdict == "pass" {
			recorded[r.ToolUse] = true
		}
		return nil
	}))
	for _, use := range l.passes {
		if !recorded[use] {
			w.T.Errorf("change %s passed, and no record tells of it", use)
		}
	}
}

// add sums up.
func (l *ledger) add(o *ledger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kills, l.granted, l.revoked, l.passes = l.kills+o.kills, l.granted+o.granted, l.revoked+o.revoked, append(l.passes, o.passes...)
	for text, id := range o.tokens {
		l.tokens[text] = id
	}
	for text, n := range o.accepted {
		l.accepted[text] += n
	}
}
