package dialect

import (
	"encoding/json"
	"strings"
	"testing"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

var everyVerdict = []verdict.Verdict{
	{}, {Kind: verdict.Deny, Reason: denied}, {Kind: verdict.Ask, Reason: asked}, {Kind: verdict.Ask}, {Kind: verdict.Pass},
	{Kind: verdict.Pass, Context: saved}, {Kind: 9, Reason: denied},
	{Kind: verdict.Deny, Reason: strings.Repeat("\x1b\u2028\"\\\xff é", 300)}, {Kind: verdict.Pass, Context: strings.Repeat("\"\\\n", 4_000)},
}

const (
	denied = `guard: lease_unverified: running "Bash": the lease is UNVERIFIED. Next: guard approve s1`
	asked  = `guard: vm_missing: running "Bash": no machine is named. Next: confirm in the host`
	saved  = `guard: "app-01" can be rewound`

	jsonDenied = `"guard: lease_unverified: running \"Bash\": the lease is UNVERIFIED. Next: guard approve s1"`
	jsonAsked  = `"guard: vm_missing: running \"Bash\": no machine is named. Next: confirm in the host"`
)

// The exact bytes, by the forms that were measured to block, ask or pass.
func TestRenderGolden(t *testing.T) {
	call := Event{Kind: ToolCall, Name: "PreToolUse"}
	skill := Event{Kind: ToolCall, Name: "PreSkillShellCommand"}
	config, prompt := Event{Kind: ConfigChange, Name: "ConfigChange"}, Event{Kind: Prompt, Name: "UserPromptSubmit"}
	ran := Event{Kind: Observer, Name: "PostToolUse"}
	deny, ask := verdict.Verdict{Reason: denied}, verdict.Verdict{Kind: verdict.Ask, Reason: asked}
	pass, context := verdict.Verdict{Kind: verdict.Pass}, verdict.Verdict{Kind: verdict.Pass, Context: saved}
	hook := func(event, rest string) string {
		return `{"hookSpecificOutput":{"hookEventName":"` + event + `",` + rest + `}}`
	}
	const denies, reason = `"permissionDecision":"deny","permissionDecisionReason":`, `{"decision":"block","reason":`
	const internal = `"guard: internal: judging the call: no reason came with the verdict `
	for _, tc := range []struct {
		name string
		host wire.Host
		role wire.Role
		ev   Event
		v    verdict.Verdict
		out  string
		err  string
	}{
		{"deny", wire.HostClaude, wire.RoleDecide, call, deny, hook("PreToolUse", denies+jsonDenied), denied + "\n"},
		{"deny of a skill", wire.HostClaude, wire.RoleDecide, skill, deny, hook("PreSkillShellCommand", denies+jsonDenied), denied + "\n"},
		{"deny of settings", wire.HostClaude, wire.RoleDecide, config, deny, reason + jsonDenied + `}`, denied + "\n"},
		{"deny of a prompt", wire.HostClaude, wire.RoleDecide, prompt, deny, reason + jsonDenied + `}`, denied + "\n"},
		{"deny of what wasn't parsed", wire.HostClaude, wire.RoleDecide, Event{}, deny, hook("PreToolUse", denies+jsonDenied), denied + "\n"},
		{"pass", wire.HostClaude, wire.RoleDecide, call, pass, `{}`, ""},
		{"pass of settings", wire.HostClaude, wire.RoleDecide, config, pass, `{}`, ""},
		{"pass of a prompt", wire.HostClaude, wire.RoleDecide, prompt, pass, `{}`, ""},
		{"pass with context", wire.HostClaude, wire.RoleDecide, call, context, hook("PreToolUse", `"additionalContext":"guard: \"app-01\" can be rewound"`), ""},
		{"pass of a skill: context unmeasured", wire.HostClaude, wire.RoleDecide, skill, context, `{}`, ""},
		{"told after a call", wire.HostClaude, wire.RoleObserve, ran, context, hook("PostToolUse", `"additionalContext":"guard: \"app-01\" can be rewound"`), ""},
		{"told after a call of Codex's", wire.HostCodex, wire.RoleObserve, ran, context, hook("PostToolUse", `"additionalContext":"guard: \"app-01\" can be rewound"`), ""},
		{"told after a call of Pi's", wire.HostPi, wire.RoleObserve, Event{Kind: Observer, Name: "tool_result"}, context, `{"pass":true,"context":"guard: \"app-01\" can be rewound"}`, ""},
		{"nothing to tell", wire.HostClaude, wire.RoleObserve, ran, pass, "", ""},
		{"told of another event", wire.HostClaude, wire.RoleObserve, Event{Kind: Observer, Name: "PreCompact"}, context, "", ""},
		{"a denial after a call", wire.HostClaude, wire.RoleObserve, ran, deny, "", ""},
		{"ask", wire.HostClaude, wire.RoleDecide, call, ask, hook("PreToolUse", `"permissionDecision":"ask","permissionDecisionReason":`+jsonAsked), ""},
		{"ask of a skill: unmeasured", wire.HostClaude, wire.RoleDecide, skill, ask, hook("PreSkillShellCommand", denies+jsonAsked), asked + "\n"},
		{"ask of settings", wire.HostClaude, wire.RoleDecide, config, ask, reason + jsonAsked + `}`, asked + "\n"},
		{"zero verdict", wire.HostClaude, wire.RoleDecide, call, verdict.Verdict{},
			hook("PreToolUse", denies+internal+`deny. Next: guard log"`), "guard: internal: judging the call: no reason came with the verdict deny. Next: guard log\n"},
		{"pass of what wasn't parsed", wire.HostClaude, wire.RoleDecide, Event{}, pass,
			hook("PreToolUse", denies+internal+`pass. Next: guard log"`), "guard: internal: judging the call: no reason came with the verdict pass. Next: guard log\n"},
		{"observer", wire.HostClaude, wire.RoleObserve, Event{Kind: Observer, Name: "PreCompact"}, deny, "", ""},
		{"observer that wasn't parsed", wire.HostClaude, wire.RoleObserve, Event{}, deny, "", ""},
		{"deny for Codex", wire.HostCodex, wire.RoleDecide, Event{}, deny, hook("PreToolUse", denies+jsonDenied), denied + "\n"},
		{"ask for Codex", wire.HostCodex, wire.RoleDecide, Event{}, ask, hook("PreToolUse", denies+jsonAsked), asked + "\n"},
		{"pass for no host", wire.HostNone, wire.RoleDecide, call, pass,
			hook("PreToolUse", denies+internal+`pass. Next: guard log"`), "guard: internal: judging the call: no reason came with the verdict pass. Next: guard log\n"},
		{"no host", wire.HostNone, wire.RoleDecide, call, deny, hook("PreToolUse", denies+jsonDenied), denied + "\n"},
		{"no role", wire.HostClaude, wire.RoleNone, call, deny, hook("PreToolUse", denies+jsonDenied), denied + "\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := Render(tc.host, tc.role, tc.ev, tc.v)
			if string(r.Out) != tc.out || string(r.Err) != tc.err {
				t.Errorf("stdout %s\nwant   %s\nstderr %q\nwant   %q", r.Out, tc.out, r.Err, tc.err)
			}
			if want := tc.err != ""; (r.Exit == exitDeny) != want || r.Exit != 0 && !want {
				t.Errorf("status %d", r.Exit)
			}
		})
	}
}

// Whatever is rendered, the host gets one document and one of two statuses, and
// nothing but a pass or a measured ask has status 0.
func TestRenderFailsClosed(t *testing.T) {
	for _, host := range []wire.Host{wire.HostNone, wire.HostClaude, 9} {
		for _, role := range []wire.Role{wire.RoleNone, wire.RoleDecide, wire.RoleObserve, 9} {
			for kind := Unknown; kind <= Observer+1; kind++ {
				for _, name := range []string{"", "PreToolUse", "PreSkillShellCommand", "ConfigChange", "x\"\n"} {
					ev := Event{Kind: kind, Name: name}
					for _, v := range everyVerdict {
						r := Render(host, role, ev, v)
						checkReply(t, role, ev, v, r)
						if host != wire.HostClaude && role != wire.RoleObserve && r.Exit != exitDeny {
							t.Errorf("host %d passes %+v", host, v)
						}
					}
				}
			}
		}
	}
}

func checkReply(t *testing.T, role wire.Role, ev Event, v verdict.Verdict, r wire.Reply) {
	t.Helper()
	if r.Kind != wire.KindAnswer || len(r.Out) > wire.MaxOutput || len(r.Err) > verdict.MaxReason+1 {
		t.Fatalf("reply %+v", r)
	}
	if role == wire.RoleObserve {
		told := ev.Ran() && v.Kind == verdict.Pass && v.Context != ""
		if r.Exit != 0 || len(r.Err) > 0 || len(r.Out) > 0 != told {
			t.Fatalf("an observer gets %+v", r)
		}
		return
	}
	var doc struct {
		Decision, Reason   string
		HookSpecificOutput struct{ PermissionDecision, PermissionDecisionReason, AdditionalContext string }
	}
	if err := json.Unmarshal(r.Out, &doc); err != nil {
		t.Fatalf("%q: %v", r.Out, err)
	}
	o := doc.HookSpecificOutput
	switch {
	case r.Exit == exitDeny:
		if string(r.Err) != o.PermissionDecisionReason+doc.Reason+"\n" || len(r.Err) < 2 || o.PermissionDecision != "deny" && doc.Decision != "block" {
			t.Fatalf("deny %q with stderr %q", r.Out, r.Err)
		}
	case r.Exit != 0 || len(r.Err) > 0:
		t.Fatalf("status %d, stderr %q", r.Exit, r.Err)
	case v.Kind == verdict.Ask:
		if ev.Name != "PreToolUse" || o.PermissionDecision != "ask" || o.PermissionDecisionReason == "" {
			t.Fatalf("ask %q for %+v", r.Out, ev)
		}
	case v.Kind != verdict.Pass || ev.Kind == Unknown || o.PermissionDecision != "" || doc.Decision != "":
		t.Fatalf("verdict %+v for %+v passes as %q", v, ev, r.Out)
	}
}
