//go:build hosts

package hosts

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/sandbox/sandboxtest"
	"leaseguard.internal/launcher/runtime"
)

// TestPiOptionTable compares guard's table with what the pinned Pi says that it
// takes: a new option, one that is gone, and a changed arity are found here.
func TestPiOptionTable(t *testing.T) {
	w := newWorld(t)
	cmd := exec.Command(piNode, piScript, "--help")
	cmd.Env = []string{"HOME=" + w.Home, "PATH=/usr/bin:/bin", "PI_OFFLINE=1"}
	text, err := cmd.Output()
	must(t, err)
	_, text2, _ := strings.Cut(string(text), "\nCommands:\n")
	commands, rest, ok := strings.Cut(text2, "\nOptions:\n")
	options, _, ok2 := strings.Cut(rest, "\nExtensions can register")
	if !ok || !ok2 {
		t.Fatalf("--help is written otherwise now:\n%s", text)
	}
	have := helpOptions(options)
	delete(have, "--") // the end of options is none
	// It takes a second, optional value, which is an operand to guard.
	if have["--export"] != runtime.One || len(have) < 50 {
		t.Errorf("%d options: %v", len(have), have)
	}
	sameOptions(t, have, runtime.PiTable.Options)
	for line := range strings.Lines(commands) {
		words := strings.Fields(line)
		if len(words) > 1 && words[0] == "pi" && !strings.HasPrefix(words[1], "<") && !slices.Contains(runtime.PiTable.Commands, words[1]) {
			t.Errorf("Pi has the command %s, the table doesn't", words[1])
		}
	}
}

// TestPiPassedOptionsKeepTheGate: what the table lets through silences nothing.
func TestPiPassedOptionsKeepTheGate(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"-ne -na -ns -np -nc --no-themes --no-session --no-mcp --tools bash --exclude-tools read --thinking off --name x --verbose --mode json",
		"-nbt -t +bash --system-prompt short --append-system-prompt more --session-dir DIR/s",
		"--session-id 01234567-89ab-4def-8123-456789abcdef --models fake/* --provider fake --use-theme dark",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			g := newPi(t, "")
			g.piSteps(fakemodel.Use("bash", g.touch()))
			o := g.launchPi(strings.Fields(strings.ReplaceAll(args, "DIR", g.Dir))...)
			if !g.denied() {
				t.Errorf("exit %d: %s", o.Exit, o.Stderr)
			}
		})
	}
}

// TestPiLaunchArguments: Pi gets its user's arguments byte for byte.
func TestPiLaunchArguments(t *testing.T) {
	t.Parallel()
	g := newPi(t, "")
	prompts := []string{"two words\nand a line", "ünï 'quoted' \"twice\" $HOME `x`", "-- not an option"}
	for range 15 {
		prompts = append(prompts, strings.Repeat("x", 100_000))
	}
	g.piSteps()
	g.ok(g.launchAs(slices.Concat([]string{"--"}, piFlags, []string{"-p", "--"}, prompts)...))
	all := g.Model.Requests()
	var said []string
	for _, m := range all[len(all)-1].Messages {
		if m.Role == "user" {
			said = append(said, m.Text())
		}
	}
	if !slices.Equal(said, prompts) {
		t.Errorf("the model was asked %d prompts, of which the first are %.200q", len(said), said)
	}
}

// TestPiLaunchEndsAsDirect: exit status and signals are those of a direct start.
func TestPiLaunchEndsAsDirect(t *testing.T) {
	t.Parallel()
	args := append([]string{"-p", "go"}, piFlags...)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
		if sig != syscall.SIGTERM && !sandboxtest.Nightly() {
			continue
		}
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			want := endingPi(t, piNode, sig, append([]string{piScript}, args...)...)
			got := endingPi(t, "", sig, append([]string{"launch", "pi", "--"}, args...)...)
			if got != want {
				t.Errorf("under guard Pi ended with %q, by itself with %q", got, want)
			}
		})
	}
	t.Run("failing", func(t *testing.T) {
		t.Parallel()
		g := newPi(t, "")
		g.piSteps()
		wrong := []string{"-p", "go", "--offline", "--model", "nobody/nothing"}
		want, got := g.piAs(wrong...), g.launchAs(append([]string{"--"}, wrong...)...)
		if got.Exit != want.Exit || got.Exit == 0 || !strings.HasSuffix(got.Stderr, want.Stderr) {
			t.Errorf("under guard exit %d with %q, by itself %d with %q", got.Exit, got.Stderr, want.Exit, want.Stderr)
		}
	})
}

func endingPi(t *testing.T, program string, sig syscall.Signal, args ...string) string {
	t.Helper()
	g := newPi(t, "")
	if program == "" {
		program = filepath.Join(g.bin, "guard")
	}
	return endingWith(t, g, g.piScript, program, sig, args...)
}

// TestPiNothingLeft: nothing of guard is between Pi and its parent, or below it
// when no call is judged, but the recovery tool's server.
func TestPiNothingLeft(t *testing.T) {
	for config, want := range map[string]string{"": "", "[lease]\npromotion = \"self\"\n[checkpoint]\nself = \"none\"\n": "guard mcp"} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			g := newPi(t, config)
			g.piSteps(func(context.Context, *fakemodel.Request) (fakemodel.Turn, error) {
				pid := itoa(g.session().AnchorPID)
				exe, err := os.Readlink("/proc/" + pid + "/exe")
				must(t, err)
				children, err := readAll("/proc/" + pid + "/task/" + pid + "/children")
				must(t, err)
				var below []string
				for _, child := range strings.Fields(children) {
					line, err := readAll("/proc/" + child + "/cmdline")
					must(t, err)
					words := strings.Split(line, "\x00")
					below = append(below, filepath.Base(words[0])+" "+words[1])
				}
				if filepath.Base(exe) != "node" || strings.Join(below, ", ") != want {
					t.Errorf("the session is %q, and below it runs %q, want %q", exe, below, want)
				}
				return fakemodel.Turn{Text: "done"}, nil
			})
			g.ok(g.launchPi())
		})
	}
}

// passedTool is the record of the last pass of a tool.
func (g *guarded) passedTool(tool string) audit.Record {
	g.t.Helper()
	return g.awaitLog("a pass of "+tool, func(r audit.Record) bool {
		return r.Event == audit.EventVerdict && r.Verdict == "pass" && r.Tool == tool
	})
}
