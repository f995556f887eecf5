package dialect

import (
	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// exitDeny is the status that blocks on every measured host.
const exitDeny = 2

// maxContext keeps a pass that names many checkpoints inside wire.MaxOutput,
// escapes included.
const maxContext = 8 << 10

// deny writes one JSON object, the same reason on stderr, and status 2: the
// pair that blocks on every measured version. form puts the quoted reason into
// the event's own object.
func deny(form func(quoted string) string, v verdict.Verdict) wire.Reply {
	reason := v.Reason
	if v.Kind != verdict.Deny && v.Kind != verdict.Ask || reason == "" {
		reason = verdict.Reason(verdict.Internal, "judging the call", "",
			"no reason came with the verdict "+v.Kind.String(), "guard log")
	}
	reason = verdict.Cut(verdict.Clean(reason), verdict.MaxReason)
	return wire.Reply{
		Kind: wire.KindAnswer,
		Exit: exitDeny,
		Out:  []byte(form(quote(reason))),
		Err:  []byte(reason + "\n"),
	}
}

// preToolUse is the deny that Claude and Codex share.
func preToolUse(quoted string) string {
	return decision("PreToolUse", "deny", quoted)
}

func decision(event, permission, quoted string) string {
	return `{"hookSpecificOutput":{"hookEventName":` + quote(event) + `,"permissionDecision":"` + permission +
		`","permissionDecisionReason":` + quoted + `}}`
}

// quote writes text as a JSON string; Clean and Cut leave nothing in it that
// can't be quoted.
func quote(text string) string {
	b, err := jsontext.AppendQuote(nil, verdict.Clean(text))
	if err != nil {
		return `"guard"`
	}
	return string(b)
}

// tell answers an event that asks for no decision: with nothing, or with what the
// model is to be told beside the result of a tool that has run. It is no refusal
// on any host: the tool has run.
func tell(to wire.Host, ev Event, v verdict.Verdict) wire.Reply {
	r := wire.Reply{Kind: wire.KindAnswer}
	if v.Kind != verdict.Pass || v.Context == "" || !ev.Ran() {
		return r
	}
	context := quote(verdict.Cut(verdict.Clean(v.Context), maxContext))
	if to == wire.HostPi {
		r.Out = []byte(`{"pass":true,"context":` + context + `}`)
	} else {
		r.Out = []byte(`{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":` + context + `}}`)
	}
	return r
}
