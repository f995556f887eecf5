// Package demo tells leaseguard's story on this machine in seconds: a simulated
// ZVM, a real broker, a real gate, and a scripted agent that tries to change
// something before and after an operator approves it.
//
// Everything happens in one temporary directory and one process tree, with no
// network but loopback. Nothing is left behind, on Ctrl-C neither.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/sandbox"
)

// Step is one thing that happened. Verdict and code are null where it was no
// tool call.
type Step struct {
	Step       string  `json:"step"`
	Tool       *string `json:"tool"`
	Verdict    *string `json:"verdict"`
	Code       *string `json:"code"`
	Detail     string  `json:"detail"`
	DurationMS int64   `json:"duration_ms"`
}

// Options says where the story is told.
type Options struct {
	Out   io.Writer // the story for people; nil tells nothing
	Env   []string  // the environment that the programs start from
	Paint func(verdict string) string
}

// ErrStory is returned when a step came out other than it must.
var ErrStory = errors.New("the demo went wrong")

// Run tells the story and returns its steps, also those before a failure.
func Run(ctx context.Context, opt Options) (steps []Step, err error) {
	// The programs die with this thread; see sandbox.StartBroker.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	programs, err := client.Siblings()
	if err != nil {
		return nil, err
	}
	for _, p := range []string{programs.Broker, programs.Gate} {
		if _, err := os.Stat(p); err != nil {
			return nil, fmt.Errorf("finding the programs beside guard: %w; build them all with: make build", err)
		}
	}
	box, err := sandbox.New(programs, opt.Env)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	t := &teller{opt: opt, world: &world{box: box}, clock: clock.System{}}
	for _, s := range story {
		if err := t.tell(ctx, s); err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return t.steps, err
		}
	}
	return t.steps, nil
}

// world is what the scenes share.
type world struct {
	box   *sandbox.Sandbox
	agent *sandbox.Agent
}

// teller runs scenes and prints each as it happens.
type teller struct {
	opt   Options
	world *world
	clock clock.Clock
	steps []Step
}

func (t *teller) tell(ctx context.Context, s scene) error {
	began := t.clock.Now()
	step := Step{Step: s.name}
	err := s.play(ctx, t.world, &step)
	took := t.clock.Now().Sub(began)
	step.DurationMS = took.Milliseconds()
	if err == nil {
		err = s.check(step)
	}
	t.steps = append(t.steps, step)
	if err != nil {
		return fmt.Errorf("%w at step %q: %w", ErrStory, s.name, err)
	}
	t.print(len(t.steps), s, step, took)
	return nil
}

func (t *teller) print(n int, s scene, step Step, took time.Duration) {
	if t.opt.Out == nil {
		return
	}
	_, _ = fmt.Fprintf(t.opt.Out, "%2d. %s\n", n, s.text)
	if step.Verdict != nil {
		_, _ = fmt.Fprintf(t.opt.Out, "    %s  %s  %s  (%d ms)\n", *step.Tool, t.opt.Paint(*step.Verdict), *step.Code, took.Milliseconds())
	}
	if step.Detail != "" {
		_, _ = fmt.Fprintf(t.opt.Out, "    %s\n", step.Detail)
	}
}

// check holds a scene to its expected outcome.
func (s scene) check(step Step) error {
	if s.verdict == "" {
		return nil
	}
	if step.Verdict == nil || step.Code == nil || *step.Verdict != s.verdict || *step.Code != s.code {
		return fmt.Errorf("got %s, want %s (%s): %s", outcome(step), s.verdict, s.code, step.Detail)
	}
	if s.within > 0 && step.DurationMS > s.within.Milliseconds() {
		return fmt.Errorf("it took %d ms, want at most %d", step.DurationMS, s.within.Milliseconds())
	}
	return nil
}

func outcome(s Step) string {
	if s.Verdict == nil || s.Code == nil {
		return "no verdict"
	}
	return *s.Verdict + " (" + *s.Code + ")"
}
