package gate

import (
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

func TestParse(t *testing.T) {
	full := "claude --socket /s --broker-uid 7 --role decide --deadline 20"
	good := call{host: byte(wire.HostClaude), role: byte(wire.RoleDecide), socket: "/s", uid: 7, seconds: 20}
	with := func(edit func(*call)) call {
		c := good
		edit(&c)
		return c
	}
	for line, want := range map[string]call{
		full: good,
		"claude --deadline 20 --role decide --broker-uid 7 --socket /s": good,
		"codex" + full[6:]: with(func(c *call) { c.host = byte(wire.HostCodex) }),
		"pi" + full[6:]:    with(func(c *call) { c.host = byte(wire.HostPi) }),
		strings.Replace(full, "decide", "observe", 1):           with(func(c *call) { c.role = byte(wire.RoleObserve) }),
		strings.Replace(full, "uid 7", "uid 0", 1):              with(func(c *call) { c.uid = 0 }),
		strings.Replace(full, " 7 ", " 4294967294 ", 1):         with(func(c *call) { c.uid = 4294967294 }),
		strings.Replace(full, "deadline 20", "deadline 1", 1):   with(func(c *call) { c.seconds = 1 }),
		strings.Replace(full, "deadline 20", "deadline 570", 1): with(func(c *call) { c.seconds = 570 }),
		strings.Replace(full, " --deadline 20", "", 1):          with(func(c *call) { c.seconds = 150 }),
	} {
		if got, ok := parse(nulls(line)); !ok || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", line, got, ok, want)
		}
	}
	for _, line := range []string{
		"", "claude", "Claude" + full[6:], full[7:], full + " extra", full + " --x y", full + " --deadline 20", full + " --deadline",
		strings.Replace(full, "--broker-uid 7 ", "", 1), strings.Replace(full, "--socket /s ", "", 1), strings.Replace(full, "--role decide ", "", 1),
		strings.Replace(full, "decide", "Decide", 1), strings.Replace(full, "decide", "judge", 1), strings.Replace(full, "--role", "-role", 1),
		strings.Replace(full, " 7 ", "  ", 1), strings.Replace(full, " 7 ", " -1 ", 1), strings.Replace(full, " 7 ", " 4294967295 ", 1),
		strings.Replace(full, " 7 ", " 0x7 ", 1), strings.Replace(full, " 7 ", " 99999999999999999999999 ", 1), strings.Replace(full, "/s", "", 1),
		strings.Replace(full, "deadline 20", "deadline 0", 1), strings.Replace(full, "deadline 20", "deadline 571", 1),
		strings.Replace(full, "deadline 20", "deadline 1.5", 1), strings.Replace(full, "deadline 20", "deadline ", 1),
		strings.Replace(full, "--socket /s", "--socket /s --socket /t", 1), strings.Replace(full, "--socket /s", "--socket=/s", 1),
		strings.Replace(full, "--role decide", "--role observe --role decide", 1),
	} {
		if got, ok := parse(nulls(line)); ok {
			t.Errorf("%q is taken as %+v", line, got)
		}
	}
}

// nulls is line as /proc/self/cmdline has it.
func nulls(line string) []byte {
	return []byte("guard-gate\x00" + strings.ReplaceAll(line, " ", "\x00") + "\x00")
}

func FuzzParse(f *testing.F) {
	f.Add(nulls("claude --socket /s --broker-uid 7 --role decide --deadline 20"))
	f.Add([]byte("x\x00claude\x00--socket"))
	f.Fuzz(func(t *testing.T, line []byte) {
		c, ok := parse(line)
		if ok && (c.host == 0 || c.socket == "" || c.uid < 0 || c.uid > 1<<32-2 || c.role == 0 || c.seconds < 1 || c.seconds > 570) {
			t.Fatalf("%q is taken as %+v", line, c)
		}
	})
}

// A wrong entry is shown in every role, also one that would be an observer's.
func TestWrongCommandLineDenies(t *testing.T) {
	long := strings.Repeat("l", 5000)
	for _, args := range [][]string{
		{}, {"--help"}, {"claude", "--role", "observe"}, {"claude", "--socket", long, "--broker-uid", "0", "--role", "decide"}, {"\x1b[31m\"\\\n"},
	} {
		wantDeny(t, runHook(t, exec.Command(program, args...), payload), verdict.Malformed)
	}
}

func TestReasonsStayOnOneShortLine(t *testing.T) {
	worst := call{socket: "/" + strings.Repeat("\n\"'\\\xff", 800), uid: 1<<32 - 2, seconds: 570}
	for _, r := range []string{
		checkSocket(worst), broken("writing out the answer of", worst, 110), broken("asking", worst, 61),
		reason("broker_untrusted", "checking directory", worst.socket, strings.Repeat("c", 300), strings.Repeat("n", 200)),
	} {
		if len(r) > verdict.MaxReason || verdict.Clean(r) != r || strings.ContainsAny(r, "\"\\\n") {
			t.Errorf("%d bytes: %q", len(r), r)
		}
	}
	if got := reason("malformed", "reading", "guard-gate\x00--x\x00\x01", "c", "n"); got != "guard: malformed: reading 'guard-gate --x ?': c. Next: n" {
		t.Errorf("a command line is shown as %q", got)
	}
}

// What the gate links is what every tool call pays for.
func TestLinksOnlySyscall(t *testing.T) {
	deps := func(pkg string) []string {
		out, err := exec.Command("go", "list", "-buildvcs=false", "-deps", pkg).Output()
		if err != nil {
			t.Fatalf("go list -deps %s: %v", pkg, err)
		}
		return strings.Fields(string(out))
	}
	allowed := append(deps("syscall"), "leaseguard.internal/gate", "leaseguard.internal/cmd/guard-gate")
	for _, pkg := range deps("leaseguard.internal/cmd/guard-gate") {
		if !slices.Contains(allowed, pkg) {
			t.Errorf("the gate links %s", pkg)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no source files", err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range f.Imports {
			if imp.Path.Value != `"syscall"` {
				t.Errorf("%s imports %s", name, imp.Path.Value)
			}
		}
	}
}
