//go:build hosts

package hosts

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"leaseguard.internal/internal/fakemodel"
	host "leaseguard.internal/launcher/runtime"
)

// codexOption is an option's line of --help: names, then what stands for values.
var codexOption = regexp.MustCompile(`(?m)^ {2,6}((?:-[A-Za-z], )?--[a-z-]+)(?: (<[A-Z0-9_=a-z]+>)(\.\.\.)?)?$`)

// TestCodexOptionTable compares guard's table with what the pinned client says
// that it takes, at each command that begins a session, and its commands.
func TestCodexOptionTable(t *testing.T) {
	w := newWorld(t)
	help := func(args ...string) string {
		cmd := exec.Command(codex, append(args, "--help")...)
		cmd.Env = []string{"HOME=" + w.Home, "PATH=/usr/bin:/bin"}
		text, err := cmd.Output()
		must(t, err)
		return string(text)
	}
	have := map[string]host.Arity{}
	for _, command := range []string{"", "exec", "exec resume", "exec fork", "exec review", "review", "resume", "fork"} {
		for _, m := range codexOption.FindAllStringSubmatch(help(strings.Fields(command)...), -1) {
			arity := host.None
			if m[2] != "" {
				arity = host.One
			}
			if m[3] != "" {
				arity = host.Many
			}
			for _, name := range strings.Split(m[1], ", ") {
				have[name] = max(have[name], arity) // the longer list, where commands differ
			}
		}
	}
	table := host.CodexTable(false)
	sameOptions(t, have, table.Options)
	_, commands, _ := strings.Cut(help(), "\nCommands:\n")
	commands, _, _ = strings.Cut(commands, "\n\n")
	for line := range strings.Lines(commands) {
		name := strings.Fields(line)[0]
		begins := slices.Contains([]string{"exec", "review", "resume", "fork"}, name)
		if strings.HasPrefix(line, "  ") && line[2] != ' ' && slices.Contains(table.Commands, name) == begins {
			t.Errorf("the command %s begins a session: %v, and the table says otherwise", name, begins)
		}
	}
}

// TestCodexLaunchArguments: the client is started with guard's own arguments, each
// in one piece, then with its user's byte for byte, and with the environment of
// the list alone.
func TestCodexLaunchArguments(t *testing.T) {
	t.Parallel()
	g := newCodex(t, "[session]\nenv_pass = [\"PASSED\"]\n[checkpoint]\nself = \"none\"\n")
	g.Env = append(g.Env, "PASSED=1", "CODEX_NEW=1", "LD_PRELOAD=", "OPENAI_X=2", "ENV=/nowhere")
	args := append(codexExec[:len(codexExec):len(codexExec)], "-c", `model_verbosity="low"`)
	for _, picture := range append(slices.Repeat([]string{strings.Repeat("x", 100_000)}, 15), "two words\nand a \"line\" 'ünï'") {
		args = append(args, "-i", picture)
	}
	args = append(args, "--", "") // the client itself takes no other argument that is empty
	var argv, environ string
	g.codexSteps("", func(context.Context, *fakemodel.Request) (fakemodel.Turn, error) {
		for _, s := range g.sessions() {
			for name, to := range map[string]*string{"cmdline": &argv, "environ": &environ} {
				text, err := os.ReadFile("/proc/" + itoa(s.AnchorPID) + "/" + name)
				must(t, err)
				*to = string(text)
			}
			if left := programs(t, s.AnchorPID); len(left) != 0 {
				t.Errorf("of guard there runs %q below the client", left)
			}
		}
		return fakemodel.Turn{Text: "done"}, nil
	})
	g.ok(g.launchAs(append([]string{"--"}, args...)...))
	all := strings.Split(strings.TrimSuffix(argv, "\x00"), "\x00")
	own := len(all) - len(args)
	if own < 3 || all[0] != "codex" || !slices.Equal(all[own:], args) {
		t.Fatalf("the client's arguments are %.2000q", all)
	}
	for _, a := range all[1:own] {
		if a != "--no-daemon" && !strings.HasPrefix(a, "--config=") {
			t.Errorf("guard's own argument is %q", a)
		}
	}
	for v := range strings.SplitSeq(strings.TrimSuffix(environ, "\x00"), "\x00") {
		name, _, _ := strings.Cut(v, "=")
		if !slices.Contains([]string{"PATH", "HOME", "LANG", "TERM", "XDG_RUNTIME_DIR", "PASSED", "OPENAI_X", "GUARD_SESSION", "GUARD_GENERATION"}, name) {
			t.Errorf("the client has %q", v)
		}
	}
}

// TestCodexEndsAsDirect: exit status and signals are those of a direct start.
func TestCodexEndsAsDirect(t *testing.T) {
	args := append(codexExec[:len(codexExec):len(codexExec)], "go")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			want := codexEnding(newCodex(t, ""), codex, sig, args...)
			g := newCodex(t, "")
			if got := codexEnding(g, filepath.Join(g.bin, "guard"), sig, append([]string{"launch", "codex", "--"}, args...)...); got != want {
				t.Errorf("under guard the client ended with %q, by itself with %q", got, want)
			}
		})
	}
	t.Run("failing", func(t *testing.T) {
		t.Parallel()
		g := newCodex(t, "")
		g.codexSteps("", func(context.Context, *fakemodel.Request) (fakemodel.Turn, error) {
			return fakemodel.Turn{Status: 400}, nil
		})
		if got := g.launchCodex(); got.Exit != 1 {
			t.Errorf("exit %d: %s", got.Exit, got.Stderr)
		}
	})
}

func codexEnding(g *guarded, program string, sig syscall.Signal, args ...string) string {
	return endingWith(g.t, g, func(s fakemodel.Script) { g.codexScript("", s) }, program, sig, args...)
}

// TestCodexUnproved: whatever keeps the client from asking the gate ends the
// launch before it begins.
func TestCodexUnproved(t *testing.T) {
	for _, c := range []struct {
		name   string
		set    func(g *guarded)
		admin  string // of /etc/codex/requirements.toml
		config string
		code   string
		words  []string
	}{
		{name: "gate that passes all", set: func(g *guarded) { g.replace(g.ownPrograms(), "cat >/dev/null; printf '{}'") }, code: "wiring_unproved", words: []string{"exec_command"}},
		{name: "gate that is none", set: func(g *guarded) { g.replace(g.ownPrograms(), "") }, code: "wiring_unproved", words: []string{"guard-gate"}},
		{name: "T2 broken configuration", config: "[x\n", code: "config_invalid", words: []string{"config.toml", "line 13"}},
		{name: "T2 configuration of another shape", config: "[projects]\na = 1\n", code: "config_invalid", words: []string{"config.toml"}},
		{name: "managed hooks alone", admin: "allow_managed_hooks_only = true\n", code: "wiring_unproved", words: []string{"PreToolUse", host.CodexRequirements}},
		{name: "hooks off", admin: "[features]\nhooks = false\n", code: "wiring_unproved"},
		{name: "no requirements", admin: "nonsense", code: "wiring_unproved", words: []string{"requirements"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.admin != "" {
				if err := os.WriteFile(host.CodexRequirements, []byte(c.admin), 0o644); err != nil {
					t.Skipf("this run has no /etc of its own, since it wasn't started by root: %v", err)
				}
				t.Cleanup(func() { must(t, os.Remove(host.CodexRequirements)) })
				codexHole("requirements_"+slug(c.name), "an administrator's requirements.toml: "+strings.TrimSpace(c.admin), "closed", "the client is asked which hooks it would run; the launch is refused").report(t)
			}
			g := newCodex(t, "")
			g.codexSteps(c.config, g.mark())
			if c.set != nil {
				c.set(g)
			}
			g.noSession(g.launchCodex(), c.code, c.words...)
		})
	}
}

// TestCodexReadOnly: the kernel refuses writes of a command that the gate passed.
func TestCodexReadOnly(t *testing.T) {
	t.Parallel()
	codexHole("second_layer_read_only", "a command that no hook saw writes files", "compensated", `launch.codex_sandbox = "read-only": the kernel refuses`).report(t)
	g := newCodex(t, "[checkpoint]\nself = \"none\"\n[launch]\ncodex_sandbox = \"read-only\"\n")
	inside := filepath.Join(g.Project, "written")
	g.codexSteps("sandbox_mode = \"danger-full-access\"\n", between(g.approve, g.shell("touch "+inside)))
	g.noSession(g.launchCodex(), "flag_refused", "--dangerously-bypass-approvals-and-sandbox", "launch.codex_sandbox")
	g.ok(g.launchAs("--", "exec", "--skip-git-repo-check", "go"))
	if got := g.results(); len(got) != 1 || !strings.Contains(got[0], "Read-only file system") {
		t.Errorf("the model was told %q", got)
	}
	if _, err := os.Lstat(inside); err == nil {
		t.Error("the command wrote")
	}
}

// TestCodexScripts: newer models get no tool but one that runs a script, whose
// calls are asked about. The proof goes that way too.
func TestCodexScripts(t *testing.T) {
	t.Parallel()
	g := newCodex(t, "")
	g.codexSteps("", fakemodel.Use("exec", `try { text(JSON.stringify(await tools.exec_command({cmd: "touch `+g.Marker+`"}))) } catch (e) { text(String(e)) }`))
	g.ok(g.launchCodex("--model", "gpt-6.2-sol"))
	g.ok(g.launchAs("--no-cache", "--", "exec", "--skip-git-repo-check", "--model", "gpt-6.2-sol", "go"))
	g.denied()
	text, err := os.ReadFile(g.codexHome("config.toml"))
	must(t, err)
	g.write(g.codexHome("config.toml"), strings.Replace(string(text), "gpt-5.4", "gpt-6.2-sol", 1))
	g.ok(g.launchCodex()) // and the proof
}

// TestCodexPassedOptionsKeepTheGate: what the table lets through silences nothing.
func TestCodexPassedOptionsKeepTheGate(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"--json --ephemeral --ignore-rules --color never --strict-config",
		"--sandbox workspace-write --add-dir /var/tmp -c approval_policy=\"never\" --enable goals --disable memories",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			g := newCodex(t, "")
			g.codexSteps("", g.mark())
			o := g.launchAs(slices.Concat([]string{"--", "exec", "--skip-git-repo-check"}, strings.Fields(args), []string{"go"})...)
			if !g.denied() {
				t.Errorf("exit %d: %s", o.Exit, o.Stderr)
			}
		})
	}
}

// TestR2_CodexResume: a conversation that goes on carries no authority over.
func TestR2_CodexResume(t *testing.T) {
	t.Parallel()
	g := newCodex(t, "")
	g.codexSteps("", between(g.approve, g.shell("true")), fakemodel.Say("first done"), g.mark())
	g.ok(g.launchCodex())
	g.ok(g.launchAs("--", "exec", "resume", "--last", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "go on"))
	if got := g.results(); g.marked() || len(got) != 2 || !strings.Contains(got[1], "the session's lease is UNVERIFIED") {
		t.Errorf("marked %v, the model was told %q", g.marked(), got)
	}
}

// TestCodexUserShell: a command that the person at the client gives asks nobody.
// The client that takes such commands from other programs isn't launched.
func TestCodexUserShell(t *testing.T) {
	t.Parallel()
	codexHole("user_shell", "a command of the person's own (! in the terminal, thread/shellCommand) asks no hook", "open",
		"it is the person's, not the model's; the app-server, by which programs give such commands, is refused").report(t)
	w := newWorld(t)
	w.forCodex()
	w.codexSteps(inTOML(denyAll) + trusted(w.codexHome("config.toml"), denyAll))
	cmd := exec.Command(codex, "app-server")
	cmd.Dir, cmd.Env = w.Project, w.environ()
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	fmt.Fprintln(in, `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"t","version":"1"},"capabilities":{"experimentalApi":true}}}`)
	fmt.Fprintln(in, `{"method":"initialized"}`)
	fmt.Fprintf(in, `{"id":2,"method":"thread/start","params":{"cwd":%q,"approvalPolicy":"never","sandbox":"danger-full-access"}}`+"\n", w.Project)
	thread := lineWith(t, out, regexp.MustCompile(`"id":2,.*"thread":\{"id":"([^"]+)"`))
	fmt.Fprintf(in, `{"id":3,"method":"thread/shellCommand","params":{"threadId":%q,"command":"touch %s"}}`+"\n", thread, w.Marker)
	w.await("the person's command", w.marked)
	g := newCodex(t, "")
	g.codexSteps("")
	g.noSession(g.launchAs("--", "app-server"), "flag_refused", "app-server")
}

// lineWith reads lines up to the first that fits, and gives its first group.
func lineWith(t *testing.T, out io.Reader, want *regexp.Regexp) string {
	t.Helper()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if m := want.FindSubmatch(lines.Bytes()); m != nil {
			return string(m[1])
		}
	}
	t.Fatalf("no line fits %v: %v", want, lines.Err())
	return ""
}
