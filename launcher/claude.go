package launcher

import (
	"os"
	"path/filepath"
	"slices"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
	host "leaseguard.internal/launcher/runtime"
)

// claude is what a launch of Claude, under either of its names, has found out
// before it registers.
type claude struct {
	common
	name    string // claude or claudex
	table   host.Table
	use     host.Use
	client  *host.Client
	user    host.User
	env     host.Environment
	managed []host.Managed
	effect  host.Effective // what managed comes to
	held    bool           // managed holds the gate's hooks
}

func newClaude(l AgentLaunch) agent {
	return &claude{common: common{AgentLaunch: l}, name: "claude", table: host.Claude}
}

func (c *claude) registration() wire.Register {
	return wire.Register{Runtime: c.name, Command: c.client.Path, Unattended: c.use.Unattended}
}

func (c *claude) close() { c.client.Close() }

// prepare reads and checks everything that a launch depends on. It starts
// nothing, and writes to the settings of claudex only once all else is good.
func (c *claude) prepare() error {
	err := c.load()
	if err != nil {
		return err
	}
	if c.use, err = c.table.CheckArgs(c.Argv, c.config.Launch.AllowFlags); err != nil {
		return err
	}
	if c.name == "claudex" {
		if err := c.isolate(); err != nil {
			return err
		}
	}
	if err := c.loadUser(); err != nil {
		return err
	}
	if err := c.lookManaged(); err != nil {
		return err
	}
	program := host.ClaudeProgram
	program.Launch = c.name
	c.client, err = host.Find(host.Search{Program: program, Path: c.lookup("PATH"), Home: c.lookup("HOME"), Self: c.programs.Guard, File: c.File})
	if err != nil {
		return err
	}
	if c.name == "claudex" {
		if err := c.settle(); err != nil {
			c.client.Close()
			return err
		}
	}
	c.tell()
	return nil
}

// loadUser takes over what the user's own files say, environment included.
func (c *claude) loadUser() error {
	dir, err := workingDir()
	if err != nil {
		return err
	}
	pass := c.config.Session.EnvPass
	if c.user, err = host.LoadUser(c.lookup, pass, dir); err != nil {
		return err
	}
	if err := c.user.CheckRemote(); err != nil {
		return err
	}
	c.env = host.Filter(host.Over(c.Env, c.user.Env), pass)
	return c.env.CheckSwitches()
}

// tell says once what the session doesn't have.
func (c *claude) tell() {
	if c.client.Note != "" {
		c.Warn(c.client.Note)
	}
	dropped := append(slices.Clone(c.env.Dropped), c.user.Dropped...)
	slices.Sort(dropped)
	c.say("dropped from the environment", slices.Compact(dropped))
	c.say("not taken over from "+verdict.Object(c.user.SettingsFile), c.user.Left)
	for _, note := range c.user.Notes {
		c.Warn(note)
	}
	if len(c.user.Memory) > 0 && c.use.PromptFile {
		c.Warn("not taken over: the user's instructions, since --append-system-prompt-file takes their place")
	}
	if dir, err := workingDir(); err == nil {
		c.say("project settings are not loaded", host.ProjectFiles(dir))
	}
}

// become turns this process into the client that was proved.
func (c *claude) become(res wire.Result) error {
	files, err := c.files(res.Session.ID)
	if err != nil {
		return err
	}
	args, err := c.install(res.Launch.Server).Args(c.user, files)
	if err != nil {
		return err
	}
	if err := c.client.Check(); err != nil {
		return err
	}
	if err := c.user.CheckRemote(); err != nil { // it may have come since
		return err
	}
	argv := append(append([]string{host.ClaudeProgram.Name}, args...), c.Argv...)
	return become(c.client.Path, argv, environ(c.env.Vars, *res.Session))
}

// files writes what the client reads and what stands in no argument, since it may
// hold secrets.
func (c *claude) files(session string) (f host.Files, err error) {
	var servers, memory []byte
	if len(c.user.Servers) > 0 {
		if servers, err = c.user.ServersFile(); err != nil {
			return f, err
		}
	}
	if !c.use.PromptFile {
		memory = c.user.Memory
	}
	for _, w := range []struct {
		to   *string
		name string
		text []byte
	}{
		{&f.Servers, "mcp.json", servers},
		{&f.Memory, "memory.md", memory},
		{&f.Helper, "helper.sh", []byte(c.user.KeyHelper)},
	} {
		if len(w.text) == 0 {
			continue
		}
		if *w.to, err = c.file(session, w.name, w.text); err != nil {
			return f, err
		}
	}
	return f, nil
}

// file writes a file of this session's own.
func (c *claude) file(session, name string, text []byte) (string, error) {
	root, err := c.Paths.Private(c.lookup, uint32(os.Getuid())) // #nosec G115 -- the kernel's uids are 32 bits
	if err != nil {
		return "", err
	}
	return privateFile(filepath.Join(root, "sessions"), session, name, text)
}
