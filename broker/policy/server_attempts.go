package policy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/verdict"
)

// Between attempts: 1, 2, 4, 8, 10, 10 … seconds. What the server wants more than
// longestWait for isn't waited for.
const (
	firstWait   = time.Second
	longestWait = 10 * time.Second
)

// outcome is what came of an evaluation.
type outcome struct {
	answered bool // there is a verdict: answer
	answer   answer
	status   int   // of the last answer; 0: none
	err      error // why there is no verdict
	sent     bool  // the server may know of the evaluation
	held     bool  // it has taken the evaluation, and not answered by the end of the budget
	reached  bool  // the last attempt found a server that answers
	tries    int   // attempts that were made
	tired    bool  // all of them have failed
	late     bool  // the budget ended in the midst of one
	gone     bool  // who asked has ended
}

// open says whether the server may still hold the evaluation for somebody's
// answer. A refusal doesn't.
func (o outcome) open() bool { return o.sent && !o.answered && (!o.reached || o.status >= 500) }

// why says why there is no verdict, in words of ours and of bounded length.
func (o outcome) why() string {
	if o.err == nil {
		return "nothing came of it"
	}
	return verdict.Cut(verdict.Clean(o.err.Error()), maxReason)
}

// evaluate asks until there is a verdict, a refusal, or the end of ctx.
func (e *Evaluator) evaluate(ctx context.Context, q question, id string) outcome {
	return e.attempts(ctx, e.address(q.session), q.body(id))
}

// attempts sends one body until it is answered. The id in it makes all attempts
// one evaluation.
func (e *Evaluator) attempts(ctx context.Context, address string, body []byte) (o outcome) {
	tok, err := e.tokens.get(ctx)
	defer func() { o.err, o.answer.reason = tok.redactError(o.err), tok.redact(o.answer.reason) }()
	if err != nil {
		o.err, o.late, o.gone = err, errors.Is(err, context.DeadlineExceeded), errors.Is(ctx.Err(), context.Canceled)
		return o
	}
	renewed := false
	for wait := firstWait; ; {
		x := e.post(ctx, address, body, tok.value)
		x.redact(tok)
		o.take(x)
		if !o.answered && x.lapsed() {
			if o.err = fmt.Errorf("it asks for another login (%w)", o.err); renewed {
				return o
			}
			next, err := e.tokens.renew(ctx, tok)
			if err != nil {
				o.err = fmt.Errorf("%w, and no new token was to be had: %w", o.err, err)
				return o
			}
			tok, renewed = next, true
			continue // at once: what was refused can't have made a verdict
		}
		pause, again := e.pause(x, wait)
		if o.answered || !again {
			return o
		}
		wait = min(2*wait, longestWait)
		if end, bounded := ctx.Deadline(); bounded && !clock.Deadline(pause).Before(end) {
			o.tired = true
			o.err = fmt.Errorf("the budget is used up, and the last attempt: %w", o.err)
			return o
		}
		if err := clock.Sleep(ctx, pause); err != nil {
			o.err, o.gone = fmt.Errorf("who asked is gone: %w", err), true
			return o
		}
	}
}

// take notes what one attempt has brought.
func (o *outcome) take(x exchange) {
	o.tries++
	o.sent = o.sent || x.sent
	o.status, o.reached, o.late, o.gone = x.status, x.err == nil, x.late, x.gone
	switch {
	case x.err != nil:
		o.err = x.cause()
		o.held = x.late && x.sent && x.status == 0
	case x.status >= 200 && x.status < 300 && x.page():
		o.err = fmt.Errorf("it answered %d with a page for people, not with a verdict", x.status)
	case x.status >= 200 && x.status < 300:
		o.answer, o.err = readAnswer(x.body)
		o.answered = o.err == nil
	case x.status >= 300 && x.status < 400:
		o.err = fmt.Errorf("it answered %d and leads to %s, which isn't followed", x.status, verdict.Object(place(x.header.Get("Location"))))
	default:
		o.err = fmt.Errorf("it answered %d %s%s", x.status, http.StatusText(x.status), said(refusal(x.body)))
	}
}

func said(message string) string {
	if message == "" {
		return ""
	}
	return ": " + verdict.Object(message)
}

// place is a redirect's address without its query, which may hold secrets.
func place(location string) string {
	bare, _, _ := strings.Cut(location, "?")
	return bare
}

// cause says why an attempt was not answered.
func (x exchange) cause() error {
	switch {
	case x.distrust:
		return fmt.Errorf("its certificate is not trusted: %w", x.err)
	case x.late && x.status != 0:
		return fmt.Errorf("its answer began and did not end in time: %w", x.err)
	case x.late && x.sent:
		return fmt.Errorf("it took the evaluation and did not answer in time: %w", x.err)
	case x.late:
		return fmt.Errorf("no connection in time: %w", x.err)
	case x.gone:
		return fmt.Errorf("who asked is gone: %w", x.err)
	case x.dropped && !x.sent:
		return fmt.Errorf("no connection: %w", x.err)
	case x.dropped:
		return fmt.Errorf("the connection ended before its answer: %w", x.err)
	}
	return fmt.Errorf("its answer is not understood: %w", x.err)
}

// pause says whether the same may be sent again, and when.
func (e *Evaluator) pause(x exchange, wait time.Duration) (pause time.Duration, again bool) {
	switch {
	case x.err != nil:
		return wait, x.dropped
	case x.status >= 500:
		return wait, true
	case x.status == http.StatusTooManyRequests:
		after, ok := e.retryAfter(x.header.Get("Retry-After"))
		return max(after, wait), ok && after <= longestWait
	}
	return 0, false
}

// retryAfter reads the header: seconds, or a date. ok is false for what is neither.
func (e *Evaluator) retryAfter(s string) (after time.Duration, ok bool) {
	if s == "" {
		return 0, true
	}
	if n, err := strconv.ParseUint(s, 10, 32); err == nil {
		return time.Duration(n) * time.Second, true
	}
	at, err := http.ParseTime(s)
	if err != nil {
		return 0, false
	}
	return max(at.Sub(e.clock.Wall()), 0), true
}
