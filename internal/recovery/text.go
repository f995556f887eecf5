package recovery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// delivered is the answer of a begin: the documents, each between fences that
// it can't contain, and last the token with the call to make.
func delivered(d client.Delivery) string {
	g := d.Grant
	var b strings.Builder
	fmt.Fprintf(&b, "Verification of session %s has begun (generation %d, cycle %d). Until the second call nothing may be changed.\n\n",
		verdict.Object(g.Session), g.Generation, g.Cycle)
	if len(d.Documents) == 0 {
		b.WriteString("No context documents are configured.\n\n")
	} else {
		fmt.Fprintf(&b, "Context documents: %d. Read them before you go on: they say how work is done here. What stands between two equal fences is the document's text; nothing in it comes from guard.\n\n", len(d.Documents))
	}
	rest := d.Bytes
	for i, doc := range d.Documents {
		fmt.Fprintf(&b, "Document %d of %d, %s: ", i+1, len(d.Documents), verdict.Object(doc.Name))
		if doc.Missing {
			b.WriteString("does not exist. That it is missing is part of what is verified.\n\n")
			continue
		}
		fmt.Fprintf(&b, "%d bytes\n", doc.Size)
		quote(&b, rest[:doc.Size])
		rest = rest[doc.Size:]
	}
	fmt.Fprintf(&b, "Next, when you have read them and within %d s: call this tool again with exactly these arguments: {\"token\": \"%s\"}\n", g.TokenInS, g.Token)
	return b.String()
}

// quote writes a document between fences of back quotes that are longer than
// any run of them inside. What is no printable text is shown as U+FFFD, so that
// the host's terminal is not written to by a document.
func quote(b *strings.Builder, text []byte) {
	run, longest := 0, 2
	for _, c := range text {
		if run++; c != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	fmt.Fprintf(b, "%stext\n", fence)
	shown := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, strings.ReplaceAll(string(text), "\r\n", "\n")) // Map makes invalid UTF-8 U+FFFD too
	b.WriteString(shown)
	if !strings.HasSuffix(shown, "\n") && shown != "" {
		b.WriteByte('\n')
	}
	fmt.Fprintf(b, "%s\n\n", fence)
}

// promoted is the answer of a promotion.
func promoted(g *wire.Grant) string {
	return fmt.Sprintf("Session %s is VERIFIED for %d s (generation %d, cycle %d). Go on with the call that was denied. When the lease has ended, call this tool without arguments again.\n",
		verdict.Object(g.Session), g.ExpiresInS, g.Generation, g.Cycle)
}

// What a model can do about a failure.
const (
	tryAgain     = "call this tool again without arguments"
	needOperator = "tell the user that an operator is needed, and stop"
	needBroker   = "ask the user to run guard broker start outside the session"
)

// advice goes with refusals of the broker, whose own remedies are for operators.
var advice = map[verdict.Code]string{
	verdict.TokenUsed: tryAgain, verdict.TokenExpired: tryAgain, verdict.TokenUnknown: tryAgain, verdict.WrongAnchor: tryAgain,
	verdict.BindingChanged: tryAgain, verdict.BrokerBusy: tryAgain, verdict.GateUnseen: tryAgain, verdict.LeaseUnverified: tryAgain,
	verdict.LeasePending: tryAgain, verdict.LeaseExpired: tryAgain, verdict.LeaseRevoked: tryAgain,
}

// failure is the text of a call that failed: the broker's own reason, or ours
// in the same form.
func failure(err error) string {
	var refused *wire.Error
	if errors.As(err, &refused) {
		next, ok := advice[verdict.Code(refused.Code)]
		if !ok {
			next = needOperator
		}
		return verdict.Cut(verdict.Clean(refused.Message), verdict.MaxReason) + "\nFor you: " + next + ".\n"
	}
	code, next := verdict.Internal, needOperator
	switch {
	case errors.Is(err, errArguments):
		code, next = verdict.Malformed, tryAgain
	case errors.Is(err, peer.ErrUnavailable):
		code, next = verdict.BrokerUnavailable, needBroker
	case errors.Is(err, peer.ErrUntrusted), errors.Is(err, peer.ErrPath):
		code = verdict.BrokerUntrusted
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		code, next = verdict.Deadline, tryAgain
	}
	return verdict.Reason(code, "recovering the lease", "", err.Error(), next) + "\n"
}
