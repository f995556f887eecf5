package launcher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
	host "leaseguard.internal/launcher/runtime"
)

// AgentLaunch is a launch of a runtime that guard knows. Argv holds the
// client's own arguments, which it gets byte for byte behind guard's.
type AgentLaunch struct {
	Launch
	File      string // the native program; empty: looked for
	ConfigDir string // of claudex; empty: CLAUDE_CONFIG_DIR, or ~/.claudex
	NoCache   bool   // prove the gate also if that was done within a day

	look bool // Check's: nothing may be written
}

// agent is one runtime's way through a launch. Each of its steps may end it.
type agent interface {
	// prepare reads and checks all that the launch depends on, and says what the
	// session won't have. It starts nothing.
	prepare() error
	// registration is what the broker is told of the session.
	registration() wire.Register
	// prove has the very client that is to run show that it asks the gate.
	prove(context.Context, wire.Launch) error
	// become turns this process into the client that was proved. It returns only
	// if it could not.
	become(wire.Result) error
	// close lets go of what prepare opened.
	close()

	examined
}

// agents are the runtimes that can be launched by name.
var agents = map[string]func(AgentLaunch) agent{
	"claude":  newClaude,
	"claudex": newClaudex,
	"codex":   newCodex,
	"pi":      newPi,
}

// Agent launches a runtime by its name. It returns only when it could not:
// whatever isn't proved isn't executed.
func Agent(ctx context.Context, name string, l AgentLaunch) error {
	start, ok := agents[name]
	if !ok {
		return fmt.Errorf("launching %s: this version has no launch for it", verdict.Object(name))
	}
	a := start(l)
	if err := a.prepare(); err != nil {
		return err
	}
	defer a.close()
	res, conn, err := l.register(ctx, a.registration())
	if err != nil {
		return err
	}
	return enter(ctx, a, res, conn)
}

// enter goes from registration to exec.
func enter(ctx context.Context, a agent, res wire.Result, conn net.Conn) error {
	if res.Launch == nil || res.Launch.Nonce == "" {
		return fmt.Errorf("%w: registration without a nonce; when guard was updated: guard broker restart", client.ErrAnswer)
	}
	if err := a.prove(ctx, *res.Launch); err != nil {
		return err
	}
	err := a.become(res)
	runtime.KeepAlive(conn) // a finalizer would tell the broker that the runtime runs
	return err
}

// common is what the launch of any runtime needs first.
type common struct {
	AgentLaunch
	programs client.Programs
	config   *config.Config
}

// load reads the configuration and looks at guard's own programs.
func (c *common) load() error {
	var err error
	if c.config, err = config.Load(c.Paths.Config, c.Paths.Mode, c.Paths.BrokerUID); err != nil {
		return &wire.Error{Code: string(verdict.ConfigInvalid), Message: err.Error()}
	}
	if c.programs, err = client.Siblings(); err != nil {
		return err
	}
	if err := safepath.File(c.programs.Gate, c.Paths.BrokerUID); err != nil {
		return refuse(verdict.WiringUnproved, "installing", c.programs.Gate, err.Error(), "put guard's programs together into a directory that only root or the broker's user may write")
	}
	return nil
}

// lookup reads the launcher's own environment; the last of equal names counts.
func (c *common) lookup(name string) string { return host.Environment{Vars: c.Env}.Get(name) }

// say tells of names, if there are any.
func (c *common) say(what string, names []string) {
	if len(names) > 0 {
		c.Warn(what + ": " + strings.Join(names, ", "))
	}
}

// install is what this launch puts into the client, with a name for guard's MCP
// server.
func (c *common) install(server string) host.Install {
	return host.Install{
		Gate: c.programs.Gate, Guard: c.programs.Guard, Socket: c.Paths.BrokerSocket, BrokerUID: c.Paths.BrokerUID,
		Budget: c.config.Launch.Budget, Server: server, ServerEnv: c.serverEnv(), Judged: c.config.PolicyServer != nil,
	}
}

// serverEnv is what guard mcp needs to find the broker.
func (c *common) serverEnv() (env []string) {
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"} {
		if value := c.lookup(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// once runs the proof of that digest, unless the broker knows that it was done
// within a day with everything as it is now. Only the broker can say that it has
// heard the gate itself as a child of the client.
func (c *common) once(ctx context.Context, digest string, p *proof, prove func() error) error {
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
	if err := prove(); err != nil {
		return err
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

func refuse(code verdict.Code, what, object, cause, next string) error {
	return &wire.Error{Code: string(code), Message: verdict.Reason(code, what, verdict.Object(object), cause, next)}
}
