//go:build hosts

package hosts

import (
	"os"
	"strings"
	"testing"

	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/sandbox/sandboxtest"
)

// question has one answer per line.
const question = `{"questions":[{"question":"which?","header":"h","options":[{"label":"alpha","description":"x"},{"label":"beta","description":"y"}],"multiSelect":false}]}`

// plans is the directory in which the client tells the model to write its plan.
const plans = `(/\S+/\.claude/plans/[\w-]+\.md)`

// TestMeasurePerson drives calls that a person completes, refuses or interrupts
// in the terminal.
func TestMeasurePerson(t *testing.T) {
	const esc, yes = "\x1b", "\r"
	cases := []struct {
		probe
		mode, dialog string
		told         string // how what the model hears begins; nothing when a person stops the turn
		over         string // what the screen says then
	}{
		{probe{"answered", "AskUserQuestion", question, "Pre Post | differs +annotations +answers | same"}, "bypassPermissions", "1. alpha", "ok: Your questions have been answered", ""},
		{probe{"unanswered", "AskUserQuestion", question, "Pre | - | same"}, "bypassPermissions", "1. alpha", "", "Declined to answer"},
		{probe{"planning", "EnterPlanMode", `{}`, ""}, "bypassPermissions", "", "ok: Entered plan mode", ""},
		{probe{"planned", "ExitPlanMode", `{}`, ""}, "plan", "Exit plan mode?", "ok: User has approved", ""},
		{probe{"plan refused", "ExitPlanMode", `{}`, "Pre | - | same"}, "plan", "Exit plan mode?", "", "Rejected Claude's plan"},
		{probe{"no plan", "ExitPlanMode", `{}`, unasked}, "bypassPermissions", "", "error: <tool_use_error>You are not in plan mode", ""},
		{probe{"consented", "Bash", `{"command":"touch it"}`, ""}, "default", "Do you want to proceed?", "ok: ", ""},
		{probe{"refused", "Bash", `{"command":"touch it"}`, "Pre | - | same"}, "default", "Do you want to proceed?", "", "Interrupted"},
		{probe{"consented write", "Write", `{"file_path":"it","content":"x"}`, "Pre Post | bytes | ~file_path"}, "default", "Do you want to create", "ok: ", ""},
		{probe{"interrupted", "Bash", `{"command":"touch started; sleep 40"}`, "Pre | - | same"}, "bypassPermissions", "", "", "Interrupted"},
	}
	for i, c := range cases {
		if i%3 != 0 && !sandboxtest.Nightly() {
			continue // a person is slow
		}
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.steps(c.step(), fakemodel.Say("all said"))
			x := w.interact("--permission-mode="+c.mode, "--settings="+w.watch("", ""), "--setting-sources=")
			w.await("the start", func() bool { return len(w.hooks("SessionStart")) > 0 })
			x.shown("❯")
			x.enter("do it")
			if c.dialog != "" {
				x.shown(c.dialog)
			}
			if c.name == "interrupted" {
				w.await("the command's start", func() bool { _, err := os.Stat(w.Project + "/started"); return err == nil })
			}
			if c.told == "" {
				x.press(esc, "an end", func() bool { return strings.Contains(x.screen(), strings.ReplaceAll(c.over, " ", "")) })
			} else {
				x.press(yes, "an answer", func() bool { return len(w.hooks("Stop")) > 0 })
			}
			x.keys("\x03")
			x.keys("\x03")
			x.wait()
			w.report([]probe{c.probe})
			if asked := w.hooks("PermissionRequest"); (len(asked) > 0) != (c.dialog != "") {
				t.Errorf("PermissionRequest of %v", names(asked))
			}
			if ends := w.hooks("PostToolBatch", "Stop"); (len(ends) > 0) != (c.told != "") {
				t.Errorf("the turn's end was told by %v", names(ends))
			}
			if got := w.told(c.id()); !strings.HasPrefix(got, c.told) || c.told == "" && got != "" {
				t.Errorf("the model was told %q, want %q", got, c.told)
			}
		})
	}
}

// TestMeasurePlan: with a plan in the client's file, the hooks around
// ExitPlanMode have it as input, though the model said nothing.
func TestMeasurePlan(t *testing.T) {
	w := newWorld(t)
	write, leave := probe{"plan", "Write", `{"file_path":"WORD","content":"the plan"}`, "Pre Post | bytes | ~file_path"}, probe{"leave", "ExitPlanMode", `{}`, "Pre Post | differs -plan -planFilePath | +plan +planFilePath"}
	w.steps(find(write, plans), leave.step(), fakemodel.Say("all said"))
	x := w.interact("--permission-mode=plan", "--settings="+w.watch("", ""), "--setting-sources=")
	w.await("the start", func() bool { return len(w.hooks("SessionStart")) > 0 })
	x.shown("❯")
	x.enter("do it")
	w.await("ExitPlanMode", func() bool { return len(w.hooks("PermissionRequest")) > 0 })
	x.press("\r", "an answer", func() bool { return len(w.hooks("Stop")) > 0 })
	w.report([]probe{write, leave})
}

// TestMeasureShellEscape: a line that a person begins with ! is run without any
// hook of a tool call.
func TestMeasureShellEscape(t *testing.T) {
	w := newWorld(t)
	w.steps()
	x := w.interact("--dangerously-skip-permissions", "--settings="+w.watch("*", reason), "--setting-sources=")
	w.await("the start", func() bool { return len(w.hooks("SessionStart")) > 0 })
	x.shown("❯")
	x.keys("!")
	x.enter("touch " + w.Marker)
	w.await("the marker", w.marked)
	for _, e := range w.hooks() {
		if e.ToolUse != "" {
			t.Errorf("a hook fired: %s", e.Raw)
		}
	}
}
