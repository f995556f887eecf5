package launcher

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/wire"
	host "leaseguard.internal/launcher/runtime"
)

// prove has the client say which hooks it would run, and then show that it asks
// the gate, unless it did so within a day with everything as it is now. One whose
// service may send it settings says so each time: they are not among what was
// proved, and it keeps what it has just been sent for the session.
func (c *codex) prove(ctx context.Context, l wire.Launch) error {
	in := c.install(l.Server)
	digest, err := c.digest(l.Server)
	if err != nil {
		return err
	}
	p := &proof{
		runtime: "codex", path: c.client.Path, ask: codexMutator, nonce: l.Nonce,
		command: func(url, key string) ([]string, []string) {
			args, _ := in.ProofArgs(c.user, url) // digest has found them right
			return args, append(c.env.ProofCodex(), host.ProofKey+"="+key)
		},
		version: func(h http.Header) string { return host.CodexAgentVersion(h.Get("User-Agent")) },
	}
	if c.user.Member {
		if err := c.listHooks(ctx, in, p); err != nil {
			return err
		}
	}
	return c.once(ctx, digest, p, func() error {
		if !c.user.Member {
			if err := c.listHooks(ctx, in, p); err != nil {
				return err
			}
		}
		if err := c.line.hand(); err != nil {
			return err
		}
		failed := p.run(ctx)
		if p.said == "" && failed != nil {
			return failed
		}
		warning, err := host.CheckCodexVersion(c.client.Path, p.said)
		if warning != "" {
			c.Warn(warning)
		}
		return errors.Join(err, failed)
	})
}

// digest names all that the proof depends on. The server's name and the model's
// address are new in every session, so constants stand for them.
func (c *codex) digest(server string) (string, error) {
	if server != "" {
		server = "guard"
	}
	args, err := c.install(server).ProofArgs(c.user, "http://127.0.0.1")
	if err != nil {
		return "", err
	}
	gate, err := host.IdentityOf(c.programs.Gate)
	if err != nil {
		return "", err
	}
	return host.Proved{
		Client: c.client.Identity(), Gate: gate, Args: slices.Concat(args, c.use.Profiles), Env: c.env.ProofCodex(), Managed: c.user.Files,
	}.Digest(), nil
}

// codexScript runs that command from a script, which is all that newer models are
// offered. The gate is asked about the command, and the script tells what it heard.
const codexScript = `try { text(JSON.stringify(await tools.exec_command({cmd: "true"}))) } catch (e) { text(String(e)) }`

// codexMutator asks for a command that would change nothing if it did run. Which
// tool runs commands depends on the model that the user has chosen.
func codexMutator(_ context.Context, r *fakemodel.Request) (fakemodel.Turn, error) {
	for _, call := range []fakemodel.Call{
		{Name: "exec_command", Input: `{"cmd":"true"}`},
		{Name: "shell_command", Input: `{"command":"true"}`},
		{Name: "shell", Input: `{"command":["true"]}`},
		{Name: "exec", Input: codexScript},
		{Name: "apply_patch", Input: "*** Begin Patch\n*** End Patch\n"},
	} {
		if r.Offers(call.Name) {
			return fakemodel.Turn{Calls: []fakemodel.Call{call}}, nil
		}
	}
	return fakemodel.Turn{}, errors.New("the client offers no tool that runs commands")
}
