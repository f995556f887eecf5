package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// What was lost on its way out is no success, whatever the command.
func TestOutputThatCantBeWritten(t *testing.T) {
	h := newHome(t)
	record(t, h, 3)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, line := range []string{"version", "version --json", "log", "log --json", "help", "launch --help", "completion zsh", "init --self none", "audit verify"} {
		t.Run(line, func(t *testing.T) {
			var stderr bytes.Buffer
			c := Command{Stdin: strings.NewReader(""), Stdout: full, Stderr: &stderr, Env: h.env}
			code := c.Main(strings.Fields(line))
			if said := stderr.String(); code != ExitUnfinished || strings.Count(said, "writing to stdout: ") != 1 || !strings.HasSuffix(said, "what was printed is not complete\n") {
				t.Errorf("exit %d, stderr %q", code, said)
			}
		})
	}
}

func TestErrorInJSONDoesntRepeatItsCode(t *testing.T) {
	h := newHome(t)
	h.env = append(h.env, "GUARD_SESSION=s1")
	got := h.guard("", "audit", "verify", "--json")
	if got.code != ExitRefused || !strings.HasPrefix(got.stderr, "guard: not_operator: ") || !strings.Contains(got.out, `"code": "not_operator"`) ||
		!strings.Contains(got.out, `"message": "no broker runs, `) {
		t.Errorf("%+v", got)
	}
}

func TestFlagErrorsAreInOurWords(t *testing.T) {
	h := newHome(t)
	for line, want := range map[string]string{
		"approve a --ttl 10":    `guard: --ttl "10": write a number with a unit, as in 10s or 5m`,
		"log -n x":              `guard: --lines "x": write a whole number, 0 or more`,
		"log --json=\x1b[1m":    `guard: --json "\x1b[1m": takes no value`,
		"log --tool":            "guard: flag needs an argument: --tool",
		"revoke a b --reason x": "guard: name one session",
		"help nope":             `guard: unknown command "nope"`,
		"help launch nope":      `guard: unknown command "launch nope"`,
		"completion tcsh":       `guard: unknown shell "tcsh"; want one of bash, zsh, fish`,
	} {
		got := h.guard("", strings.Fields(line)...)
		if got.code != ExitUsage || !strings.HasPrefix(got.stderr, want) {
			t.Errorf("guard %s: %+v; want %q", line, got, want)
		}
	}
}

func TestCompletion(t *testing.T) {
	h := newHome(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if got := h.guard("", "completion", shell); got.code != ExitDone || got.stderr != "" || !strings.Contains(got.out, "guard") {
			t.Errorf("%s: exit %d, stderr %q", shell, got.code, got.stderr)
		}
	}
	if got := h.guard("", "__complete", "appr"); !strings.HasPrefix(got.out, "approve\t") {
		t.Errorf("completing appr: %+v", got)
	}
}
