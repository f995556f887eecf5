package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/paths"
)

// home is a user's directory of the test's own, with guard's paths in it.
type home struct {
	dir   string
	env   []string
	paths paths.Paths
}

func newHome(t *testing.T) home {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{"HOME": dir, "XDG_CONFIG_HOME": dir + "/config", "XDG_STATE_HOME": dir + "/state", "XDG_RUNTIME_DIR": dir}
	p, err := paths.Resolve(func(name string) string { return vars[name] }, uid())
	if err != nil {
		t.Fatal(err)
	}
	h := home{dir: dir, paths: p}
	for name, value := range vars {
		h.env = append(h.env, name+"="+value)
	}
	return h
}

// said is what one run of guard answered.
type said struct {
	code        int
	out, stderr string
}

func (h home) guard(stdin string, args ...string) said {
	var out, stderr bytes.Buffer
	c := Command{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &stderr, Env: h.env}
	code := c.Main(args)
	return said{code, out.String(), stderr.String()}
}

func TestUsageErrors(t *testing.T) {
	h := newHome(t)
	for _, line := range []string{
		"", "nope", "--nope", "broker", "broker nope", "audit", "audit export", "launch", "launch exec", "launch exec --",
		"status x", "status --nope", "approve", "approve a b", "approve a --ttl 0s", "approve a --ttl -1s", "approve a --ttl 1500ms", "approve a --ttl x",
		"verify", "verify a --ttl 0s", "promote", "promote a", "revoke", "revoke a b", "revoke a --all", "log x", "log --since x", "log -n -1",
		"zvm-sim", "zvm-sim --dir d --speed warp", "zvm-sim --dir d --fault x", "zvm-sim --dir d --nope", "version x", "init x", "init --force", "help nope", "help launch nope", "completion", "completion tcsh", "approve a --ttl 10",
		"mcp", "mcp x", "mcp --server x", "mcp --server guard-0011223344556677 x",
	} {
		t.Run(line, func(t *testing.T) {
			got := h.guard("", strings.Fields(line)...)
			if got.code != ExitUsage || got.out != "" || !strings.HasPrefix(got.stderr, "guard: ") || !strings.Contains(got.stderr, "Try: guard") {
				t.Errorf("exit %d, stdout %q, stderr %q; want 2 and a usage error", got.code, got.out, got.stderr)
			}
		})
	}
	if _, err := os.Stat(h.paths.RunDir); err == nil {
		t.Error("a usage error started a broker")
	}
}

func TestK1_SocketPathTooLong(t *testing.T) {
	h := newHome(t)
	h.env = append(h.env, "XDG_RUNTIME_DIR=/"+strings.Repeat("é", 50))
	if got := h.guard("", "status"); got.code != ExitUnfinished || !strings.Contains(got.stderr, "limit is 107") || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("%+v", got)
	}
}

func TestPromoteRefusesOtherStdin(t *testing.T) {
	h := newHome(t)
	for name, stdin := range map[string]string{
		"empty": "", "newline": "\n", "two lines": "lgt_a\nlgt_b\n", "NUL": "lgt_\x00", "long": strings.Repeat("x", maxToken+1),
	} {
		t.Run(name, func(t *testing.T) {
			got := h.guard(stdin, "promote", "a")
			if got.code != ExitUsage || strings.Contains(got.stderr, "lgt_") {
				t.Errorf("exit %d, stderr %q", got.code, got.stderr)
			}
		})
	}
}

// What people type is their own, but scripts print errors of it to logs and
// terminals.
func TestErrorsAreOneCleanLine(t *testing.T) {
	h := newHome(t)
	got := h.guard("", "no\x1b[31m\npe")
	if strings.ContainsAny(got.stderr, "\x1b") || strings.Count(got.stderr, "\n") != 2 {
		t.Errorf("stderr %q", got.stderr)
	}
}

func TestVersion(t *testing.T) {
	h := newHome(t)
	if got := h.guard("", "version"); got.code != ExitDone || !strings.HasPrefix(got.out, "guard ") {
		t.Errorf("%+v", got)
	}
	if got := h.guard("", "--version"); got.code != ExitDone || got.out != h.guard("", "version").out {
		t.Errorf("%+v", got)
	}
	if got := h.guard("", "version", "--json"); got.code != ExitDone || !strings.Contains(got.out, `"version": "`) {
		t.Errorf("%+v", got)
	}
}

// Every command explains itself with an example, and a group lists its own.
func TestHelp(t *testing.T) {
	h := newHome(t)
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "help" {
			return
		}
		path := strings.Fields(cmd.CommandPath())[1:]
		got := h.guard("", append(path, "--help")...)
		if got.code != ExitDone || got.stderr != "" || !strings.Contains(got.out, cmd.CommandPath()) {
			t.Errorf("%s --help: %+v", cmd.CommandPath(), got)
		}
		if strings.Count(got.out, "\nFlags:") > 1 {
			t.Errorf("%s --help lists flags twice:\n%s", cmd.CommandPath(), got.out)
		}
		if cmd.Short == "" || cmd.Example == "" {
			t.Errorf("%s has no short text or no example", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(Command{}.Tree())
}

// docs/cli.md describes every command and every flag.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "help" {
			return
		}
		if cmd.HasParent() && !cmd.HasSubCommands() && !bytes.Contains(text, []byte("`"+cmd.CommandPath())) {
			t.Errorf("docs/cli.md lacks %q", cmd.CommandPath())
		}
		for _, name := range flagNames(cmd) {
			if !bytes.Contains(text, []byte("`--"+name)) {
				t.Errorf("docs/cli.md lacks --%s of %s", name, cmd.CommandPath())
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(Command{}.Tree())
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	for _, line := range strings.Split(cmd.LocalFlags().FlagUsages(), "\n") {
		if _, rest, ok := strings.Cut(line, "--"); ok {
			names = append(names, strings.Fields(rest)[0])
		}
	}
	return names
}

func TestEnv(t *testing.T) {
	c := Command{Env: []string{"A=1", "AB=2", "A=3", "EMPTY=", "ODD"}}
	for name, want := range map[string]string{"A": "3", "AB": "2", "EMPTY": "", "ODD": "", "B": ""} {
		if got := c.env(name); got != want {
			t.Errorf("env(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	c := Command{Stdout: &out}
	c.table(&out, [][]cell{header("A", "LONG", "C"), {{text: "übel"}, {"x", red}, {}}, {{text: "1"}, {text: "2"}, {text: "3"}}})
	want := "A     LONG  C\nübel  x\n1     2     3\n"
	if out.String() != want {
		t.Errorf("table:\n%swant:\n%s", &out, want)
	}
}

func ExampleCommand_Main() {
	c := Command{Stdin: strings.NewReader(""), Stdout: os.Stdout, Stderr: os.Stdout}
	fmt.Println(c.Main([]string{"broker"}))
	// Output:
	// guard: which command? One of restart, start, stop
	// Try: guard broker --help
	// 2
}
