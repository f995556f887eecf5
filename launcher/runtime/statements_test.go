package runtime

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestO17_X1_TheHostWaitsLongest: the gate's own deadline ends before the host
// loses its patience with it, so that no time that is over becomes an allow.
func TestO17_X1_TheHostWaitsLongest(t *testing.T) {
	for _, budget := range []time.Duration{time.Second, 150 * time.Second, 570 * time.Second} {
		in := Install{Gate: "/g", Socket: "/s", Budget: budget}
		for event, entries := range in.hooks() {
			h := entries[0].Hooks[0]
			deadline := h.Args[len(h.Args)-1]
			seconds, err := strconv.ParseInt(deadline, 10, 64)
			if err != nil || h.Args[len(h.Args)-2] != "--deadline" || time.Duration(seconds)*time.Second != budget || h.Timeout < seconds+30 {
				t.Errorf("Claude, %s, %v: the gate has %s s, the host waits %d s, %v", event, budget, deadline, h.Timeout, err)
			}
		}
		e := in.codexEntry("PreToolUse")
		seconds := int64(budget / time.Second)
		if !strings.Contains(e.Command, " --deadline "+strconv.FormatInt(seconds, 10)) || e.Timeout < seconds+30 {
			t.Errorf("Codex, %v: %s, the host waits %d s", budget, e.Command, e.Timeout)
		}
	}
}

// TestO18_CodexWithoutTrustIsNotStarted: a hook that the client wouldn't run ends
// the launch; there is no session without its gate.
func TestO18_CodexWithoutTrustIsNotStarted(t *testing.T) {
	in := CodexInstall{Install: Install{Gate: "/g", Socket: "/s", Budget: time.Second}}
	hooks := func(trust string) []CodexHook {
		var all []CodexHook
		for _, event := range codexHooked {
			all = append(all, CodexHook{Event: strings.ToLower(event[:1]) + event[1:], Command: in.codexEntry(event).Command, Enabled: true, Trust: trust})
		}
		return all
	}
	if cause, _ := in.CheckHooks(hooks("trusted")); cause != "" {
		t.Fatalf("trusted: %s", cause)
	}
	for _, trust := range []string{"untrusted", "modified", ""} {
		if cause, next := in.CheckHooks(hooks(trust)); cause == "" || next == "" {
			t.Errorf("%q: the launch goes on", trust)
		}
	}
}
