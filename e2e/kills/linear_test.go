//go:build kills

package kills

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"leaseguard.internal/internal/sandbox/sandboxtest"
	"leaseguard.internal/internal/wire"
)

const (
	clients  = 8
	sessions = 4
	perRound = 2000
)

// TestLinearizable asks from eight clients at once for promotions, renewals,
// changes and revocations of four sessions, kills the broker in between, and
// wants one order of all answers in which each is right.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	total := map[string]int{}
	for round := range sandboxtest.Size(perRound, 100*perRound) / perRound {
		w := start(t, sessions)
		r := &recorder{w: w, begun: time.Now(), tokens: map[string][]string{}, up: map[string]bool{}, shown: map[string]bool{}, seed: seed, round: uint64(round)}
		r.record()
		if got, stuck := check(r.history()); got != porcupine.Ok {
			t.Fatalf("round %d of seed %d: the history is %s: %s", round, seed, got, stuck)
		}
		r.count(total)
		for _, a := range w.agents {
			a.Kill()
		}
		w.KillBroker()
	}
	t.Log(total)
	for _, what := range []string{"promote passed", "promote refused", "renew passed", "authorize passed", "authorize refused", "revoke passed", "restart passed"} {
		if total[what] < 5 {
			t.Errorf("%q came %d times: the history shows nothing", what, total[what])
		}
	}
}

// recorder is one history in the making.
type recorder struct {
	w     *world
	begun time.Time
	seed  uint64
	round uint64

	mu     sync.Mutex
	ops    []porcupine.Operation
	deaths []death
	tokens map[string][]string // all of a session, in their order
	up     map[string]bool     // sessions that were VERIFIED a moment ago
	shown  map[string]bool     // those that somebody has presented
}

// death is one kill: no answer of that broker comes from after at, and none of
// the next one from before next.
type death struct{ at, next int64 }

func (r *recorder) now() int64 { return int64(time.Since(r.begun)) }

// record asks until there are enough answers, and kills meanwhile.
func (r *recorder) record() {
	done := make(chan struct{})
	var work sync.WaitGroup
	for n := range clients {
		work.Go(func() {
			random := rand.New(rand.NewPCG(r.seed, r.round*clients+uint64(n)))
			for r.len() < perRound {
				if out := r.ask(n, random); out == unsent {
					time.Sleep(time.Millisecond) // it is being started
				}
			}
		})
	}
	go func() { work.Wait(); close(done) }()
	random := rand.New(rand.NewPCG(r.seed, 1<<32+r.round))
	for {
		select {
		case <-done:
			return
		case <-time.After(time.Duration(50+random.IntN(300)) * time.Millisecond):
			r.restart()
		}
	}
}

func (r *recorder) restart() {
	r.w.KillBroker()
	at := r.now()
	time.Sleep(5 * time.Millisecond) // the last answers are read
	next := r.now()
	r.mu.Lock()
	r.deaths = append(r.deaths, death{at, next})
	for _, id := range r.w.ids {
		r.ops = append(r.ops, porcupine.Operation{ClientId: clients, Input: input{id, restart, 0}, Call: at, Output: output{passed, ""}, Return: at + 1})
	}
	r.mu.Unlock()
	r.w.Must(r.w.StartBroker(r.w.Ctx()))
}

func (r *recorder) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ops)
}

// ask makes one request of a random session and notes what came of it.
func (r *recorder) ask(client int, random *rand.Rand) string {
	in := input{session: r.w.ids[random.IntN(len(r.w.ids))]}
	likely := []string{promote, promote, promote, promote, authorize, authorize, renew, revoke}
	if r.verified(in.session) {
		likely = []string{authorize, authorize, authorize, authorize, authorize, authorize, authorize, renew, renew, renew, promote, revoke}
	}
	in.do = likely[random.IntN(len(likely))]
	text := ""
	if in.do == promote {
		in.token, text = r.pick(in.session, random)
		if text == "" {
			in.do = verify
		}
	}
	called := r.now()
	var got output
	if in.do == authorize {
		var err error
		if got.out, got.code, err = r.w.call(in.session, "Write", newUse()); err != nil {
			r.w.T.Error(err)
		}
	} else {
		verb := map[string]wire.Verb{verify: wire.VerbVerify, promote: wire.VerbPromote, renew: wire.VerbRenew, revoke: wire.VerbRevoke}[in.do]
		got.out, got.code = r.w.operate(wire.Control{Verb: verb, Session: in.session, Token: text})
	}
	r.add(client, in, called, got, r.now())
	return got.out
}

// verified says whether the session was, when it was last heard of. It only makes
// requests likely that show something.
func (r *recorder) verified(session string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.up[session]
}

// pick is the session's newest token, the first time; then mostly none, which
// asks for a new one, and sometimes any that there ever was.
func (r *recorder) pick(session string, random *rand.Rand) (byte, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.tokens[session]
	n := len(all) - 1
	switch {
	case n < 0:
		return 0, ""
	case random.IntN(8) == 0:
		n = random.IntN(len(all))
	case r.shown[all[n]]:
		return 0, ""
	}
	r.shown[all[n]] = true
	return byte(n + 1), all[n]
}

// add notes one answer. What nobody took, what was turned away without a look
// and a change of unknown outcome have done nothing.
func (r *recorder) add(client int, in input, called int64, got output, returned int64) {
	if got.out == unsent || got.out == unknown && in.do == authorize {
		return
	}
	if got.out == refused && !strings.HasPrefix(got.code, "lease_") && !strings.HasPrefix(got.code, "token_") {
		if got.code != "broker_busy" {
			r.w.T.Errorf("%s was refused with %q", in.do, got.code)
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if in.do == verify && got.out == passed {
		r.tokens[in.session] = append(r.tokens[in.session], got.code)
		in.token, got.code = byte(len(r.tokens[in.session])), ""
		if len(r.tokens[in.session]) > 250 {
			r.w.T.Error("more tokens than the model can number")
		}
	}
	r.up[in.session] = got.out == passed && in.do != verify && in.do != revoke
	r.ops = append(r.ops, porcupine.Operation{ClientId: client, Input: in, Call: called, Output: got, Return: returned})
}

// history is what the checker gets: what a dead broker did, it did before its
// death, even if its answer, or the news that there is none, came later.
func (r *recorder) history() []porcupine.Operation {
	ops := slices.Clone(r.ops)
	for i := range ops {
		op := &ops[i]
		lost := op.Output.(output).out == unknown
		for _, d := range r.deaths {
			if op.Call < d.at && d.at <= op.Return && (op.Return < d.next || lost) {
				op.Return = max(d.at-1, op.Call)
			}
		}
	}
	return ops
}

func (r *recorder) count(total map[string]int) {
	for _, op := range r.ops {
		total[op.Input.(input).do+" "+op.Output.(output).out]++
	}
	total["answers"] += len(r.ops)
	total["kills"] += len(r.deaths)
}
