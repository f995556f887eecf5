package broker

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/broker/policy"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// Bounds of policy hooks.
const (
	maxHooksAtOnce  = 64              // of all sessions
	maxHooksSession = 16              // of one
	maxHooksCall    = 8               // of one call; its runner keeps that
	readyTime       = 5 * time.Second // for the gate to become the runner
	endTime         = 4 * time.Second // of what a call has left, for the end of its hooks
	placePause      = 5 * time.Millisecond
)

// runners are the processes that run policy hooks now. Whatever calls from below
// one is a hook of guard's own.
type runners struct {
	mu  sync.Mutex
	ids map[peer.ID]int
}

func (r *runners) enter(id peer.ID) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.ids = map[peer.ID]int{}
	}
	r.ids[id]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.ids[id]--; r.ids[id] <= 0 {
			delete(r.ids, id)
		}
	}
}

func (r *runners) has(id peer.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ids[id] > 0
}

// above says whether one of the path's processes, but for the first, runs hooks.
func (r *runners) above(path []session.Step) bool {
	for i, step := range path {
		if i > 0 && r.has(step.ID()) {
			return true
		}
	}
	return false
}

// runHooks has the call's gate become the program that runs these hooks, and
// returns what became of each. Without results the call is denied by v.
func (b *Broker) runHooks(ctx context.Context, c *call, met []policy.Met) ([]wire.HookResult, verdict.Verdict) {
	fail := func(cause, next string) ([]wire.HookResult, verdict.Verdict) {
		return nil, refuse(verdict.PolicyUnavailable, "running the policy hooks for", verdict.Object(c.event.Tool), cause, next)
	}
	if len(met) > wire.MaxHooks {
		return fail(fmt.Sprintf("there are %d, and one call may meet %d", len(met), wire.MaxHooks), "guard hooks list")
	}
	if err := safepath.File(b.guard, b.guardOwner()); err != nil {
		return fail(err.Error(), "install guard again")
	}
	ctx, cancel := context.WithTimeout(ctx, b.left(c))
	defer cancel()
	give, err := b.hookPlace(ctx, c, min(len(met), maxHooksCall))
	if err != nil {
		return fail("too many policy hooks run already: "+err.Error(), "make the call again")
	}
	defer give()
	defer b.runners.enter(c.peer.Process().ID())()
	results, err := b.exchangeHooks(c, met)
	if err != nil {
		return fail(err.Error(), "guard log, then make the call again")
	}
	return results, verdict.Verdict{}
}

// hookPlace waits for room among the hooks that run.
func (b *Broker) hookPlace(ctx context.Context, c *call, n int) (give func(), err error) {
	t := b.treeOf(c.peer, c.session)
	for b.hookPlaces.take(t, n, maxHooksSession) != fits {
		if err := clock.Sleep(ctx, placePause); err != nil {
			return nil, err
		}
	}
	return func() { b.hookPlaces.give(t, n) }, nil
}

// exchangeHooks speaks with the gate and the runner that it becomes. The kernel
// says of each byte that it comes from the process that asked about the call.
func (b *Broker) exchangeHooks(c *call, met []policy.Met) ([]wire.HookResult, error) {
	b.deadline(c.conn, min(readyTime, b.left(c)))
	if _, err := c.conn.Write(wire.HooksFrame()); err != nil {
		return nil, fmt.Errorf("telling the gate: %w", err)
	}
	if _, err := wire.ReadHooks(c.conn, wire.KindHooksReady); err != nil {
		return nil, fmt.Errorf("waiting for the gate to start guard hooks run: %w", err)
	}
	left := b.left(c)
	job := wire.HookJob{Path: c.set.config.Hooks.Path, TotalMS: max(left-endTime, left/2).Milliseconds(), AnswerMS: (left + reserve).Milliseconds()}
	for _, m := range met {
		job.Hooks = append(job.Hooks, m.Run)
	}
	b.deadline(c.conn, left)
	if err := sendJob(c, job); err != nil {
		return nil, fmt.Errorf("sending policy hooks: %w", err)
	}
	body, err := wire.ReadHooks(c.conn, wire.KindHookResults)
	if err != nil {
		return nil, fmt.Errorf("waiting for the end of policy hooks: %w", err)
	}
	return readResults(body, len(met))
}

func readResults(body []byte, want int) ([]wire.HookResult, error) {
	var r wire.HookResults
	if err := strictjson.Decode(body, &r); err != nil {
		return nil, fmt.Errorf("reading what became of policy hooks: %w", err)
	}
	if len(r.Results) != want {
		return nil, fmt.Errorf("%d results came of %d policy hooks", len(r.Results), want)
	}
	return r.Results, nil
}

// sendJob writes the job and the line for the hooks, whose largest part is the
// call's input as the host wrote it: it is held once.
func sendJob(c *call, job wire.HookJob) error {
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	if len(text) > wire.MaxHookJob {
		return fmt.Errorf("their definitions have %d bytes, and one call may meet %d", len(text), wire.MaxHookJob)
	}
	before, after := hookLine(c)
	size := len(before) + len(c.event.Input) + len(after)
	if _, err := c.conn.Write(append(wire.HookJobHead(text, size), before...)); err != nil {
		return err
	}
	var chunk []byte
	for rest := c.event.Input; len(rest) > 0; rest = rest[len(chunk):] {
		chunk = append(chunk[:0], rest[:min(len(rest), 64<<10)]...)
		wire.OneLine(chunk)
		if _, err := c.conn.Write(chunk); err != nil {
			return err
		}
	}
	_, err = c.conn.Write(append(after, wire.EndMark[:]...))
	return err
}

// hookLine is what stands before and after the input in the line that each hook
// reads. docs/policy.md says what each field is for which host.
func hookLine(c *call) (before, after []byte) {
	ev := &c.event
	agent, mode, origin := ev.Agent, ev.Mode, "provider"
	if c.host == wire.HostPi { // its mode is how it is driven, and its agent the call that made this one
		mode = ""
		if agent != "" {
			origin, agent = "code_mode", ""
		}
	}
	turn := cmp.Or(ev.Turn, ev.HostSession)
	return wire.HookInput{
		Session: ev.HostSession, Turn: turn, Run: cmp.Or(agent, turn), ToolUse: ev.ToolUse, Tool: ev.Tool,
		Cwd: cmp.Or(ev.Cwd, c.session.Dir), Mode: cmp.Or(mode, "default"), Origin: origin,
	}.Around()
}

// guardOwner is who may have installed guard, beside root.
func (b *Broker) guardOwner() uint32 {
	if b.opt.Paths.Mode == paths.System {
		return 0
	}
	return b.opt.UID
}
