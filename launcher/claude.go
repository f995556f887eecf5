package launcher

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
	host "leaseguard.internal/launcher/runtime"
)

// ClaudeLaunch is a launch of Claude. Argv holds the arguments of the client,
// which it gets byte for byte behind guard's own.
type ClaudeLaunch struct {
	Launch
	File    string // the native program; empty: looked for
	NoCache bool   // prove the gate also if that was done within a day
}

// claude is what a launch has found out before it registers.
type claude struct {
	ClaudeLaunch
	programs client.Programs
	config   *config.Config
	use      host.Use
	client   *host.Client
	user     host.User
	env      host.Environment
	managed  []host.Managed
}

// Claude finds the native client, installs the gate in it by settings that no
// file changes, has the client prove that it asks the gate, and becomes it. It
// returns only when it could not; whatever isn't proved isn't executed.
func Claude(ctx context.Context, l ClaudeLaunch) error {
	c := &claude{ClaudeLaunch: l}
	if err := c.prepare(); err != nil {
		return err
	}
	defer c.client.Close()
	res, conn, err := c.register(ctx, wire.Register{
		Runtime: "claude", Command: c.client.Path, Unattended: c.use.Unattended,
	})
	if err != nil {
		return err
	}
	if res.Launch == nil || res.Launch.Nonce == "" {
		return fmt.Errorf("%w: registration without a nonce; when guard was updated: guard broker restart", client.ErrAnswer)
	}
	if err := c.prove(ctx, *res.Launch); err != nil {
		return err
	}
	return c.start(res, conn)
}

// prepare reads and checks everything that a launch depends on. It starts
// nothing.
func (c *claude) prepare() error {
	var err error
	if c.config, err = config.Load(c.Paths.Config, c.Paths.Mode, c.Paths.BrokerUID); err != nil {
		return &wire.Error{Code: string(verdict.ConfigInvalid), Message: err.Error()}
	}
	if c.use, err = host.Claude.CheckArgs(c.Argv, c.config.Launch.AllowFlags); err != nil {
		return err
	}
	if c.programs, err = client.Siblings(); err != nil {
		return err
	}
	if err := safepath.File(c.programs.Gate, c.Paths.BrokerUID); err != nil {
		return refuse(verdict.WiringUnproved, "installing", c.programs.Gate, err.Error(), "put guard's programs together into a directory that only root or the broker's user may write")
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
	c.managed = host.ReadManaged()
	c.client, err = host.Find(host.Search{Path: c.lookup("PATH"), Home: c.lookup("HOME"), Self: c.programs.Guard, File: c.File})
	if err != nil {
		return err
	}
	c.tell()
	return nil
}

// lookup reads the launcher's own environment; the last of equal names counts.
func (c *claude) lookup(name string) string {
	value := ""
	for _, v := range c.Env {
		if rest, ok := strings.CutPrefix(v, name+"="); ok {
			value = rest
		}
	}
	return value
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

// start becomes the client that was proved.
func (c *claude) start(res wire.Result, conn net.Conn) error {
	servers, err := c.serversFile(res.Session.ID)
	if err != nil {
		return err
	}
	args, err := c.install(res.Launch.Server).Args(c.user, servers)
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
	err = become(c.client.Path, argv, environ(c.env.Vars, *res.Session))
	runtime.KeepAlive(conn) // a finalizer would tell the broker that the runtime runs
	return err
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

func refuse(code verdict.Code, what, object, cause, next string) error {
	return &wire.Error{Code: string(code), Message: verdict.Reason(code, what, verdict.Object(object), cause, next)}
}
