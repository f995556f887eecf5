package launcher

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
	host "leaseguard.internal/launcher/runtime"
)

// claude is what a launch of Claude has found out before it registers.
type claude struct {
	common
	use     host.Use
	client  *host.Client
	user    host.User
	env     host.Environment
	managed []host.Managed
	effect  host.Effective // what managed comes to
	held    bool           // managed holds the gate's hooks
}

func newClaude(l AgentLaunch) agent { return &claude{common: common{AgentLaunch: l}} }

func (c *claude) registration() wire.Register {
	return wire.Register{Runtime: "claude", Command: c.client.Path, Unattended: c.use.Unattended}
}

func (c *claude) close() { c.client.Close() }

// prepare reads and checks everything that a launch depends on. It starts
// nothing.
func (c *claude) prepare() error {
	err := c.load()
	if err != nil {
		return err
	}
	if c.use, err = host.Claude.CheckArgs(c.Argv, c.config.Launch.AllowFlags); err != nil {
		return err
	}
	pass := c.config.Session.EnvPass
	if c.user, err = host.LoadUser(c.lookup, pass); err != nil {
		return err
	}
	if err := c.user.CheckRemote(); err != nil {
		return err
	}
	c.env = host.Filter(host.Over(c.Env, c.user.Env), pass)
	if err := c.env.CheckSwitches(); err != nil {
		return err
	}
	if err := c.lookManaged(); err != nil {
		return err
	}
	c.client, err = host.Find(host.Search{Program: host.ClaudeProgram, Path: c.lookup("PATH"), Home: c.lookup("HOME"), Self: c.programs.Guard, File: c.File})
	if err != nil {
		return err
	}
	c.tell()
	return nil
}

// tell says once what the session doesn't have.
func (c *claude) tell() {
	if c.client.Note != "" {
		c.Warn(c.client.Note)
	}
	dropped := append(slices.Clone(c.env.Dropped), c.user.Dropped...)
	slices.Sort(dropped)
	if dropped = slices.Compact(dropped); len(dropped) > 0 {
		c.Warn("dropped from the environment: " + strings.Join(dropped, ", "))
	}
	if len(c.user.Left) > 0 {
		c.Warn("not taken over from " + verdict.Object(c.user.SettingsFile) + ": " + strings.Join(c.user.Left, ", "))
	}
	if dir, err := workingDir(); err == nil {
		if files := host.ProjectFiles(dir); len(files) > 0 {
			c.Warn("project settings are not loaded: " + strings.Join(files, ", "))
		}
	}
}

// install is what this launch puts into the client, with a name for guard's MCP
// server.
func (c *claude) install(server string) host.Install {
	in := host.Install{
		Gate: c.programs.Gate, Guard: c.programs.Guard, Socket: c.Paths.BrokerSocket, BrokerUID: c.Paths.BrokerUID,
		Budget: c.config.Launch.Budget, Server: server,
	}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"} {
		if value := c.lookup(name); value != "" {
			in.ServerEnv = append(in.ServerEnv, name+"="+value)
		}
	}
	return in
}

// become turns this process into the client that was proved.
func (c *claude) become(res wire.Result) error {
	servers, err := c.serversFile(res.Session.ID)
	if err != nil {
		return err
	}
	args, err := c.sessionInstall(res.Launch.Server).Args(c.user, servers)
	if err != nil {
		return err
	}
	if err := c.client.Check(); err != nil {
		return err
	}
	if err := c.user.CheckRemote(); err != nil { // it may have come since
		return err
	}
	argv := append(append([]string{"claude"}, args...), c.Argv...)
	return become(c.client.Path, argv, environ(c.env.Vars, *res.Session))
}

// serversFile writes the user's MCP servers, which may hold secrets, to a file
// of this session's own.
func (c *claude) serversFile(session string) (string, error) {
	if len(c.user.Servers) == 0 {
		return "", nil
	}
	text, err := c.user.ServersFile()
	if err != nil {
		return "", err
	}
	root, err := c.Paths.Private(c.lookup, uint32(os.Getuid())) // #nosec G115 -- the kernel's uids are 32 bits
	if err != nil {
		return "", err
	}
	return privateFile(filepath.Join(root, "sessions"), session, "mcp", text)
}
