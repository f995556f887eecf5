package hookrun

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/hookfile"
	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// MaxOutput is how much a hook may write to stdout, and to stderr.
const MaxOutput = 64 << 10

// maxReason bounds what a hook's own text adds to a reason.
const maxReason = 4000

// exitDeny is the status by which a hook denies.
const exitDeny = 2

// ending is how a hook ended.
type ending struct {
	err       error // it never ran
	aborted   bool
	late      time.Duration // its time, which was over; 0: it ended in time
	exit      int           // -1: none
	signal    string
	out, err2 []byte
	overflow  bool // it wrote more than it may
	held      bool // it had ended, and something of it still held its output
}

// judge is the outcome table, whose first row that fits counts. A denial counts
// however late it comes and whatever else is amiss; what is no clean word of the
// hook's is a failure, of which its definition says what it means.
func judge(id string, e ending) wire.HookResult {
	r := wire.HookResult{Status: wire.HookFailed, Exit: e.exit, Signal: e.signal}
	said, reason := wire.HookFailed, ""
	if e.exit == 0 {
		said, reason = decide(id, e.out)
	}
	switch {
	case e.aborted:
		r.Status, r.Reason = wire.HookAborted, "it was ended with the call"
	case errors.Is(e.err, errChanged):
		r.Status, r.Reason = wire.HookChanged, e.err.Error()
	case e.err != nil:
		r.Reason = e.err.Error()
	case e.exit == exitDeny:
		r.Status, r.Reason = wire.HookDenied, denial(id, string(e.err2))
	case said == wire.HookDenied:
		r.Status, r.Reason = said, reason
	case e.late > 0:
		r.Reason = fmt.Sprintf("it wasn't done within %d ms", e.late.Milliseconds())
	case e.signal != "":
		r.Reason = "it was ended by signal " + e.signal
	case e.exit != 0:
		r.Reason = fmt.Sprintf("it exited with status %d", e.exit)
	case e.overflow:
		r.Reason = fmt.Sprintf("it wrote more than %d bytes", MaxOutput)
	case e.held:
		r.Reason = "it left something running that holds its output"
	default:
		r.Status, r.Reason = said, reason
	}
	r.Reason = verdict.Cut(strings.ToValidUTF8(r.Reason, "?"), maxReason)
	return r
}

func denial(id, text string) string {
	if text = hookfile.Trim(text); text != "" {
		return text
	}
	return "Hook " + id + " denied this tool call."
}

type decision struct {
	Output *struct {
		Event    string         `json:"hookEventName"`
		Decision string         `json:"permissionDecision"`
		Reason   jsontext.Value `json:"permissionDecisionReason"`
	} `json:"hookSpecificOutput"`
}

// decide reads what a hook that exited with status 0 has printed: nothing, or
// exactly one decision.
func decide(id string, out []byte) (wire.HookStatus, string) {
	text := hookfile.Trim(string(out))
	if text == "" {
		return wire.HookAllowed, ""
	}
	var d decision
	if err := strictjson.Decode([]byte(text), &d); err != nil {
		return wire.HookFailed, "what it printed is no decision: " + err.Error()
	}
	if d.Output == nil || d.Output.Event != "PreToolUse" {
		return wire.HookFailed, "what it printed is no decision about PreToolUse"
	}
	reason := ""
	if raw := d.Output.Reason; raw != nil {
		b, err := jsontext.AppendUnquote(nil, raw)
		if raw.Kind() != '"' || err != nil {
			return wire.HookFailed, "the reason that it printed is no text"
		}
		reason = string(b)
	}
	switch d.Output.Decision {
	case "allow":
		return wire.HookAllowed, ""
	case "deny":
		return wire.HookDenied, denial(id, reason)
	}
	return wire.HookFailed, "it decided " + verdict.Object(d.Output.Decision) + ", which is neither allow nor deny"
}
