//go:build hosts

package hosts

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/fakemodel"
)

// codexWay is a way in which a model changes something. Its marker is its own.
type codexWay struct {
	id, what string
	call     func(w *world, marker string) fakemodel.Call
}

var codexWays = []codexWay{
	{"model_command", "a shell command", func(w *world, marker string) fakemodel.Call {
		return fakemodel.Call{Name: "exec_command", Input: input(w.t, "cmd", "touch "+marker)}
	}},
	{"model_patch_heredoc", "apply_patch as a heredoc of a shell command, which the client carries out itself", func(w *world, marker string) fakemodel.Call {
		return fakemodel.Call{Name: "exec_command", Input: input(w.t, "cmd", "apply_patch <<'E'\n*** Begin Patch\n*** Add File: "+marker+"\n+x\n*** End Patch\nE\n")}
	}},
	{"model_mcp", "a call of an MCP server", func(w *world, marker string) fakemodel.Call {
		return fakemodel.Call{Name: "mcp__files__act", Input: input(w.t, "path", marker)}
	}},
}

// server is an MCP server of the user's. It records its calls.
func (w *world) server(name, tool string) string {
	return fmt.Sprintf("[mcp_servers.%s]\ncommand = %q\nargs = [\"play-mcp\", %q, %q]\n", name, self, w.Records, tool)
}

// TestCodexAttackModel: every way in which a model itself changes something is
// asked about, each in a turn of its own and all in one.
func TestCodexAttackModel(t *testing.T) {
	t.Parallel()
	for _, way := range codexWays {
		codexHole(way.id, way.what, "closed", "the gate is asked").report(t)
	}
	codexHole("model_parallel", "several calls in one turn", "closed", "the gate is asked about each").report(t)
	play := func(w *world) (markers []string) {
		var steps []fakemodel.Step
		var all []fakemodel.Call
		for i := range 2 * len(codexWays) {
			marker := fmt.Sprintf("%s-%d", w.Marker, i)
			call := codexWays[i%len(codexWays)].call(w, marker)
			if markers = append(markers, marker); i < len(codexWays) {
				steps = append(steps, fakemodel.UseAll(call))
			} else {
				all = append(all, call)
			}
		}
		w.codexSteps(w.server("files", "act"), append(steps, fakemodel.UseAll(all...))...)
		return markers
	}
	made := func(w *world, markers []string) (count int) {
		for i, marker := range markers {
			if _, err := os.Lstat(marker); err == nil || strings.HasPrefix(codexWays[i%len(codexWays)].id, "model_mcp") {
				count++
			}
		}
		return count - 2 + len(w.records("mcp-act"))
	}
	w := newWorld(t)
	w.forCodex()
	markers := play(w)
	w.ok(w.codex())
	if got := made(w, markers); got != len(markers) {
		t.Fatalf("without guard %d of %d calls have an effect: %q", got, len(markers), w.results())
	}
	g := newCodex(t, "")
	markers = play(g.world)
	g.ok(g.launchCodex())
	if got := made(g.world, markers); got != 0 {
		t.Errorf("under guard %d of %d calls have an effect", got, len(markers))
	}
	got := g.results()
	for _, r := range got {
		if !strings.Contains(r, " blocked by PreToolUse hook: guard: lease_unverified: ") {
			t.Errorf("the model was told %q", r)
		}
	}
	if len(got) != len(markers) {
		t.Errorf("%d results of %d calls", len(got), len(markers))
	}
}

// TestCodexAttackWriteStdin: a session that a passed call has left open takes no
// more input, which no hook would see.
func TestCodexAttackWriteStdin(t *testing.T) {
	t.Parallel()
	codexHole("model_write_stdin", "write_stdin gives a running command more to do, and no hook sees it", "closed",
		"features.unified_exec_tty=false: no command gets a terminal, so its standard input is closed").report(t)
	play := func(w *world, wrap func(fakemodel.Step) fakemodel.Step, then func(fakemodel.Step) fakemodel.Step) {
		w.codexSteps("",
			wrap(fakemodel.Use("exec_command", `{"cmd":"read x; eval \"$x\"","tty":true,"yield_time_ms":300}`)),
			then(writeStdin("touch "+w.Marker+"\n")),
			wrap(fakemodel.Use("exec_command", `{"cmd":"sleep 2; read x; eval \"$x\"","yield_time_ms":300}`)),
			then(writeStdin("touch "+w.Marker+"\n")))
	}
	same := func(s fakemodel.Step) fakemodel.Step { return s }
	w := newWorld(t)
	w.forCodex()
	play(w, same, same)
	w.ok(w.codex())
	if !w.marked() {
		t.Fatalf("without guard it has no effect: %q", w.results())
	}
	g := newCodex(t, "")
	play(g.world,
		func(s fakemodel.Step) fakemodel.Step { return between(g.approve, s) },
		func(s fakemodel.Step) fakemodel.Step { return between(g.revoke, s) })
	g.ok(g.launchCodex())
	if got := g.results(); g.marked() || len(got) < 1 || !strings.Contains(got[0], "TTY execution is disabled") {
		t.Errorf("marked %v, the model was told %q", g.marked(), got)
	}
}

// writeStdin writes to the command that the newest result says is running; to
// none, when it says of none.
func writeStdin(text string) fakemodel.Step {
	return func(ctx context.Context, r *fakemodel.Request) (fakemodel.Turn, error) {
		id := "1"
		if found, err := r.Find(regexp.MustCompile(`session ID (\d+)`)); err == nil {
			id = found[0]
		}
		chars, err := json.Marshal(text)
		if err != nil {
			return fakemodel.Turn{}, err
		}
		return fakemodel.Use("write_stdin", `{"session_id":`+id+`,"chars":`+string(chars)+`,"yield_time_ms":1000}`)(ctx, r)
	}
}

// TestCodexAttackSubagent: what a subagent asks for is asked about, with the
// parent's lease or without one.
func TestCodexAttackSubagent(t *testing.T) {
	t.Parallel()
	codexHole("model_spawn_agent", "a subagent makes the call in another conversation", "closed", "the gate is asked about its calls too").report(t)
	play := func(w *world, wrap, late func(fakemodel.Step) fakemodel.Step) {
		w.codexScript("", fakemodel.Script{
			Steps:  []fakemodel.Step{wrap(fakemodel.Use("spawn_agent", `{"message":"HELPER: go"}`)), w.helped(2)},
			Others: []fakemodel.Conversation{{Name: "helper", Match: fakemodel.Prompted("HELPER:"), Steps: []fakemodel.Step{late(w.mark())}}},
		})
	}
	same := func(s fakemodel.Step) fakemodel.Step { return s }
	w := newWorld(t)
	w.forCodex()
	play(w, same, same)
	if w.ok(w.codex()); !w.marked() {
		t.Fatalf("without guard it has no effect: %q", w.results())
	}
	g := newCodex(t, "")
	play(g.world, func(s fakemodel.Step) fakemodel.Step { return between(g.approve, s) }, func(s fakemodel.Step) fakemodel.Step { return between(g.revoke, s) })
	g.ok(g.launchCodex())
	if got := g.results(); g.marked() || len(got) != 2 || !strings.Contains(got[1], "guard: lease_revoked: ") {
		t.Errorf("marked %v, the model was told %q", g.marked(), got)
	}
}

// helped is a step that ends the turn once so many results are there, those of
// other conversations among them: the client would end before its subagents.
func (w *world) helped(results int) fakemodel.Step {
	return func(ctx context.Context, _ *fakemodel.Request) (fakemodel.Turn, error) {
		for len(w.Model.Results()) < results && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
		}
		return fakemodel.Turn{Text: "done"}, ctx.Err()
	}
}

// TestCodexHostedSearch: a search that the service makes itself is over when the
// client hears of it. It changes nothing on this host.
func TestCodexHostedSearch(t *testing.T) {
	t.Parallel()
	codexHole("hosted_web_search", "web_search is made by the model's service, and no hook sees it", "open",
		`it changes nothing here, but words of the session leave with it: launch with -c web_search="disabled"`).report(t)
	g := newCodex(t, "")
	g.codexSteps("", fakemodel.UseAll(fakemodel.Call{Item: `{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"x"}}`}), g.mark())
	g.ok(g.launchCodex())
	if !g.Model.Requests()[0].Offers("web_search") || g.heard("web_search", "lease_unverified") || g.marked() {
		t.Errorf("offered %v, heard %v, marked %v", g.Model.Requests()[0].Offers("web_search"), g.heard("web_search", "lease_unverified"), g.marked())
	}
	off := newCodex(t, "")
	off.codexSteps("")
	off.ok(off.launchCodex("-c", `web_search="disabled"`))
	if off.Model.Requests()[0].Offers("web_search") {
		t.Error("web_search is offered although it is disabled")
	}
}
