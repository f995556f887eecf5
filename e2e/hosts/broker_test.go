//go:build hosts

package hosts

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/wire"
)

// death is a run in which the broker dies right before the first event of a
// kind. Its script is played with guard and without; there the death is none.
type death struct {
	event  string
	steps  func(d *dying) []fakemodel.Step // of the main conversation
	others func(d *dying) []fakemodel.Conversation
	prompt string // default "go"
	begins bool   // the broker dies when the client has been executed
	ends   bool   // after the event no call is made any more
	heard  int    // how many of the event come before
}

// dying is one of the two runs.
type dying struct {
	*world
	approve, kill func()
	killing       string // a shell command that kills the broker
}

func (d *dying) bash(command string) fakemodel.Step {
	return fakemodel.Use("Bash", input(d.t, "command", command))
}

// helper is a subagent that says one thing.
func helper(before func()) fakemodel.Conversation {
	return fakemodel.Conversation{Name: "helper", Match: fakemodel.Prompted("HELPER:"), Steps: []fakemodel.Step{between(before, fakemodel.Say("helped"))}}
}

const callHelper = `{"description":"help","prompt":"HELPER: go","subagent_type":"general-purpose","run_in_background":false}`

var deaths = []death{
	{event: "SessionStart", begins: true, steps: func(*dying) []fakemodel.Step { return nil }},
	{event: "PreToolUse", steps: func(d *dying) []fakemodel.Step {
		return []fakemodel.Step{between(d.kill, probe{name: "read", tool: "Read", input: input(d.t, "file_path", d.Project+"/read.txt")}.step())}
	}},
	{event: "PostToolUse", steps: func(d *dying) []fakemodel.Step {
		return []fakemodel.Step{between(d.approve, d.bash(d.killing))}
	}},
	{event: "PostToolUseFailure", steps: func(d *dying) []fakemodel.Step {
		return []fakemodel.Step{between(d.approve, d.bash(d.killing+"; exit 3"))}
	}},
	{event: "CwdChanged", steps: func(d *dying) []fakemodel.Step {
		return []fakemodel.Step{between(d.approve, d.bash(d.killing+"; cd sub"))}
	}},
	{event: "PreCompact", steps: func(d *dying) []fakemodel.Step {
		return []fakemodel.Step{between(d.kill, long(d.bash("true")))}
	}},
	{event: "PostCompact", steps: func(d *dying) []fakemodel.Step {
		return []fakemodel.Step{long(d.bash("true"))}
	}, others: func(d *dying) []fakemodel.Conversation {
		c := fakemodel.Compaction()
		c.Steps[0] = between(d.kill, c.Steps[0])
		return []fakemodel.Conversation{c}
	}},
	{event: "SubagentStart", steps: func(d *dying) []fakemodel.Step {
		return []fakemodel.Step{between(d.approve, fakemodel.Use("Workflow", input(d.t, "script", "export const meta = {name:'w',description:'d'};\nawait agent('HELPER: one');\nawait agent('HELPER: two');\nreturn 1"))), fakemodel.Say("it runs in the background")}
	}, others: func(d *dying) []fakemodel.Conversation { return []fakemodel.Conversation{helper(d.kill)} }, heard: 1},
	{event: "SubagentStop", steps: func(d *dying) []fakemodel.Step {
		return []fakemodel.Step{between(d.approve, fakemodel.Use("Agent", callHelper))}
	}, others: func(d *dying) []fakemodel.Conversation { return []fakemodel.Conversation{helper(d.kill)} }},
	{event: "ConfigChange", steps: func(d *dying) []fakemodel.Step {
		return []fakemodel.Step{between(func() {
			d.kill()
			d.write(filepath.Join(d.Home, ".claude/settings.json"), object{"disableAllHooks": true})
			time.Sleep(2 * time.Second) // the client looks at its files once a second
		}, d.bash("true"))}
	}},
	{event: "SessionEnd", ends: true, steps: func(d *dying) []fakemodel.Step {
		return []fakemodel.Step{between(d.kill, fakemodel.Say("all done"))}
	}},
}

// TestBrokerDies: a broker that is gone never disturbs the host, and lets
// nothing through. For each hooked event, with the broker killed before it, the
// model is asked as often as without guard.
func TestBrokerDies(t *testing.T) {
	t.Parallel()
	for _, c := range deaths {
		t.Run(c.event, func(t *testing.T) {
			t.Parallel() // each broker is its run's own
			requests, exit := c.without(t)
			c.with(t, requests, exit)
		})
	}
}

// TestBrokerDiesBeforeSkillShell: the shell line of a skill, which only an
// administrator can give to a session, isn't run without a broker.
func TestBrokerDiesBeforeSkillShell(t *testing.T) {
	managed(t, object{})
	const skill = "/etc/claude-code/.claude/skills/run/SKILL.md"
	t.Cleanup(func() { must(t, os.RemoveAll("/etc/claude-code/.claude")) })
	var line string
	c := death{event: "PreSkillShellCommand", prompt: "/run", begins: true, ends: true, steps: func(d *dying) []fakemodel.Step {
		line = d.Marker + "-line"
		d.write(skill, "---\nname: run\ndescription: runs\n---\nNow: !`touch "+line+"`\n")
		return nil
	}}
	requests, exit := c.without(t)
	if _, err := os.Lstat(line); err != nil {
		t.Errorf("without guard the line doesn't run: %v", err)
	}
	c.with(t, requests, exit)
	if _, err := os.Lstat(line); err == nil {
		t.Error("the line ran without a broker")
	}
}

// tail are the calls after the death, all of which change something.
func (c death) tail(w *world) []act {
	if c.ends {
		return nil
	}
	return []act{
		{name: "late bash", tool: "Bash", input: w.touch(), want: "broker_unavailable"},
		{name: "late write", tool: "Write", input: input(w.t, "file_path", w.Marker+"2", "content", "x"), want: "broker_unavailable"},
		{name: "late mcp", tool: "mcp__stub__act", input: `{}`, want: "broker_unavailable"},
	}
}

func (c death) start(d *dying) []string {
	must(d.t, os.Mkdir(filepath.Join(d.Project, "sub"), 0o755))
	d.write(filepath.Join(d.Project, "read.txt"), "what it says")
	script := fakemodel.Script{Steps: append(c.steps(d), atOnce(c.tail(d.world)))}
	if c.others != nil {
		script.Others = c.others(d)
	}
	script.Others = append(script.Others, fakemodel.Compaction())
	d.script(script)
	d.userServers(object{"stub": d.stub("act")})
	if c.prompt == "" {
		c.prompt = "go"
	}
	return []string{"-p", c.prompt, "--dangerously-skip-permissions"}
}

// without is the run without guard: with hooks that only show that the event
// fires.
func (c death) without(t *testing.T) (requests, exit int) {
	d := &dying{world: newWorld(t), approve: func() {}, kill: func() {}, killing: "true"}
	o := d.runAs(append(c.start(d), "--settings="+d.watch("", ""), "--setting-sources=", "--mcp-config="+d.mcp("stub", "act"))...)
	if len(d.hooks(c.event)) == 0 {
		t.Errorf("without guard there is no %s: %q", c.event, names(d.hooks()))
	}
	if !c.ends && (!d.marked() || len(d.records("mcp-act")) != 1) {
		t.Errorf("without guard the calls at the end don't run: %q", d.results())
	}
	return d.Model.Count(), o.Exit
}

func (c death) with(t *testing.T, requests, exit int) {
	g := newGuarded(t, "")
	g.operate("broker", "start")
	pid := g.brokerPID()
	d := &dying{world: g.world, approve: g.approve, kill: func() { g.kill(pid) }, killing: "kill -9 " + itoa(pid)}
	args := c.start(d)
	if c.begins {
		go g.killAtStart(pid)
	}
	o := g.launchAs(append([]string{"--"}, args...)...)
	if got := g.Model.Count(); got != requests || o.Exit != exit {
		t.Errorf("%d requests and exit %d, without guard %d and %d; the model was told %q\n%s", got, o.Exit, requests, exit, g.results(), o.Stderr)
	}
	g.came(c.tail(g.world))
	if read := g.told("toolu_read"); c.event == "PreToolUse" && !strings.Contains(read, "guard: broker_unavailable: ") {
		t.Errorf("of a read the model was told %q", read)
	}
	_, err := os.Lstat(g.Marker + "2")
	if g.marked() || err == nil || len(g.records("mcp-act")) != 0 {
		t.Errorf("it ran without a broker: marked %v, %v", g.marked(), err)
	}
	launched := false // before that the client of the proof is heard
	if heard := g.logged(func(r audit.Record) bool {
		launched = launched || r.Code == "launched"
		return launched && r.HookEvent == c.event
	}); len(heard) > c.heard {
		t.Errorf("the broker lived to hear of %s: %+v", c.event, heard)
	}
	if g.up() {
		t.Error("the broker lives")
	}
}

func (g *guarded) brokerPID() int {
	g.t.Helper()
	var st wire.Status
	must(g.t, json.Unmarshal([]byte(g.guard("status", "--json").Stdout), &st))
	return st.Broker.PID
}

func (g *guarded) up() bool {
	conn, err := net.Dial("unix", filepath.Join(g.Dir, "run/guard/broker.sock"))
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// kill ends the broker at once.
func (g *guarded) kill(pid int) {
	_ = syscall.Kill(pid, syscall.SIGKILL)
	for g.up() {
		time.Sleep(time.Millisecond)
	}
}

// killAtStart ends the broker as soon as the client itself runs, which then needs
// some 100 ms to its first event.
func (g *guarded) killAtStart(pid int) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		all, _ := filepath.Glob("/proc/[0-9]*")
		if slices.ContainsFunc(all, func(proc string) bool {
			exe, _ := os.Readlink(proc + "/exe")
			argv, _ := os.ReadFile(proc + "/cmdline")
			cwd, _ := os.Readlink(proc + "/cwd")
			return exe == claude && strings.HasSuffix(cwd, g.Project) && bytes.Contains(argv, []byte("\x00--dangerously-skip-permissions\x00"))
		}) {
			g.kill(pid)
			return
		}
	}
}
