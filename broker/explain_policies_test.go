package broker

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"leaseguard.internal/broker/policy"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/wire"
)

// userHooks puts the user's policy hooks beside guard.toml.
func (f *fixture) userHooks(text string) {
	f.t.Helper()
	dir := filepath.Dir(f.opt.Paths.Config)
	f.must(os.MkdirAll(dir, 0o700))
	f.must(os.WriteFile(filepath.Join(dir, "hooks.json"), []byte(text), 0o600))
	f.definitions.Renew()
}

// TestExplainNamesPolicies: what a call meets beside lease and checkpoint is told
// for a session and for anybody, and nothing of it is asked.
func TestExplainNamesPolicies(t *testing.T) {
	const hooks = `{"version":1,"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"id":"a","type":"command","command":"/bin/true"}]}]}}`
	hook := func(becomes string) []wire.ForeseenPolicy {
		return []wire.ForeseenPolicy{{Kind: "hook", ID: "a", Source: "user", Becomes: becomes}}
	}
	tests := []struct {
		name, file, untrusted, tool string
		trust                       bool
		want                        []wire.ForeseenPolicy
	}{
		{"no hooks", "", "deny", "Bash", false, []wire.ForeseenPolicy{}},
		{"nobody trusts it", hooks, "deny", "Bash", false, hook(wire.PolicyDenies)},
		{"nobody needs to", hooks, "skip", "Bash", false, hook(wire.PolicySkipped)},
		{"trusted", hooks, "deny", "Bash", true, hook(wire.PolicyAsked)},
		{"another tool", hooks, "deny", "Edit", false, []wire.ForeseenPolicy{}},
		{"denied anyway", hooks, "deny", "mcp__v__off", false, []wire.ForeseenPolicy{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, func(c *config.Config) {
				explaining(c)
				c.Hooks.Untrusted = tt.untrusted
			})
			if tt.file != "" {
				f.userHooks(tt.file)
			}
			if tt.trust {
				key := f.definitions.List(policy.Look{}).Definitions[0].Key
				f.hooksDo(wire.VerbHooksTrust, wire.HooksRequest{Key: key, Files: []wire.HookFile{{SHA256: strings.Repeat("0", 64)}}}, "", "", "")
			}
			s := f.session()
			own := f.explained(wire.Explain{Tool: tt.tool, Dir: "/"}, `{"vm":{}}`)
			ctl := wire.Control{Verb: wire.VerbExplain, Explain: &wire.Explain{Tool: tt.tool}}
			all := f.explain(context.Background(), nil, nil, ctl, []byte(`{"vm":{}}`), f.look)
			if own.Explained.Session != s.ID || !reflect.DeepEqual(own.Explained.Policies, tt.want) || !reflect.DeepEqual(all.Explained.Policies, tt.want) {
				t.Errorf("a session is told %+v, anybody %+v, want %+v", own.Explained.Policies, all.Explained.Policies, tt.want)
			}
		})
	}
}

// TestExplainNamesHooksThatCannotBeRead, which deny what changes something.
func TestExplainNamesHooksThatCannotBeRead(t *testing.T) {
	f := newFixture(t, explaining)
	f.userHooks("{")
	f.session()
	own := f.explained(wire.Explain{Tool: "Bash", Dir: "/"}, `{}`)
	ctl := wire.Control{Verb: wire.VerbExplain, Explain: &wire.Explain{Tool: "Bash"}}
	for _, e := range []*wire.Explained{own.Explained, f.explain(context.Background(), nil, nil, ctl, []byte(`{}`), f.look).Explained} {
		if len(e.Policies) != 1 || e.Policies[0].Becomes != wire.PolicyUnknown || e.Policies[0].Fault == "" {
			t.Errorf("told %+v", e.Policies)
		}
	}
}
