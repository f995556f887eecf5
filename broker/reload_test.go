package broker

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"leaseguard.internal/broker/lease"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// file is guard.toml as a test would have it read again.
type file struct {
	config *config.Config
	zvm    Checkpoints
	err    error
	closed atomic.Int32 // services of earlier readings that were ended
}

func (c *file) load() (Loaded, error) {
	return Loaded{Config: c.config, Checkpoints: c.zvm, Close: func() { c.closed.Add(1) }}, c.err
}

// same is the configuration of a fixture once more, as another value.
func same(change func(*config.Config)) *config.Config {
	c := config.Default()
	c.Identity.AllowRootSessions = true
	c.Checkpoint.Self = []string{"app-01"}
	if change != nil {
		change(c)
	}
	return c
}

func newReloaded(t *testing.T) (*fixture, *file) {
	t.Helper()
	c := &file{config: same(nil)}
	f := newFixture(t, nil, func(o *Options) { o.Reload = c.load })
	c.zvm = f.zvm
	return f, c
}

// reason is why the session's lease is down.
func (f *fixture) cause(id string) lease.Cause {
	return f.sessions.ByID(id).Lease(f.clock.Now()).Cause()
}

// records returns the codes of what the audit has of the broker itself.
func (f *fixture) brokerCodes() (codes []string) {
	f.t.Helper()
	f.must(f.audit.Flush(f.t.Context()))
	f.must(audit.Read(f.opt.Paths.AuditDir, func(r audit.Record, _ []byte) error {
		if r.Event == audit.EventBroker {
			codes = append(codes, r.Code)
		}
		return nil
	}))
	return codes
}

// What has changed is in force at once, and nothing that was granted before is.
func TestReloadLowersEveryLease(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"an unlisted tool": func(c *config.Config) { c.Checkpoint.Unlisted = "deny" },
		"the catalog": func(c *config.Config) {
			c.Tools = []catalog.Entry{{Match: "mcp__x__y", Class: catalog.ReadOnly, VMKind: catalog.ByName}}
		},
		"what isn't used now": func(c *config.Config) { c.Launch.Unproved = "end" },
	} {
		t.Run(name, func(t *testing.T) {
			f, c := newReloaded(t)
			s := f.verified()
			f.expect(f.ask("Write"), "")
			c.config = same(change)
			f.must(f.Reload())
			if f.settings().config != c.config {
				t.Error("the old settings are in force")
			}
			if got := f.cause(s.ID); got != lease.Reloaded {
				t.Errorf("cause %v", got)
			}
			f.expect(f.ask("Write"), string(verdict.LeaseRevoked))
			if st := f.status(nil).Broker; st.ConfigError != "" {
				t.Errorf("config error %q", st.ConfigError)
			}
			if codes := f.brokerCodes(); !slices.Contains(codes, "reloaded") {
				t.Errorf("the audit has %q", codes)
			}
		})
	}
}

// A secret that was renewed, or an edit of comments, costs no lease; calls go to
// the new service, and the old one is ended.
func TestReloadWithoutEffectKeepsLeases(t *testing.T) {
	f, c := newReloaded(t)
	moved := func(line int) func(*config.Config) {
		return func(c *config.Config) {
			c.Tools = []catalog.Entry{{Match: "mcp__x__y", Class: catalog.ReadOnly, VMKind: catalog.ByName, Line: line}}
		}
	}
	c.config = same(moved(3))
	f.must(f.Reload())
	s := f.verified()
	next := &stubZVM{}
	c.config, c.zvm = same(moved(9)), next
	f.must(f.Reload())
	if st := f.sessions.ByID(s.ID).Lease(f.clock.Now()).State(); st != lease.Verified {
		t.Fatalf("the lease is %v, %v", st, f.cause(s.ID))
	}
	f.expect(f.ask("Write"), "")
	if next.asked() != 1 || f.zvm.asked() != 0 {
		t.Errorf("asked the new service %d times, the old one %d times", next.asked(), f.zvm.asked())
	}
	f.eventually("the service of the reading before is ended", func() bool { return c.closed.Load() == 1 })
}

// What can't be taken over changes nothing, and is said everywhere.
func TestReloadThatFailsKeepsTheOld(t *testing.T) {
	f, c := newReloaded(t)
	s := f.verified()
	before := f.settings()
	bad := same(nil)
	bad.Tools = []catalog.Entry{{Match: "x"}, {Match: "x"}}
	for name, broken := range map[string]struct {
		config *config.Config
		err    error
		want   string
	}{
		"a file that is refused":    {same(nil), errors.New("guard.toml:4: lease.ttl: out of range"), "guard.toml:4"},
		"a catalog that is refused": {bad, nil, "catalog"},
	} {
		c.config, c.err = broken.config, broken.err
		if err := f.Reload(); err == nil || !strings.Contains(err.Error(), broken.want) {
			t.Errorf("%s: %v", name, err)
		}
		if f.settings() != before || f.sessions.ByID(s.ID).Lease(f.clock.Now()).State() != lease.Verified {
			t.Errorf("%s: something changed", name)
		}
		if got := f.status(nil).Broker.ConfigError; !strings.Contains(got, broken.want) {
			t.Errorf("%s: status says %q", name, got)
		}
	}
	f.expect(f.ask("Write"), "")
	if codes := f.brokerCodes(); !slices.Contains(codes, "reload_failed") || slices.Contains(codes, "reloaded") {
		t.Errorf("the audit has %q", codes)
	}
	c.config, c.err = same(nil), nil
	f.must(f.Reload())
	if got := f.status(nil).Broker.ConfigError; got != "" {
		t.Errorf("after a good one status says %q", got)
	}
	if c.closed.Load() < 1 {
		t.Error("the service of a reading that was refused goes on")
	}
}

func TestReloadWithoutAFile(t *testing.T) {
	f := newFixture(t, nil)
	if err := f.Reload(); err == nil {
		t.Error("reloaded nothing")
	}
}

// A call that is judged by the old settings doesn't pass under the new ones, also
// when no lease fell: its checkpoint is of a service that may be wrong by now.
func TestReloadDuringACall(t *testing.T) {
	f, c := newReloaded(t)
	f.verified()
	hold := make(chan struct{})
	f.zvm.set(hold, nil)
	answer := make(chan wire.Reply, 1)
	go func() { answer <- f.ask("Write") }()
	f.eventually("the call waits for its checkpoint", func() bool { return f.zvm.asked() == 1 })
	c.config = same(nil)
	f.must(f.Reload())
	close(hold)
	f.expect(<-answer, string(verdict.LeaseRevoked))
}

// A grant that waits while the settings are replaced is taken back: by the
// lowering if something has changed, else by itself.
func TestReloadDuringAGrant(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"with effect":    func(c *config.Config) { c.Checkpoint.NoVM = "deny" },
		"without effect": nil,
	} {
		t.Run(name, func(t *testing.T) {
			f, c := newReloaded(t)
			s := f.session()
			f.expect(f.ask("Read"), "")
			unlock := f.sessions.ByID(s.ID).Commit()
			result := make(chan wire.Result, 1)
			ctl := wire.Control{Verb: wire.VerbApprove, Session: s.ID}
			for _, name := range f.settings().config.Lease.Context {
				ctl.Documents = append(ctl.Documents, wire.Document{Name: name, Missing: true})
			}
			go func() { result <- f.verb(t.Context(), ctl, nil) }()
			f.eventually("the approval waits for its turn", func() bool { return waitsIn("session.(*Session).Commit") })
			c.config = same(change)
			f.must(f.Reload())
			unlock()
			r := <-result
			if r.Error == nil || r.Error.Code != string(verdict.LeaseRevoked) {
				t.Errorf("the approval was answered %+v, %v", r.Grant, r.Error)
			}
			if st := f.sessions.ByID(s.ID).Lease(f.clock.Now()).State(); st != lease.Unverified {
				t.Errorf("the lease is %v", st)
			}
			if r := f.approve(s.ID); r.Error != nil {
				t.Errorf("the next approval: %v", r.Error)
			}
		})
	}
}

// waitsIn says whether a goroutine stands in the function.
func waitsIn(function string) bool {
	stacks := make([]byte, 1<<20)
	return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte(function+"("))
}

// Limits follow too.
func TestReloadTakesLimits(t *testing.T) {
	f, c := newReloaded(t)
	f.session()
	c.config = same(func(c *config.Config) { c.Limits.Payload = 64 << 10 })
	f.must(f.Reload())
	big := `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Read","tool_input":{"x":"` + strings.Repeat("x", 65<<10) + `"}}`
	f.expect(f.send(wire.Request{Kind: wire.KindEvent, Host: wire.HostClaude, Role: wire.RoleDecide, Body: []byte(big)}), string(verdict.Malformed))
}
