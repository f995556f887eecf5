//go:build hosts

package hosts

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/sandbox/sandboxtest"
	"leaseguard.internal/launcher/runtime"
)

// helpOption is an option's line of --help: names, then what stands for values.
var helpOption = regexp.MustCompile(`^  (-[^ ].*?)(?:  |$)`)

// TestOptionTable compares guard's table with what the pinned client says that
// it takes: a new option, one that is gone, and a changed arity are found here.
func TestOptionTable(t *testing.T) {
	w := newWorld(t)
	cmd := exec.Command(claude, "--help")
	cmd.Env = []string{"HOME=" + w.Home, "PATH=/usr/bin:/bin", "DISABLE_AUTOUPDATER=1"}
	text, err := cmd.Output()
	must(t, err)
	options, commands, ok := strings.Cut(string(text), "\nCommands:\n")
	if !ok {
		t.Fatalf("--help has no commands:\n%s", text)
	}
	shown := slices.DeleteFunc(slices.Clone(runtime.Claude.Options), func(o runtime.Option) bool { return o.Hidden })
	sameOptions(t, helpOptions(options), shown)
	for line := range strings.Lines(commands) {
		if !strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "   ") {
			continue
		}
		for _, name := range strings.Split(strings.Fields(line)[0], "|") {
			if !slices.Contains(runtime.Claude.Commands, name) {
				t.Errorf("the client has the command %s, the table doesn't", name)
			}
		}
	}
}

// helpOptions are the names of a --help with their arities.
func helpOptions(text string) map[string]runtime.Arity {
	have := map[string]runtime.Arity{}
	for line := range strings.Lines(text) {
		m := helpOption.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		names, value, _ := strings.Cut(m[1], " <")
		arity := runtime.None
		if value != "" {
			arity = runtime.One
		} else if names, value, _ = strings.Cut(m[1], " ["); value != "" {
			arity = runtime.Optional
		}
		if strings.HasSuffix(value, "...>") {
			arity = runtime.Many
		}
		for _, name := range strings.Split(names, ", ") {
			have[name] = arity
		}
	}
	return have
}

// sameOptions holds a client's options and guard's table to each other.
func sameOptions(t *testing.T, have map[string]runtime.Arity, table []runtime.Option) {
	t.Helper()
	want := map[string]runtime.Arity{}
	for _, o := range table {
		for _, name := range o.Names {
			want[name] = o.Arity
		}
	}
	for name, arity := range have {
		if got, known := want[name]; !known || got != arity {
			t.Errorf("the client has %s with arity %d, the table %d, %v", name, arity, got, known)
		}
	}
	for name := range want {
		if _, ok := have[name]; !ok {
			t.Errorf("the table has %s, which --help doesn't show", name)
		}
	}
}

// TestHiddenOptions: an option that passes though --help doesn't show it is one
// that the client knows. It stops at the first that it doesn't, or at a value
// that it doesn't take.
func TestHiddenOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.steps()
	for _, o := range runtime.Claude.Options {
		if !o.Hidden || o.Why != "" {
			continue
		}
		for _, name := range o.Names {
			out := w.runAs("-p", name+"=1", "--nosuch")
			if out.Exit != 1 || strings.Contains(out.Stderr, "'"+name) && !strings.Contains(out.Stderr, "argument '1' is invalid") {
				t.Errorf("with %s the client says %q", name, out.Stderr)
			}
		}
	}
}

// TestPassedOptionsKeepTheGate: what the table lets through silences nothing.
func TestPassedOptionsKeepTheGate(t *testing.T) {
	t.Parallel()
	for i, c := range []struct{ tool, args string }{
		{"Write", "--restricted --permission-mode acceptEdits"},
		{"Bash", "--verbose --output-format stream-json --include-hook-events --include-partial-messages --forward-subagent-text --prompt-suggestions true"},
		{"Bash", "--disable-slash-commands --exclude-dynamic-system-prompt-sections --no-session-persistence --max-turns 5 --effort low --permission-prompts none"},
		{"Bash", "--system-prompt short --system-prompt-snapshot off --append-system-prompt more --thinking disabled"},
		{"Bash", "--agent general-purpose --model sonnet --fallback-model haiku --add-dir /var --allowedTools Bash --tools Bash"},
		{"Bash", "--brief --ide --debug hooks --ax-screen-reader --autocompact auto --no-chrome --name x --max-budget-usd 5"},
		{"Bash", "--session-id 01234567-89ab-4def-8123-456789abcdef --dangerously-skip-permissions --disallowedTools WebFetch"},
		{"Bash", "--permission-mode bypassPermissions --chrome"},
	} {
		if i%2 != 0 && !sandboxtest.Nightly() {
			continue // TestOptionTable holds the whole table
		}
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			g := newGuarded(t, "")
			input := g.touch()
			if c.tool == "Write" {
				g.Marker = g.Project + "/marker"
				input = string(toJSON(t, object{"file_path": g.Marker, "content": "x"}))
			}
			g.steps(fakemodel.Use(c.tool, input))
			o := g.launchAs(append([]string{"--", "-p", "go"}, strings.Fields(c.args)...)...)
			if !g.denied() {
				t.Errorf("exit %d: %s", o.Exit, o.Stderr)
			}
		})
	}
}
