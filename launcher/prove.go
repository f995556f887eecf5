package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
	host "leaseguard.internal/launcher/runtime"
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

// proof is one run of the client against a scripted model of our own, which
// asks for one changing call. It must come back denied by our broker, which
// knows this launch's nonce.
type proof struct {
	client  *host.Client
	args    []string
	env     []string
	nonce   string
	managed []host.Managed
	version string // as the client told its model; empty: it didn't
}

// prove has the client show that it asks the gate, unless it did so within a
// day with everything as it is now. Reading its settings would show only what
// we think of them.
func (c *claude) prove(ctx context.Context, l wire.Launch) error {
	args, err := c.install(l.Server).ProofArgs(c.user)
	if err != nil {
		return err
	}
	digest, err := c.digest(l.Server)
	if err != nil {
		return err
	}
	broker := client.Inside(c.Paths)
	if !c.NoCache {
		res, err := broker.Do(ctx, wire.Control{Verb: wire.VerbProofKnown, Digest: digest}, nil)
		if err != nil {
			return err
		}
		if res.Proof != nil && res.Proof.Fresh {
			return nil
		}
	}
	p := proof{client: c.client, args: args, env: c.env.Proof(), nonce: l.Nonce, managed: c.managed}
	failed := p.run(ctx)
	if err := c.checkVersion(ctx, p.version); err != nil {
		return err // which explains why the proof failed, if it did
	}
	if failed != nil {
		return failed
	}
	res, err := broker.Do(ctx, wire.Control{Verb: wire.VerbProofDone, Digest: digest}, nil)
	if refused := (*wire.Error)(nil); errors.As(err, &refused) && refused.Code == string(verdict.BadRequest) {
		return p.unproved("its call was denied as it should be, and yet the broker has not heard "+verdict.Object(c.programs.Gate)+" itself as a child of the client",
			"put guard's own guard-gate back into its place, then launch again")
	}
	if err == nil && (res.Proof == nil || !res.Proof.Fresh) {
		err = fmt.Errorf("%w: the broker doesn't keep the proof", client.ErrAnswer)
	}
	return err
}

// digest names all that the proof depends on. The server's name is new in every
// session, so a constant stands for it.
func (c *claude) digest(server string) (string, error) {
	if server != "" {
		server = "guard"
	}
	args, err := c.install(server).ProofArgs(c.user)
	if err != nil {
		return "", err
	}
	gate, err := host.IdentityOf(c.programs.Gate)
	if err != nil {
		return "", err
	}
	return host.Proved{
		Client: c.client.Identity(), Gate: gate, Args: args, Env: c.env.Proof(), Managed: c.managed, User: c.user.Settings,
	}.Digest(), nil
}

// run makes the proof and ends the client with all that it started.
func (p *proof) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	model, err := fakemodel.Start(fakemodel.Script{Steps: []fakemodel.Step{mutator}})
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
	cmd := exec.Command(p.client.Path, p.args...) // #nosec G204 -- the client that is to be executed
	cmd.Args[0] = "claude"
	cmd.Env = append(p.env[:len(p.env):len(p.env)], "ANTHROPIC_BASE_URL="+model.URL(), "ANTHROPIC_API_KEY="+model.Key())
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
	for _, r := range model.Requests() {
		p.version = host.AgentVersion(r.Header.Get("User-Agent"))
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

// mutator asks for a tool that changes something, and that would change nothing
// if it did run. The user's permissions may have taken some of them away.
func mutator(_ context.Context, r *fakemodel.Request) (fakemodel.Turn, error) {
	for _, call := range []fakemodel.Call{
		{Name: "Bash", Input: `{"command":"true","description":"nothing"}`},
		{Name: "Write", Input: `{"file_path":"/dev/null","content":""}`},
		{Name: "Skill", Input: `{"skill":"guard-proof"}`},
		{Name: "Agent", Input: `{"description":"nothing","prompt":"Say done.","subagent_type":"general-purpose"}`},
	} {
		if r.Offers(call.Name) {
			return fakemodel.Turn{Calls: []fakemodel.Call{call}}, nil
		}
	}
	return fakemodel.Turn{}, errors.New("the client offers none of Bash, Write, Skill and Agent")
}

// judge says whether the gate was asked. Only our broker knows the nonce.
func (p *proof) judge(ctx context.Context, model *fakemodel.Server, cmd *exec.Cmd, r *fakemodel.Result, said string) error {
	switch {
	case r != nil && r.IsError && strings.Contains(r.Text, "guard: "+string(verdict.Proving)+": ") && strings.Contains(r.Text, p.nonce):
		return nil
	case r != nil:
		cause := "its call of " + r.Name + " came back without the gate's denial of this launch: " + strconv.Quote(verdict.Cut(verdict.Clean(r.Text), maxResult))
		if blame := host.Blames(p.managed); blame != "" {
			return p.unproved(cause+"; "+blame, "have the administrator of this machine change that setting, then launch again")
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

func (p *proof) unproved(cause string, next ...string) error {
	return refuse(verdict.WiringUnproved, "proving that the gate is asked by", p.client.Path, cause,
		append(next, "guard launch claude --no-cache; if that fails too: claude doctor")[0])
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

// checkVersion judges the client's version: the one that it told its model, or
// what its --version prints. A client with a fresh proof has passed this.
func (c *claude) checkVersion(ctx context.Context, line string) error {
	if line == "" {
		ctx, cancel := context.WithTimeout(ctx, proofTime)
		defer cancel()
		cmd := exec.CommandContext(ctx, c.client.Path, "--version") // #nosec G204 -- the client that is to be executed
		cmd.Env = c.env.Proof()
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
		cmd.WaitDelay = time.Second
		said := &tail{}
		cmd.Stdout = said
		if err := cmd.Run(); err != nil {
			return refuse(verdict.WiringUnproved, "asking for its version", c.client.Path, errors.Join(err, ctx.Err()).Error(), "guard launch claude --client FILE")
		}
		line = string(said.text)
	}
	warning, err := host.CheckVersion(c.client.Path, line)
	if warning != "" {
		c.Warn(warning)
	}
	return err
}
