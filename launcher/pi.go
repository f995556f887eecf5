package launcher

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
	host "leaseguard.internal/launcher/runtime"
)

// pi is what a launch of Pi has found out before it registers.
type pi struct {
	common
	use        host.Use
	client     *host.Pi
	env        host.Environment
	settings   []byte   // of the user's agent directory
	extensions []string // identities of the operator's
	guard      sealed   // guard's extension
	model      sealed   // the proof's
}

func newPi(l AgentLaunch) agent {
	return &pi{common: common{AgentLaunch: l}, guard: sealed{-1}, model: sealed{-1}}
}

func (p *pi) registration() wire.Register {
	return wire.Register{Runtime: "pi", Command: p.client.Script.Path, Unattended: p.use.Unattended}
}

func (p *pi) close() {
	p.client.Close()
	p.guard.close()
	p.model.close()
}

// prepare reads and checks everything that a launch depends on. It starts
// nothing.
func (p *pi) prepare() error {
	err := p.load()
	if err != nil {
		return err
	}
	if p.use, err = host.PiTable.CheckArgs(p.Argv, p.config.Launch.AllowFlags); err != nil {
		return err
	}
	p.use.Unattended = p.use.Unattended || slices.Contains(p.Argv, "--mode")
	if err := p.checkExtensions(); err != nil {
		return err
	}
	p.env = host.FilterPi(p.Env, p.config.Session.EnvPass)
	p.settings, err = host.PiSettings(p.env.Get)
	if err != nil {
		return err
	}
	p.client, err = host.FindPi(host.Search{Path: p.lookup("PATH"), Home: p.lookup("HOME"), Self: p.programs.Guard, File: p.File})
	if err != nil {
		return err
	}
	if err := errors.Join(p.tell(), p.sealExtensions()); err != nil {
		p.close()
		return err
	}
	return nil
}

// checkExtensions looks at those that the operator has named: what the agent
// could write would be its own code in Pi's process.
func (p *pi) checkExtensions() error {
	for _, path := range p.config.Launch.PiExtensions {
		if strings.HasPrefix(path, "builtin:") {
			continue
		}
		id, err := host.IdentityOf(path)
		if err == nil {
			err = safepath.File(path, p.Paths.BrokerUID)
		}
		if err != nil {
			return refuse(verdict.WiringUnproved, "loading the extension", path, err.Error(), "correct launch.pi_extensions in guard.toml, or the file's owner and mode")
		}
		p.extensions = append(p.extensions, verdict.Object(path)+" "+id.String())
	}
	return nil
}

// sealExtensions puts guard's own into memory. There is no session without it.
func (p *pi) sealExtensions() (err error) {
	fail := func(err error) error {
		return refuse(verdict.WiringUnproved, "installing", "guard's extension", err.Error(), "guard doctor")
	}
	if p.guard, err = seal("guard.js", host.PiExtension); err != nil {
		return fail(err)
	}
	if p.model, err = seal("model.js", host.PiModel); err != nil {
		return fail(err)
	}
	return nil
}

// tell says once what the session doesn't have, and judges Pi's version.
func (p *pi) tell() error {
	warning, err := p.client.CheckVersion()
	for _, w := range []string{warning, p.client.Script.Note} {
		if w != "" {
			p.Warn(w)
		}
	}
	p.say("dropped from the environment", p.env.Dropped)
	if dir, err := workingDir(); err == nil {
		p.say("of the project is not loaded", host.PiProjectFiles(dir))
	}
	return err
}

// install is what this launch puts into Pi, with a name for guard's MCP server.
func (p *pi) install(server string) host.PiInstall {
	return host.PiInstall{Install: p.common.install(server), Extensions: p.config.Launch.PiExtensions}
}

// prove has Pi show that it asks the gate, unless it did so within a day with
// everything as it is now.
func (p *pi) prove(ctx context.Context, l wire.Launch) error {
	in := p.install(l.Server)
	variable, err := in.Variable()
	if err != nil {
		return err
	}
	digest, err := p.digest(l.Server)
	if err != nil {
		return err
	}
	args := append([]string{p.client.Script.Path}, in.ProofArgs(p.guard.path(), p.model.path())...)
	proof := &proof{
		runtime: "pi", path: p.client.Node.Path, ask: piMutator, nonce: l.Nonce,
		command: func(url, key string) ([]string, []string) {
			where, _ := json.Marshal(map[string]string{"url": url, "key": key}) // strings alone can't fail
			return args, append(p.env.ProofPi(), variable, "GUARD_PROOF="+string(where))
		},
		denied: func(r fakemodel.Result) bool { return r.IsError },
	}
	return p.once(ctx, digest, proof, func() error {
		if err := errors.Join(p.guard.hand(), p.model.hand()); err != nil {
			return err
		}
		return proof.run(ctx)
	})
}

// digest names all that the proof depends on. The server's name is new in every
// session, so a constant stands for it.
func (p *pi) digest(server string) (string, error) {
	if server != "" {
		server = "guard-0000000000000000"
	}
	in := p.install(server)
	variable, err := in.Variable()
	if err != nil {
		return "", err
	}
	gate, err := host.IdentityOf(p.programs.Gate)
	if err != nil {
		return "", err
	}
	// Both extensions count by their bytes: the numbers of their descriptors say nothing.
	args := slices.Concat(in.ProofArgs("guard.js", "model.js"), []string{p.client.Node.Identity().String(), p.client.Parts()}, p.extensions)
	return host.Proved{
		Client: p.client.Script.Identity(), Gate: gate, Args: args, Env: append(p.env.ProofPi(), variable),
		User: slices.Concat(p.settings, host.PiExtension, host.PiModel),
	}.Digest(), nil
}

// piMutator asks for a tool that changes something, and that would change
// nothing if it did run.
func piMutator(_ context.Context, r *fakemodel.Request) (fakemodel.Turn, error) {
	if !r.Offers("bash") {
		return fakemodel.Turn{}, errors.New("the client doesn't offer bash")
	}
	return fakemodel.Turn{Calls: []fakemodel.Call{{Name: "bash", Input: `{"command":"true"}`}}}, nil
}

// become turns this process into node with the script that was proved.
func (p *pi) become(res wire.Result) error {
	in := p.install(res.Launch.Server)
	variable, err := in.Variable()
	if err != nil {
		return err
	}
	if err := p.client.Check(); err != nil {
		return err
	}
	argv := slices.Concat([]string{"pi", p.client.Script.Path}, in.Args(p.guard.path()), p.Argv)
	return become(p.client.Node.Path, argv, append(environ(p.env.Vars, *res.Session), variable), p.guard)
}
