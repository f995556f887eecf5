package launcher

import (
	"fmt"
	"os"
	"slices"
	"strconv"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
	host "leaseguard.internal/launcher/runtime"
)

// codex is what a launch of Codex has found out before it registers.
type codex struct {
	common
	use    host.Use
	client *host.Client
	user   host.CodexUser
	env    host.Environment
	line   sealed // of the gate to its launcher
}

func newCodex(l AgentLaunch) agent {
	return &codex{common: common{AgentLaunch: l}, line: sealed{-1}}
}

func (c *codex) registration() wire.Register {
	return wire.Register{Runtime: "codex", Command: c.client.Path, Unattended: c.use.Unattended}
}

func (c *codex) close() {
	c.client.Close()
	c.line.close()
}

// prepare reads and checks everything that a launch depends on. It starts
// nothing.
func (c *codex) prepare() error {
	err := c.load()
	if err != nil {
		return err
	}
	if c.use, err = host.CodexTable(c.readOnly()).CheckArgs(c.Argv, c.config.Launch.AllowFlags); err != nil {
		return err
	}
	c.env = host.FilterCodex(c.Env, c.config.Session.EnvPass)
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return fmt.Errorf("looking for the login shell, which runs Codex's hooks: %w", err)
	}
	vars, err := host.CodexShell(host.LoginShell(string(passwd), strconv.Itoa(os.Getuid())), c.env.Get("PATH"))
	if err != nil {
		return err
	}
	c.env.Vars = append(c.env.Vars, vars...)
	if c.user, err = host.LoadCodex(c.env.Get, c.use.Profiles, c.config.Session.EnvPass); err != nil {
		return err
	}
	if c.required() {
		if err := rely(host.CodexRequirements); err != nil {
			return err
		}
	}
	c.client, err = host.Find(host.Search{Program: host.CodexProgram, Path: c.lookup("PATH"), Home: c.lookup("HOME"), Self: c.programs.Guard, File: c.File})
	if err != nil {
		return err
	}
	c.tell()
	if c.line, err = newLine(); err != nil {
		c.client.Close()
	}
	return err
}

// required says whether the machine's administrator has every Codex ask guard.
func (c *codex) required() bool { return c.Paths.Mode == paths.System && c.user.Required() }

// rely refuses an administrator's file that others may change: what they write
// there would switch off what a session relies on.
func rely(path string) error {
	if err := safepath.File(path, 0); err != nil {
		return refuse(verdict.WiringUnproved, "relying on", path, err.Error(), "as root: chown root:root "+path+"; chmod 0644 "+path)
	}
	return nil
}

func (c *codex) readOnly() bool { return c.config.Launch.CodexSandbox == "read-only" }

// tell says once what the session doesn't have.
func (c *codex) tell() {
	if c.client.Note != "" {
		c.Warn(c.client.Note)
	}
	c.say("dropped from the environment", c.env.Dropped)
	if dir, err := workingDir(); err == nil {
		c.say("of the project is not loaded", c.user.Project(dir))
	}
	if c.Paths.Mode == paths.System && !c.required() {
		c.Warn("only this session asks guard: " + host.CodexRequirements + " has no hooks of guard's; as root: guard init --system")
	}
	if len(c.user.Hooks) > 0 {
		c.Warn("hooks of your own are switched off in this session: they would run beside the gate")
	}
	if c.user.Plugins {
		c.Warn("plugins are switched off in this session: they bring hooks and servers of their own")
	}
}

// install is what this launch puts into the client, with a name for guard's MCP
// server. In system mode the hooks stand in the administrator's requirements.
func (c *codex) install(server string) host.CodexInstall {
	return host.CodexInstall{Install: c.common.install(server), Managed: c.required(), ReadOnly: c.readOnly()}
}

// become turns this process into the client that was proved.
func (c *codex) become(res wire.Result) error {
	args, err := c.install(res.Launch.Server).Args(c.user)
	if err != nil {
		return err
	}
	if err := c.client.Check(); err != nil {
		return err
	}
	argv := slices.Concat([]string{"codex"}, args, c.Argv)
	return become(c.client.Path, argv, environ(c.env.Vars, *res.Session), c.line)
}
