package launcher

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/verdict"
)

// proofTime bounds one proof.
const proofTime = 10 * time.Second

// tidyTime is what the client gets to end by itself once its call came back. It
// writes its own state under a lock file then; killed at that, it leaves the
// lock, for which its next starts wait seconds.
const tidyTime = time.Second

// maxResult is how much of a call's result an error shows.
const maxResult = 400

// maxSaid is how much of the client's own words is kept for an error.
const maxSaid = 16 << 10

// proof is one run of a client against a scripted model of our own, which asks
// for one changing call. It must come back denied by our broker, which knows
// this launch's nonce.
type proof struct {
	runtime string // the name that it is launched by
	path    string // the client
	argv0   string // what it is called as; empty: runtime
	// command gives the client's arguments, and its whole environment, for a model
	// at that address that wants that key.
	command func(url, key string) (args, env []string)
	ask     fakemodel.Step // asks for the call
	nonce   string

	denied  func(fakemodel.Result) bool // the host treats it as a call that didn't run; nil: any result
	blame   func() string               // what is known to keep hooks from running; nil: nothing
	version func(http.Header) string    // reads how the client names itself to its model; nil: it doesn't
	said    string                      // what version found; empty: nothing
}

// run makes the proof and ends the client with all that it started.
func (p *proof) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	model, err := fakemodel.Start(fakemodel.Script{Steps: []fakemodel.Step{p.ask}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, model.Close()) }()

	runtime.LockOSThread() // Pdeathsig comes when the thread ends, not the process
	defer runtime.UnlockOSThread()
	said := &tail{}
	before, err := children()
	if err != nil {
		return err
	}
	args, env := p.command(model.URL(), model.Key())
	cmd := exec.Command(p.path, args...) // #nosec G204 -- the client that is to be executed
	cmd.Args[0], cmd.Env = cmp.Or(p.argv0, p.runtime), env
	cmd.Stdout, cmd.Stderr = said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second // for pipes that its children hold open
	if err := cmd.Start(); err != nil {
		return p.unproved("it can't be started: " + err.Error())
	}
	result, waited := p.await(ctx, model, cmd)
	if result != nil {
		tidy, cancel := context.WithTimeout(ctx, tidyTime)
		defer cancel()
		select {
		case <-waited:
		case <-tidy.Done():
		}
	}
	if p.version != nil {
		for _, r := range model.Requests() {
			p.said = p.version(r.Header)
		}
	}
	if err := endAll(cmd, waited, before, model.Key()); err != nil {
		return p.unproved(err.Error())
	}
	return p.judge(ctx, model, cmd, result, said.last())
}

// await waits for what the call came to, or for the client's end.
func (p *proof) await(ctx context.Context, model *fakemodel.Server, cmd *exec.Cmd) (*fakemodel.Result, <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		_ = cmd.Wait() // its status is in the ProcessState
		cancel()
	}()
	if r, err := model.Result(ctx, fakemodel.CallID(1)); err == nil {
		return &r, waited
	}
	for _, r := range model.Results() { // it may have come with the client's end
		if r.ID == fakemodel.CallID(1) {
			return &r, waited
		}
	}
	return nil, waited
}

// judge says whether the gate was asked. Only our broker knows the nonce.
func (p *proof) judge(ctx context.Context, model *fakemodel.Server, cmd *exec.Cmd, r *fakemodel.Result, said string) error {
	switch {
	case r != nil && p.isDenied(*r) && strings.Contains(r.Text, "guard: "+string(verdict.Proving)+": ") && strings.Contains(r.Text, p.nonce):
		return nil
	case r != nil:
		cause := "its call of " + r.Name + " came back without the gate's denial of this launch: " + strconv.Quote(verdict.Cut(verdict.Clean(r.Text), maxResult))
		if p.blame != nil {
			if blame := p.blame(); blame != "" {
				return p.unproved(cause+"; "+blame, "have the administrator of this machine change that setting, then launch again")
			}
		}
		return p.unproved(cause)
	case context.Cause(ctx) != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return p.unproved("the proof was interrupted", "launch again")
	case model.Err() != nil:
		return p.unproved(model.Err().Error())
	case ctx.Err() != nil:
		return p.unproved(fmt.Sprintf("its call didn't come back within %v, after %d requests to its model: %s", proofTime, model.Count(), said))
	}
	return p.unproved(fmt.Sprintf("it ended (%v) after %d requests to its model: %s", cmd.ProcessState, model.Count(), said))
}

func (p *proof) isDenied(r fakemodel.Result) bool { return p.denied == nil || p.denied(r) }

func (p *proof) unproved(cause string, next ...string) error {
	return refuse(verdict.WiringUnproved, "proving that the gate is asked by", p.path, cause,
		append(next, "guard launch "+p.runtime+" --no-cache; if that fails too: guard doctor")[0])
}

// tail keeps the end of what is written to it, for the words of one process.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - maxSaid; over > 0 {
		t.text = t.text[over:]
	}
	return len(p), nil
}

// last is the last line that isn't empty. It is called after the process ended.
func (t *tail) last() string {
	lines := bytes.Split(bytes.TrimSpace(t.text), []byte("\n"))
	if line := string(lines[len(lines)-1]); line != "" {
		return "it said " + verdict.Object(line)
	}
	return "it said nothing"
}
