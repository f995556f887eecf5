//go:build hosts

package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/wire"
)

const selfPromotion = "[lease]\npromotion = \"self\"\n"

// What a model is told of the recovery tool: its name in guard's reason, the
// token in the tool's own answer.
var (
	recoveryName  = regexp.MustCompile(`call the tool (mcp__guard[-_][0-9a-f]{16}__recover|guard_[0-9a-f]{16}_recover) without arguments`)
	recoveryToken = regexp.MustCompile(`call this tool again with exactly these arguments: (\{"token": "lgt_[A-Za-z0-9_-]{43}"\})`)
)

// recover is a step that calls the recovery tool by the name that the request
// has; with arguments "" also by the token that it has.
func (a act) recover() fakemodel.Step {
	return func(_ context.Context, r *fakemodel.Request) (fakemodel.Turn, error) {
		name, err := r.Find(recoveryName)
		if err != nil {
			return fakemodel.Turn{}, err
		}
		if !r.Offers(name[0]) {
			return fakemodel.Turn{}, fmt.Errorf("%s isn't offered", name[0])
		}
		arguments := []string{a.input}
		if a.input == "" {
			if arguments, err = r.Find(recoveryToken); err != nil {
				return fakemodel.Turn{}, err
			}
		}
		if a.before != nil {
			a.before()
		}
		return fakemodel.Turn{Calls: []fakemodel.Call{{ID: a.probe().id(), Name: name[0], Input: arguments[0]}}}, nil
	}
}

// planSelf is plan for acts of which those without a tool are calls of the
// recovery tool.
func planSelf(acts []act) []fakemodel.Step {
	steps := plan(acts)
	for i, a := range acts {
		if a.tool == "" {
			steps[i] = a.recover()
		}
	}
	return steps
}

// TestRecovery: the agent gets its lease by itself, from nothing but what it was
// sent, in both modes that matter.
func TestRecovery(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"default", "bypassPermissions"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			g, sim := newProtected(t, selfPromotion)
			g.write(filepath.Join(g.Project, "AGENTS.md"), "Think before you touch.\n")
			g.write(filepath.Join(g.Home, ".claude/settings.json"), object{"permissions": object{"allow": []string{"Bash"}}})
			acts := []act{
				{name: "early", tool: "Bash", input: g.touch(), want: "lease_unverified"},
				{name: "begin", input: `{}`, want: "ok: Verification of session"},
				{name: "pending", tool: "Bash", input: g.touch(), want: "lease_pending"},
				{name: "promote", want: "ok: Session "},
				{name: "bash", tool: "Bash", input: g.touch(), want: "ok: "},
			}
			g.steps(planSelf(acts)...)
			g.ok(g.launchAs("--", "-p", "go", "--permission-mode="+mode))
			g.came(acts)
			g.toldOf(sim, "bash", "app-01")
			told := g.told("toolu_begin")
			if !strings.Contains(told, "Think before you touch.\n") || !g.marked() {
				t.Errorf("marked %v; the model was told %q", g.marked(), told)
			}
			name := recoveryName.FindStringSubmatch(g.told("toolu_early"))
			if first := g.Model.Requests()[0]; name == nil || !first.Offers(name[1]) {
				t.Errorf("the first request doesn't offer %q", name)
			}
			g.onlyTranscripts(recoveryToken.FindStringSubmatch(told))
		})
	}
}

// onlyTranscripts demands that a token stands in no file but the client's own
// transcript.
func (g *guarded) onlyTranscripts(m []string) {
	g.t.Helper()
	if m == nil {
		g.t.Error("no token was given")
		return
	}
	token := strings.Split(m[1], `"`)[3]
	must(g.t, filepath.WalkDir(g.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(token)) && !strings.HasPrefix(path, filepath.Join(g.Home, ".claude/projects")) && !strings.HasPrefix(path, filepath.Join(g.Dir, agentDir, "sessions")) {
			g.t.Errorf("the token stands in %s", path)
		}
		return err
	}))
}

// TestRecoveryReplay: a token that is used a second time raises an alarm and
// takes the lease that it gave.
func TestRecoveryReplay(t *testing.T) {
	t.Parallel()
	g, _ := newProtected(t, selfPromotion)
	acts := []act{
		{name: "early", tool: "Bash", input: g.touch(), want: "lease_unverified"},
		{name: "begin", input: `{}`, want: "ok: "},
		{name: "promote", want: "ok: "},
		{name: "again", want: "error: guard: token_used: ", before: func() {
			if s := g.session(); s.State != "VERIFIED" {
				t.Errorf("before the replay the session is %+v", s)
			}
		}},
		{name: "bash", tool: "Bash", input: g.touch(), want: "lease_revoked"},
	}
	g.steps(planSelf(acts)...)
	g.ok(g.launch())
	g.came(acts)
	if g.marked() {
		t.Error("it ran without a lease")
	}
	if r := g.awaitLog("the alarm", func(r audit.Record) bool { return r.Event == audit.EventAlarm }); r.Code != "token_used" || r.State != "UNVERIFIED" {
		t.Errorf("the alarm is %+v", r)
	}
}

// playRecover is a program of the agent's that asks the broker for a lease by
// itself: play-recover. It says how each verb was refused.
func playRecover([]string) int {
	p, err := paths.Resolve(os.Getenv, uint32(os.Getuid()))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for _, ctl := range []wire.Control{
		{Verb: wire.VerbContext},
		{Verb: wire.VerbRecoverBegin, Documents: []wire.Document{{Name: "AGENTS.md", Missing: true}}},
		{Verb: wire.VerbRecoverPromote, Token: "lgt_" + strings.Repeat("A", 43), Documents: []wire.Document{{Name: "AGENTS.md", Missing: true}}},
	} {
		res, err := client.Inside(p).Do(context.Background(), ctl, nil)
		var refused *wire.Error
		if errors.As(err, &refused) {
			fmt.Printf("[%s %s]\n", ctl.Verb, refused.Message)
			continue
		}
		fmt.Printf("[%s ANSWERED %+v %v]\n", ctl.Verb, res, err)
	}
	return 0
}

// TestRecoveryOnlyByTheTool: a program that the agent starts can't recover, not
// even as the very child of the client, nor by another guard mcp.
func TestRecoveryOnlyByTheTool(t *testing.T) {
	t.Parallel()
	g, _ := newProtected(t, selfPromotion)
	ask := self + " play-recover"
	mcp := `printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}'` +
		` '{"jsonrpc":"2.0","method":"notifications/initialized"}' '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"recover","arguments":{}}}'`
	acts := []act{
		{name: "early", tool: "Bash", input: g.touch(), want: "lease_unverified"},
		{name: "begin", input: `{}`, want: "ok: "},
		{name: "promote", want: "ok: "},
		{name: "child", tool: "Bash", input: input(t, "command", ask+"; true"), want: "ok: "},
		{name: "in place", tool: "Bash", input: input(t, "command", "exec "+ask), want: "ok: "},
		{name: "orphan", tool: "Bash", input: input(t, "command", "(setsid "+ask+" >"+g.Project+"/orphan 2>&1 &); while ! grep -q promote "+g.Project+"/orphan; do sleep 0.05; done; cat "+g.Project+"/orphan"), want: "ok: "},
		{name: "mcp", tool: "Bash", input: input(t, "command", "("+mcp+"; sleep 1) | "+g.bin+"/guard mcp --server guard-0123456789abcdef"), want: "ok: "},
		{name: "still", tool: "Bash", input: g.touch(), want: "ok: "},
	}
	g.steps(planSelf(acts)...)
	g.ok(g.launch())
	g.came(acts)
	for _, name := range []string{"child", "in place", "orphan", "mcp"} {
		told := g.told(probe{name: name}.id())
		if n := strings.Count(told, "guard: not_operator: "); strings.Contains(told, "ANSWERED") || strings.Contains(told, "lgt_") || n != 3 && (name != "mcp" || n != 1) {
			t.Errorf("%s: the model was told %q", name, told)
		}
	}
	if n := len(g.logged(func(r audit.Record) bool { return r.Code == "begin" })); n != 1 {
		t.Errorf("%d begins, want the tool's own", n)
	}
}

// TestRecoveryHasNoDouble: a project's server that calls itself like guard's is
// not started; one of the user's own is a server like any other.
func TestRecoveryHasNoDouble(t *testing.T) {
	t.Parallel()
	const project, user = "mcp__guard-0000000000000000__recover", "mcp__guard-1111111111111111__recover"
	g, _ := newProtected(t, selfPromotion)
	acts := []act{
		{name: "early", tool: "Bash", input: g.touch(), want: "lease_unverified"},
		{name: "project", tool: project, input: `{}`, want: "error: <tool_use_error>Error: No such tool available: " + project},
		{name: "user", tool: user, input: `{}`, want: "lease_unverified"},
	}
	g.steps(plan(acts)...)
	double := func(name string) object { return object{name: g.stub("recover")} }
	g.write(filepath.Join(g.Project, ".mcp.json"), object{"mcpServers": double("guard-0000000000000000")})
	g.userServers(double("guard-1111111111111111"))
	g.ok(g.launch())
	g.came(acts)
	first := g.Model.Requests()[0]
	offered := slices.ContainsFunc(first.Tools, func(tool fakemodel.Tool) bool { return tool.Name == project })
	if offered || len(g.records("mcp-recover")) != 0 || g.marked() {
		t.Errorf("offered %v, called %q", offered, g.records("mcp-recover"))
	}
}
