package lease_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/internal/clock"
)

// The model plays the broker around the machine: a token store and an audit
// whose writes are separate steps that can fail or be cut by a crash, and a
// memory that a crash loses. What reliability.md calls P1 to P7 is checked
// after every step.
type model struct {
	now      clock.Instant
	lease    lease.Lease
	epoch    int
	disk     map[lease.Hash]*row // durable: survives crashes
	grants   map[lease.Hash]bool // durable audit records of grants, by token
	minted   []lease.Hash
	inFlight *flight
	next     byte

	grantedAt clock.Instant
	ttl       time.Duration
	by        lease.Hash // the token behind the present VERIFIED
	highest   uint64     // generation
	uses      map[lease.Hash]int
}

type row struct{ consumed bool }

// flight is a promotion or renewal between its event and its completion.
type flight struct {
	token    lease.Hash
	cycle    uint64
	lowered  uint64
	renewal  bool
	consumed bool
	recorded bool
}

var binding = lease.Hash{9}

func newModel() *model {
	return &model{now: 1, lease: lease.New(1), highest: 1, disk: map[lease.Hash]*row{}, grants: map[lease.Hash]bool{}, uses: map[lease.Hash]int{}}
}

func (m *model) apply(t *rapid.T, ev lease.Event) ([]lease.Effect, error) {
	before := m.lease.At(m.now).State()
	next, effects, err := lease.Apply(m.lease, ev, m.now)
	if err != nil && next.State() == lease.Verified && before != lease.Verified {
		t.Fatalf("P6: %T failed with %v and left the lease VERIFIED", ev, err)
	}
	m.lease = next
	return effects, err
}

func (m *model) mint() lease.Hash {
	m.next++
	h := lease.Hash{m.next, 1}
	m.minted = append(m.minted, h)
	return h
}

func (m *model) Begin(t *rapid.T) {
	if m.next > 250 || m.inFlight != nil {
		return
	}
	ttl := time.Duration(rapid.IntRange(-1, 301).Draw(t, "ttl")) * time.Second
	h := m.mint()
	if _, err := m.apply(t, lease.Begin{TTL: &ttl, Max: lease.MaxTTL, Binding: binding, Token: h}); err != nil {
		if ttl > 0 && ttl <= lease.MaxTTL {
			t.Fatalf("begin with %v: %v", ttl, err)
		}
		return
	}
	m.ttl = ttl
	if rapid.Bool().Draw(t, "stored") {
		m.disk[h] = &row{}
		return
	}
	m.lower(t, lease.PromotionFailed)
}

// Present shows any token that was ever minted, as an attacker might.
func (m *model) Present(t *rapid.T) {
	if len(m.minted) == 0 || m.inFlight != nil {
		return
	}
	h := rapid.SampledFrom(m.minted).Draw(t, "token")
	gen := m.lease.Generation() + uint64(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "generation off by"))
	cycle := m.lease.Cycle()
	effects, err := m.apply(t, lease.Promote{Token: h, Binding: binding, Generation: gen})
	if err == nil {
		m.inFlight = &flight{token: h, cycle: cycle, lowered: m.lease.Lowerings()}
		return
	}
	for _, e := range effects {
		if e == lease.BurnToken && m.disk[h] != nil {
			m.disk[h].consumed = true
		}
	}
	if r := m.disk[h]; r != nil && r.consumed {
		_, _ = m.apply(t, lease.Replay{})
		if m.lease.State() != lease.Unverified {
			t.Fatal("the use of a consumed token left authority")
		}
	}
}

// Verify goes the straight way up to the commit's steps, which other actions
// then take, fail or cut short.
func (m *model) Verify(t *rapid.T) {
	if m.next > 250 || m.inFlight != nil {
		return
	}
	m.GateSeen(t)
	ttl := time.Duration(rapid.IntRange(1, 300).Draw(t, "ttl")) * time.Second
	h := m.mint()
	if _, err := m.apply(t, lease.Begin{TTL: &ttl, Max: lease.MaxTTL, Binding: binding, Token: h}); err != nil {
		t.Fatalf("begin with %v: %v", ttl, err)
	}
	m.ttl, m.disk[h] = ttl, &row{}
	if _, err := m.apply(t, lease.Promote{Token: h, Binding: binding, Generation: m.lease.Generation()}); err != nil {
		t.Fatalf("promoting: %v", err)
	}
	m.inFlight = &flight{token: h, cycle: m.lease.Cycle(), lowered: m.lease.Lowerings()}
}

// Grant goes the whole straight way.
func (m *model) Grant(t *rapid.T) {
	m.Verify(t)
	m.Finish(t)
}

// Finish takes all steps that are left, if none fails.
func (m *model) Finish(t *rapid.T) {
	for m.inFlight != nil {
		m.Commit(t)
	}
}

func (m *model) Renew(t *rapid.T) {
	if m.next > 250 || m.inFlight != nil || m.lease.At(m.now).State() != lease.Verified {
		return
	}
	h := m.mint()
	if _, err := m.apply(t, lease.MintRenewal{Token: h}); err != nil {
		t.Fatalf("minting a renewal: %v", err)
	}
	m.disk[h] = &row{}
	if _, err := m.apply(t, lease.Renew{Token: h, Binding: binding, Generation: m.lease.Generation()}); err != nil {
		t.Fatalf("renewing: %v", err)
	}
	m.inFlight = &flight{token: h, cycle: m.lease.Cycle(), lowered: m.lease.Lowerings(), renewal: true}
}

// Commit takes the next step of what is in flight; each can fail.
func (m *model) Commit(t *rapid.T) {
	f := m.inFlight
	if f == nil {
		return
	}
	if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
		m.fail(t)
		return
	}
	switch {
	case !f.consumed:
		r := m.disk[f.token]
		if r == nil || r.consumed {
			m.fail(t)
			return
		}
		r.consumed, f.consumed = true, true
		m.uses[f.token]++
	case !f.recorded:
		m.grants[f.token], f.recorded = true, true
	default:
		m.inFlight = nil
		var ev lease.Event = lease.Promoted{Cycle: f.cycle}
		if f.renewal {
			ev = lease.Renewed{Cycle: f.cycle}
		}
		if _, err := m.apply(t, ev); err == nil {
			if m.lease.Lowerings() != f.lowered {
				t.Fatal("P5: a grant survived what lowered the lease while it was written")
			}
			m.grantedAt, m.by = m.now, f.token
		}
	}
}

// fail ends what is in flight. Whether the write reached the disk is unknown.
func (m *model) fail(t *rapid.T) {
	f := m.inFlight
	m.inFlight = nil
	if r := m.disk[f.token]; r != nil && rapid.Bool().Draw(t, "the failed write reached the disk") && !r.consumed {
		r.consumed = true
		m.uses[f.token]++
	}
	var ev lease.Event = lease.PromoteFailed{Cycle: f.cycle}
	if f.renewal {
		ev = lease.RenewFailed{Cycle: f.cycle}
	}
	_, _ = m.apply(t, ev) // refused when something else lowered the lease before
	if m.lease.State() == lease.Verified {
		t.Fatal("P6: a failed commit left the lease VERIFIED")
	}
}

func (m *model) lower(t *rapid.T, c lease.Cause) {
	before := m.lease.Lowerings()
	if _, err := m.apply(t, lease.Lower{Cause: c}); err != nil {
		t.Fatalf("lowering failed: %v", err)
	}
	if m.lease.State() != lease.Unverified || m.lease.Lowerings() <= before {
		t.Fatal("P5: a decision after a revocation would not see it")
	}
}

func (m *model) Revoke(t *rapid.T)   { m.lower(t, lease.Revoked) }
func (m *model) Observe(t *rapid.T)  { m.lower(t, lease.Observed) }
func (m *model) GateSeen(t *rapid.T) { _, _ = m.apply(t, lease.GateSeen{}) }
func (m *model) Sweep(t *rapid.T)    { _, _ = m.apply(t, lease.Tick{}) }

// Time passes; a suspended machine jumps.
func (m *model) Time(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.SampledFrom([]int64{1, 999, 1000, 59_999, 60_000, 299_999, 300_000, 10_800_000}).Draw(t, "ms")) * time.Millisecond)
}

func (m *model) Relaunch(t *rapid.T) {
	if _, err := m.apply(t, lease.Generation{Number: m.lease.Generation() + 1}); err != nil {
		t.Fatalf("a new generation: %v", err)
	}
	if m.lease.Generation() <= m.highest || m.lease.GateSeen() {
		t.Fatal("P7: the generation didn't rise, or kept its gate")
	}
	m.highest = m.lease.Generation()
}

// Crash loses the memory, at any point between two steps.
func (m *model) Crash(t *rapid.T) {
	m.epoch++
	m.inFlight = nil
	m.lease = lease.New(m.highest)
	if rapid.Bool().Draw(t, "gate remembered") {
		_, _ = m.apply(t, lease.GateSeen{})
	}
	if m.lease.State() != lease.Unverified {
		t.Fatal("P4: authority after a start")
	}
}

// check holds after every step.
func (m *model) check(t *rapid.T) {
	for h, n := range m.uses {
		if n > 1 {
			t.Fatalf("P1: token %v was consumed %d times", h[0], n)
		}
	}
	l := m.lease.At(m.now)
	if l.State() != lease.Verified {
		if l.Left(m.now) != 0 {
			t.Fatal("a lease without authority has time left")
		}
		return
	}
	if r := m.disk[m.by]; r == nil || !r.consumed || !m.grants[m.by] {
		t.Fatal("P2: VERIFIED without a consumed token and its record on disk")
	}
	if age := m.now.Sub(m.grantedAt); age >= lease.MaxTTL || age >= m.ttl {
		t.Fatalf("P3: still VERIFIED %v after the grant, with a TTL of %v", age, m.ttl)
	}
}

// TestMain asks for more than the library's defaults; flags on the command line
// still win.
func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", "500")
	_ = flag.Set("rapid.steps", "50")
	os.Exit(m.Run())
}

func TestPromisesOfMachineAndStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		t.Repeat(map[string]func(*rapid.T){
			"begin": m.Begin, "present": m.Present, "present again": m.Present, "renew": m.Renew,
			"verify": m.Verify, "verify again": m.Verify, "commit": m.Commit, "commit on": m.Commit,
			"finish": m.Finish, "grant": m.Grant, "grant again": m.Grant, "time goes on": m.Time, "gate": m.GateSeen,
			"revoke": m.Revoke, "observe": m.Observe, "sweep": m.Sweep, "time": m.Time,
			"relaunch": m.Relaunch, "crash": m.Crash, "": m.check,
		})
	})
}
