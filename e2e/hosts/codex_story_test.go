//go:build hosts

package hosts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// codexCame holds each act to what it had to come to. The Responses API doesn't
// say of a result that it is an error: a denial is known by the client's words.
func (w *world) codexCame(acts []act) {
	w.t.Helper()
	for _, a := range acts {
		text, found := strings.CutPrefix(w.told(a.probe().id()), "ok: ")
		denied := strings.Contains(text, " blocked by PreToolUse hook: guard: ")
		good := found && !denied && strings.Contains(text, strings.TrimPrefix(a.want, "ok: "))
		if !strings.Contains(a.want, ": ") {
			good = denied && strings.Contains(text, "guard: "+a.want+": ")
		}
		if !good {
			w.t.Errorf("%s: the model was told %q, want %q", a.name, text, a.want)
		}
	}
}

// TestCodexStory is the promise of the product on the real client, unattended and
// with nothing held back: nothing changes without a lease, nothing under a lease
// without a checkpoint that the model is told of, and lost context ends the lease.
func TestCodexStory(t *testing.T) {
	t.Parallel()
	g, sim := newProtected(t, "")
	g.ofCodex()
	file := filepath.Join(g.Project, "written")
	command := func(text string) string { return input(t, "cmd", text) }
	untouched := func() {
		if _, err := os.Lstat(file); err == nil || g.marked() || len(sim.Timings()) != 0 {
			t.Errorf("a denied call changed something: %v, marked %v, %d checkpoints", err, g.marked(), len(sim.Timings()))
		}
	}
	const vsphere = "mcp__vsphere__power_off_vm"
	off := func(vm string) string { return input(t, "vm_name", vm) }
	acts := []act{
		{name: "read early", tool: "exec_command", input: command("cat /etc/hostname"), want: "lease_unverified"}, // there is no tool that reads alone
		{name: "bash early", tool: "exec_command", input: command("touch " + g.Marker), want: "lease_unverified", after: untouched},
		{name: "patch early", tool: "exec_command", input: command("apply_patch <<'E'\n*** Begin Patch\n*** Add File: written\n+x\n*** End Patch\nE"), want: "lease_unverified", after: untouched},
		{name: "vm early", tool: vsphere, input: off("db-01"), want: "lease_unverified", after: untouched},
		{name: "bash", tool: "exec_command", input: command("touch " + g.Marker), want: "ok: exited with code 0", before: g.approve},
		{name: "vm", tool: vsphere, input: off("db-01"), want: "ok: ran power_off_vm"},
		{name: "vm aws", tool: vsphere, input: off("win-aws-01"), want: "checkpoint_unsupported"},
		{name: "vm unknown", tool: vsphere, input: off("nobody"), want: "vm_unknown"}, // ask, on which this host would run it
	}
	// The client compacts after a call whose turn made the conversation too long.
	full := act{name: "bash full", tool: "exec_command", input: command("true"), want: "ok: exited with code 0"}
	late := []act{
		{name: "bash late", tool: "exec_command", input: command("rm " + g.Marker), want: "lease_revoked"},
		{name: "vm late", tool: vsphere, input: off("db-01"), want: "lease_revoked"},
	}
	steps := plan(acts)
	steps = append(steps[:len(steps)-1], long(full.probe().step()))
	steps = append(steps, plan(late)...)
	g.codexSteps("[mcp_servers.vsphere]\ncommand = "+quoted(self)+"\nargs = [\"play-mcp\", "+quoted(g.Records)+", \"power_off_vm\"]\n", steps...)
	g.ok(g.launchCodex())
	g.codexCame(slices.Concat(acts, []act{full}, late))
	for name, vm := range map[string]string{"bash": "app-01", "vm": "db-01", "bash full": "app-01"} {
		g.toldOf(sim, name, vm)
	}
	if _, err := os.Lstat(file); err == nil || !g.marked() {
		t.Errorf("what was denied happened, or what was approved did not: %v, marked %v", err, g.marked())
	}
	if got := len(sim.Timings()); got != 3 || len(g.alarms()) != 0 || len(g.records("mcp-power_off_vm")) != 1 {
		t.Errorf("%d checkpoints for three passes, %d calls of the server, alarms %q", got, len(g.records("mcp-power_off_vm")), g.alarms())
	}
	g.lowered("the host told of lost context")
}

func quoted(s string) string { return `"` + s + `"` }
