package policy

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/verdict"
)

// Evaluator is the Server of [policy_server]: it posts each call as an evaluation
// and takes nothing but a clear answer for no objection. It is safe for use by
// several goroutines, and has to be closed.
//
// What can't have made a verdict, or is taken up again under the same id, is sent
// again inside one budget. An approval that a person has to give there may take
// longer: the call is denied then, and the next one of the same tool and input
// comes back to it.
type Evaluator struct {
	cfg      config.PolicyServer
	host     string // for people
	clock    clock.Clock
	http     *http.Client
	tokens   *tokens
	open     *open
	breakers *breakers
}

// NewEvaluator returns an evaluator for uid's broker; it asks the server nothing
// yet. roots are whom to believe certificates; nil: this machine's.
func NewEvaluator(cfg config.PolicyServer, uid uint32, clk clock.Clock, roots *x509.CertPool) (*Evaluator, error) {
	u, err := url.Parse(strings.ReplaceAll(cfg.URL, config.SessionMark, "0"))
	if err != nil {
		return nil, fmt.Errorf("reading policy_server.url %s: %w", verdict.Object(cfg.URL), err)
	}
	if roots == nil && u.Scheme == "https" {
		if roots, err = machineRoots(); err != nil {
			return nil, err
		}
	}
	tok, err := newTokens(cfg, uid, clk)
	if err != nil {
		return nil, err
	}
	return &Evaluator{
		cfg: cfg, host: u.Host, clock: clk, http: newHTTP(cfg.ConnectTimeout, roots), tokens: tok,
		open: newOpen(clk), breakers: newBreakers(clk),
	}, nil
}

// Inherit takes over what another evaluator of the same server knows: which
// evaluations are open, and that the server is dead. It comes before the first call.
func (e *Evaluator) Inherit(from Server) {
	if old, ok := from.(*Evaluator); ok && old.cfg.URL == e.cfg.URL {
		e.open, e.breakers = old.open, old.breakers
	}
}

// Close ends idle connections. What is being asked ends by its own context.
func (e *Evaluator) Close() { e.http.CloseIdleConnections() }

// Judge asks the server about an event. Events that are no phase of its have no
// opinion, and cost nothing.
func (e *Evaluator) Judge(ctx context.Context, c Call) Opinion {
	q, ok := newQuestion(c)
	if !ok {
		return Opinion{}
	}
	began := e.clock.Now()
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Budget)
	defer cancel()
	id, again, err := e.open.take(q)
	var out outcome
	if err != nil {
		out.err = err
	} else {
		out = e.guarded(ctx, q, id, again)
		e.open.done(q, id, out)
	}
	o := e.opinion(q, out)
	o.Result = &audit.PolicyResult{
		Kind: audit.PolicyServer, ID: e.host, Hash: id, Matcher: q.phase, Exit: cmp.Or(out.status, -1),
		Status: "failed", Decision: audit.PolicyPasses, DurationUS: e.clock.Now().Sub(began).Microseconds(),
	}
	switch {
	case out.answered && o.Denied:
		o.Result.Status = "denied"
	case out.answered:
		o.Result.Status = "allowed"
	case out.gone:
		o.Result.Status = "aborted"
	}
	if o.Denied && q.closed() {
		o.Result.Decision = audit.PolicyDenies
	}
	return o
}

// guarded asks unless the server has just been found dead. A call that comes back
// to an open approval is asked whatever its session has met: it is how a person's
// answer is found, and only a dead server is left alone by it.
func (e *Evaluator) guarded(ctx context.Context, q question, id string, again bool) (out outcome) {
	done, err := e.breakers.admit(q.session, again)
	if err != nil {
		return outcome{err: err}
	}
	defer func() { done(out) }()
	return e.evaluate(ctx, q, id)
}

// opinion makes one of what came of an evaluation. What gives no verdict denies
// where that phase fails closed.
func (e *Evaluator) opinion(q question, out outcome) Opinion {
	who := "the policy server " + verdict.Object(e.host)
	switch {
	case !out.answered && !q.closed():
		return Opinion{}
	case out.held:
		return Opinion{Denied: true, Code: verdict.PolicyUnavailable, Cause: "approval still open at " + verdict.Object(e.host) + ", or it hangs: " + out.why(),
			Next: fmt.Sprintf("have it answered there, then make the same call again within %.0f minutes", keepOpen.Minutes())}
	case !out.answered:
		return Opinion{Denied: true, Code: verdict.PolicyUnavailable, Cause: who + " gave no verdict: " + out.why(), Next: "guard doctor, then make the call again"}
	}
	a := out.answer
	switch {
	case a.action == allow && (a.data == nil || q.same(a.data)):
		return Opinion{}
	case a.action == allow:
		return denied(who+" allows it only with changes, which guard doesn't make", "make the call as the policy wants it")
	case q.phase == phaseResult && (a.action != deny || a.reason == ""): // nothing is held up for it any more
		return Opinion{}
	case a.action == deny:
		return denied(who+" denies it: "+cmp.Or(verdict.Cut(verdict.Clean(a.reason), maxReason), "Denied by policy"), "do it in a way that the policy allows")
	}
	return denied(who+" wants an approval that it doesn't hold open for guard: "+cmp.Or(verdict.Cut(verdict.Clean(a.reason), maxReason), "no reason given"),
		"let guard's account there edit the session, so that it can be approved")
}

// maxReason is the most of a server's own words that a reason has room for.
const maxReason = 500

func denied(cause, next string) Opinion {
	return Opinion{Denied: true, Code: verdict.PolicyDenied, Cause: cause, Next: next}
}

// Probe asks the server something that is no evaluation, and says whether it can
// be reached and takes the credential.
func (e *Evaluator) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(e.cfg.Budget, probeTime))
	defer cancel()
	out := e.attempts(ctx, e.address("guard-doctor"), []byte(`{}`))
	switch {
	case out.status == http.StatusBadRequest, out.status == http.StatusNotFound, out.status == http.StatusUnprocessableEntity:
		return nil // no such session, or no such question: who says so has let us in
	case out.answered:
		return errors.New("it gives a verdict on a question that was none; policy_server.url is no policy server's")
	}
	return errors.New(out.why())
}

const probeTime = 10 * time.Second

// Host is the server's name, for people.
func (e *Evaluator) Host() string { return e.host }

func (e *Evaluator) address(session string) string {
	return strings.ReplaceAll(e.cfg.URL, config.SessionMark, url.PathEscape(session))
}
