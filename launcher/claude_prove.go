package launcher

import (
	"context"
	"errors"
	"net/http"

	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/wire"
	host "leaseguard.internal/launcher/runtime"
)

// prove has the client show that it asks the gate, unless it did so within a
// day with everything as it is now. Reading its settings would show only what
// we think of them.
func (c *claude) prove(ctx context.Context, l wire.Launch) error {
	args, err := c.proofInstall(l.Server).ProofArgs(c.user)
	if err != nil {
		return err
	}
	digest, err := c.digest(l.Server)
	if err != nil {
		return err
	}
	p := &proof{
		runtime: c.name, argv0: host.ClaudeProgram.Name, path: c.client.Path, ask: mutator, nonce: l.Nonce,
		command: func(url, key string) ([]string, []string) {
			return args, append(c.env.Proof(), "ANTHROPIC_BASE_URL="+url, "ANTHROPIC_API_KEY="+key)
		},
		denied:  func(r fakemodel.Result) bool { return r.IsError },
		blame:   c.effect.Blame,
		version: func(h http.Header) string { return host.AgentVersion(h.Get("User-Agent")) },
	}
	return c.once(ctx, digest, p, func() error {
		failed := p.run(ctx)
		if err := c.checkVersion(ctx, p.said); err != nil {
			return err // which explains why the proof failed, if it did
		}
		return failed
	})
}

// digest names all that the proof depends on. The server's name is new in every
// session, so a constant stands for it.
func (c *claude) digest(server string) (string, error) {
	if server != "" {
		server = "guard"
	}
	args, err := c.proofInstall(server).ProofArgs(c.user)
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

// checkVersion judges the client's version: the one that it told its model, or
// what its --version prints. A client with a fresh proof has passed this.
func (c *claude) checkVersion(ctx context.Context, line string) error {
	if line == "" {
		var err error
		if line, err = versionLine(ctx, c.name, c.client.Path, c.env.Proof()); err != nil {
			return err
		}
	}
	warning, err := host.CheckVersion(c.client.Path, line)
	if warning != "" {
		c.Warn(warning)
	}
	return err
}
