package launcher

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/verdict"
	host "leaseguard.internal/launcher/runtime"
)

// Checked is what a launch of a runtime would find, as far as it can be found
// without starting a session.
type Checked struct {
	Runtime string
	Absent  bool     // this machine has no such client
	Path    string   // of the client; empty: none that can be launched
	Version string   // empty: not known
	Warning string   // what its version is worth
	Notes   []string // what a session would not have, in the launch's words
	Effect  []string // how the gate is installed in it, and what else holds there
	Faults  []host.Fault
	Digest  string // by which the broker knows the proof that the gate is asked
	Err     error  // why a launch would end before that, with the remedy
}

// examined is what a runtime tells of itself, once it is prepared.
type examined interface {
	// version asks the client, and judges it as the launch does.
	version(context.Context) (versionOf, error)
	// inEffect is how the gate is installed, and what is wrong with that.
	inEffect() installed
	// digest names the proof; server is empty where there is no recovery tool.
	digest(server string) (string, error)
	placeholder() string
}

// versionOf is a client's version, with a warning about it.
type versionOf struct{ text, warning string }

// installed is how the gate stands in a client.
type installed struct {
	effect []string
	faults []host.Fault
}

// Runtimes are the names that Agent takes.
func Runtimes() []string { return slices.Sorted(maps.Keys(agents)) }

// Check looks at a runtime as its launch would, and starts nothing but the client
// itself, to tell its version.
func Check(ctx context.Context, name string, l AgentLaunch) Checked {
	c := Checked{Runtime: name}
	l.look = true
	l.Warn = func(note string) { c.Notes = append(c.Notes, note) }
	start, ok := agents[name]
	if !ok {
		c.Absent = true
		return c
	}
	a := start(l)
	if c.Err = a.prepare(); c.Err != nil {
		c.Absent = errors.Is(c.Err, errUnused) || !present(common{AgentLaunch: l}, name)
		return c
	}
	defer a.close()
	c.Path = a.registration().Command
	in := a.inEffect()
	c.Effect, c.Faults = in.effect, in.faults
	v, err := a.version(ctx)
	c.Version, c.Warning, c.Err = verdict.Clean(v.text), v.warning, err
	c.Notes = slices.DeleteFunc(c.Notes, func(note string) bool { return note == c.Warning })
	if err != nil {
		return c
	}
	c.Digest, c.Err = a.digest(a.placeholder())
	return c
}

// placeholder stands for the name of the session's own MCP server, where it would
// have one.
func (c *common) placeholder() string {
	if c.config.Lease.Promotion != "self" {
		return ""
	}
	return "guard-0000000000000000"
}

// askVersion is versionLine for who only looks: root starts no program then that
// others may change.
func askVersion(ctx context.Context, runtime, path string, env []string) (string, error) {
	if os.Geteuid() == 0 {
		if err := safepath.File(path, 0); err != nil {
			return "", refuse(verdict.WiringUnproved, "asking for its version", path, "root starts no program that others may change: "+err.Error(), "run guard doctor as the user that launches it")
		}
	}
	return versionLine(ctx, runtime, path, env)
}

// versionLine is what the client's --version prints.
func versionLine(ctx context.Context, runtime, path string, env []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	cmd := together(ctx, path, "--version")
	cmd.Env = env
	said := &tail{}
	cmd.Stdout = said
	if err := cmd.Run(); err != nil {
		return "", refuse(verdict.WiringUnproved, "asking for its version", path, errors.Join(err, ctx.Err()).Error(), "guard launch "+runtime+" --client FILE")
	}
	return string(said.text), nil
}

// together is a run of the client that ends with all that it has started.
func together(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...) // #nosec G204 -- the client that is to be executed
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// present says whether anything is called as the runtime's client.
func present(c common, name string) bool {
	if name == "claudex" {
		name = host.ClaudeProgram.Name // it is that client, with a configuration of its own
	}
	places := []string{}
	for _, dir := range filepath.SplitList(c.lookup("PATH")) {
		places = append(places, filepath.Join(dir, name))
	}
	if name == host.ClaudeProgram.Name {
		places = append(places, filepath.Join(c.lookup("HOME"), host.ClaudeProgram.Local))
	}
	return slices.ContainsFunc(places, func(path string) bool {
		info, err := os.Stat(path)
		return filepath.IsAbs(path) && err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
	})
}
