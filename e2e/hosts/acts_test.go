//go:build hosts

package hosts

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/wire"
	"leaseguard.internal/internal/zvmsim"
)

// catalogText is the operator's list for the stub MCP server.
const catalogText = `
[[tool]]
match = "mcp__vsphere__power_off_vm"
class = "mutating"
vm_arg = "vm_name"
`

// newProtected makes a guarded world whose host is the machine app-01 of a
// simulated ZVM. config is put before the sections that this needs.
func newProtected(t *testing.T, config string) (*guarded, *zvmsim.Server) {
	t.Helper()
	dir, err := os.MkdirTemp("", "zvm")
	must(t, err)
	fast, err := zvmsim.Preset("fast")
	must(t, err)
	sim, err := zvmsim.Start(zvmsim.Options{Dir: dir, Behaviour: &fast})
	must(t, err)
	t.Cleanup(func() {
		must(t, sim.Close())
		must(t, os.RemoveAll(dir))
	})
	info := sim.Info()
	text := fmt.Sprintf("%s\n[zvm]\nurl = %q\nca_file = %q\nclient_id = %q\nclient_secret_file = %q\naccept_same_uid = true\n%s",
		config, info.URL, info.CAFile, info.ClientID, filepath.Join(dir, zvmsim.FileSecret), catalogText)
	if !strings.Contains(text, "[checkpoint]") {
		text += "\n[checkpoint]\nself = \"app-01\"\n"
	}
	return newGuarded(t, text), sim
}

// userServers gives the user MCP servers of their own scope, in the client's state.
func (w *world) userServers(servers object) {
	w.t.Helper()
	text, err := os.ReadFile(w.State)
	must(w.t, err)
	var state object
	must(w.t, json.Unmarshal(text, &state))
	state["mcpServers"] = servers
	w.write(w.State, state)
}

// stub is an MCP server of the given tools.
func (w *world) stub(tools ...string) object {
	return object{"type": "stdio", "command": self, "args": append([]string{"play-mcp", w.Records}, tools...)}
}

// act is one call of the scripted model in a turn of its own, and what it must
// come to. want is how the model's result begins; a word that ends in no colon
// is a code of guard's, which denies. before runs while the model thinks, after
// when it has got the result.
type act struct {
	name, tool, input string
	want              string
	before, after     func()
}

func (a act) probe() probe { return probe{name: a.name, tool: a.tool, input: a.input} }

// plan makes a script of acts. Its last step says that all is done.
func plan(acts []act) []fakemodel.Step {
	var steps []fakemodel.Step
	after := func() {}
	for _, a := range acts {
		steps = append(steps, between(after, between(a.before, a.probe().step())))
		after = a.after
	}
	return append(steps, between(after, fakemodel.Say("all done")))
}

// between does something before a step.
func between(do func(), then fakemodel.Step) fakemodel.Step {
	return fakemodel.After(func(context.Context, *fakemodel.Request) error {
		if do != nil {
			do()
		}
		return nil
	}, then)
}

// came holds each act to what it had to come to.
func (w *world) came(acts []act) {
	w.t.Helper()
	for _, a := range acts {
		got := w.told(a.probe().id())
		good := strings.HasPrefix(got, a.want)
		if !strings.Contains(a.want, ": ") {
			good = strings.HasPrefix(got, "error: ") && strings.Contains(got, "guard: "+a.want+": ")
		}
		if !good || got == "" {
			w.t.Errorf("%s: the model was told %q, want %q", a.name, got, a.want)
		}
	}
}

// session is the broker's only one.
func (g *guarded) session() wire.Session {
	g.t.Helper()
	all := g.sessions()
	if len(all) != 1 {
		g.t.Errorf("%d sessions, want one", len(all))
		return wire.Session{}
	}
	return all[0]
}

// approve gives the session a lease, as its operator.
func (g *guarded) approve() { g.t.Helper(); g.operate("approve", g.session().ID) }

// revoke takes it away.
func (g *guarded) revoke() { g.t.Helper(); g.operate("revoke", g.session().ID) }

// operate runs one of guard's commands, which has to succeed.
func (g *guarded) operate(args ...string) {
	g.t.Helper()
	if out := g.guard(args...); out.Exit != 0 {
		g.t.Errorf("guard %q ended with %d: %s", args, out.Exit, out.Stderr)
	}
}

// logged lists the records so far for which want says yes.
func (g *guarded) logged(want func(audit.Record) bool) []audit.Record {
	g.t.Helper()
	var all []audit.Record
	out := g.guard("log", "--json")
	for line := range bytes.Lines([]byte(out.Stdout)) {
		r, err := audit.DecodeRecord(bytes.TrimSuffix(line, []byte("\n")))
		must(g.t, err)
		if want(r) {
			all = append(all, r)
		}
	}
	return all
}

// awaitLog waits for a record: what grants nothing is on disk a little later.
func (g *guarded) awaitLog(what string, want func(audit.Record) bool) audit.Record {
	g.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if all := g.logged(want); len(all) > 0 {
			return all[len(all)-1]
		}
		if time.Now().After(end) {
			g.t.Fatalf("waited %v for a record of %s", patience, what)
		}
	}
}

// lowered waits until the lease was lowered for a reason with these words.
func (g *guarded) lowered(words string) {
	g.t.Helper()
	g.awaitLog("lowering: "+words, func(r audit.Record) bool {
		return r.Event == audit.EventLease && r.Code == "lowered" && strings.Contains(r.Reason, words)
	})
}

// alarms lists the alarms so far, by code.
func (g *guarded) alarms() (codes []string) {
	g.t.Helper()
	for _, r := range g.logged(func(r audit.Record) bool { return r.Event == audit.EventAlarm }) {
		codes = append(codes, r.Code)
	}
	return codes
}

// passed is the record of an act's pass.
func (g *guarded) passed(name string) audit.Record {
	g.t.Helper()
	id := probe{name: name}.id()
	return g.awaitLog("the pass of "+name, func(r audit.Record) bool {
		return r.Event == audit.EventVerdict && r.Verdict == "pass" && r.ToolUse == id
	})
}

// protected is how the client tells the model of a checkpoint.
var protected = regexp.MustCompile(`guard: this call is protected\. VM "([^"]+)" in VPG "([^"]+)": checkpoint (\S+), tag "([^"]+)", taken`)

// answered is all that the model was told since it said something itself: Codex
// puts what a hook adds before the result, in a message of its own.
func answered(r *fakemodel.Request) string {
	text := ""
	for _, m := range r.Messages {
		if text += m.Text() + "\n"; m.Role == "assistant" {
			text = ""
		}
	}
	return text
}

// toldOf demands that the request right after an act's result told the model of
// the very checkpoint that the audit has, and that the ZVM holds it.
func (g *guarded) toldOf(sim *zvmsim.Server, name, vm string) {
	g.t.Helper()
	r := g.passed(name)
	if len(r.Checkpoint) != 1 || r.Checkpoint[0].VM != vm || r.Code != "checkpoint_confirmed" {
		g.t.Errorf("%s: the record has %s with %+v, want one checkpoint of %s", name, r.Code, r.Checkpoint, vm)
		return
	}
	c := r.Checkpoint[0]
	want := []string{c.VM, c.VPG, c.ID, c.Tag}
	told := false
	for _, req := range g.Model.Requests() {
		if last, err := req.Last(); err != nil || last.ID != r.ToolUse {
			continue
		}
		told = true
		if said := protected.FindAllStringSubmatch(answered(req), -1); len(said) != 1 || !slices.Equal(said[0][1:], want) {
			g.t.Errorf("%s: the model was told of %q, the audit has %q", name, said, want)
		}
	}
	if !told {
		g.t.Errorf("%s: no request follows its result", name)
	}
	for _, t := range sim.Timings() {
		if t.Tag == c.Tag && t.VPG == c.VPG && t.ReadBy != 0 {
			return
		}
	}
	g.t.Errorf("%s: the ZVM has no tag %q in %s", name, c.Tag, c.VPG)
}
