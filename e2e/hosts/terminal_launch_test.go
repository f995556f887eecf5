//go:build hosts

package hosts

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/fakemodel"
)

// argv reads a process's arguments.
func argv(t *testing.T, pid int) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + itoa(pid) + "/cmdline")
	must(t, err)
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// stat gives a process's state and parent.
func stat(pid int) (state string, parent int, err error) {
	text, err := os.ReadFile("/proc/" + itoa(pid) + "/stat")
	if err != nil {
		return "", 0, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	parent, err = strconv.Atoi(fields[1])
	return fields[0], parent, err
}

// TestLaunchArgumentsAsDirect: what the client gets behind guard's own arguments
// is what it gets in a direct start, whatever bytes there are, and 1.5 MB of them.
func TestLaunchArgumentsAsDirect(t *testing.T) {
	t.Parallel()
	for runtime, as := range claudes {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			argumentsAsDirect(t, as(newGuarded(t, "")))
		})
	}
}

func argumentsAsDirect(t *testing.T, g *guarded) {
	words := []string{
		"go", "", " ", "\n", "two words", "\ttab", `"double" 'single' \back`, "$(touch /tmp/x) `x` $HOME", "ünï ☃", "\xff\xfe", "=", "-", "--=",
		"a=b", "[x]{y,z}*?~",
	}
	words = append(append(words, slices.Repeat([]string{strings.Repeat("x", 100_000)}, 15)...), "last")
	args := append([]string{"-p", "--append-system-prompt", "--verbose\n\"", "--"}, words...)
	var seen [2][]string
	for i, under := range []bool{false, true} {
		pid := 0
		w, full := g.direct(), slices.Clone(args)
		if under {
			w.Client, full = filepath.Join(g.bin, "guard"), append([]string{"launch", cmp.Or(g.runtime, "claude"), "--"}, full...)
		}
		w.script(fakemodel.Script{Steps: []fakemodel.Step{func(context.Context, *fakemodel.Request) (fakemodel.Turn, error) {
			seen[i] = argv(t, pid)
			return fakemodel.Turn{}, nil
		}}})
		cmd := exec.Command(w.Client, full...)
		cmd.Args[0] = "claude"
		cmd.Dir, cmd.Env = w.Project, w.environ()
		must(t, cmd.Start())
		pid = cmd.Process.Pid
		if err := cmd.Wait(); err != nil {
			t.Errorf("under guard %v: %v", under, err)
		}
	}
	if len(seen[1]) < 4 || !slices.Equal(seen[0][1:], args) {
		t.Fatalf("direct %d arguments, under guard %d", len(seen[0]), len(seen[1]))
	}
	if got := slices.Concat(seen[1][:1], seen[1][4:]); !slices.Equal(got, seen[0]) {
		t.Errorf("under guard the client has\n%.2000q, by itself\n%.2000q", got, seen[0])
	}
}

// TestLaunchTooLong: what the kernel takes of guard's arguments and not of the
// client's, which are more, ends the launch with the kernel's limit. Pi gets hardly
// more than guard itself.
func TestLaunchTooLong(t *testing.T) {
	for runtime, args := range map[string][]string{"claude": {"-p", "go"}, "codex": {"exec", "go", "-i"}} {
		t.Run(runtime, func(t *testing.T) {
			c := clients[runtime]
			g := c.world(t, "")
			c.steps(g)
			long := strings.Repeat("x", 100_000)
			full := slices.Concat([]string{"-c", `ulimit -s 4096; exec "$0" "$@"`, filepath.Join(g.bin, "guard"), "launch", runtime, "--"},
				args, slices.Repeat([]string{long}, 10), []string{long[:45_000]})
			g.noSession(g.as("/bin/sh", full...), "limit_reached", "the kernel takes 1048576", "ulimit -s")
		})
	}
}

// TestLaunchLeavesNothingBetween: the client has the very open files that guard
// was given, is the process that was started, and nothing of guard's runs below
// it but its recovery tool's server.
func TestLaunchLeavesNothingBetween(t *testing.T) {
	const recovers = "[lease]\npromotion = \"self\"\n[checkpoint]\nself = \"none\"\n"
	for _, c := range []struct {
		runtime, config string
		want            []string
	}{{"claude", "", nil}, {"claude", recovers, []string{"guard mcp"}}, {"claudex", recovers, []string{"guard mcp"}}} {
		t.Run(c.runtime+" "+strings.Join(c.want, " "), func(t *testing.T) {
			t.Parallel()
			g, want := claudes[c.runtime](newGuarded(t, c.config)), c.want
			var files [3]*os.File
			for i := range files {
				f, err := os.Create(filepath.Join(g.Dir, "fd"+itoa(i)))
				must(t, err)
				defer f.Close()
				files[i] = f
			}
			cmd := exec.Command(filepath.Join(g.bin, "guard"), "launch", c.runtime, "--", "-p", "go")
			g.steps(func(context.Context, *fakemodel.Request) (fakemodel.Turn, error) {
				pid := cmd.Process.Pid
				if all := g.sessions(); len(all) != 1 || all[0].AnchorPID != pid {
					t.Errorf("sessions %+v, want one of %d", all, pid)
				}
				for i, f := range files {
					r, _, e := unix.Syscall6(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(pid), 0, f.Fd(), uintptr(i), 0)
					if r != 0 || e != 0 {
						t.Errorf("descriptor %d of the client isn't what guard was given: %d, %v", i, r, e)
					}
				}
				if got := programs(t, pid); !slices.Equal(got, want) {
					t.Errorf("of guard there runs %q below the client, want %q", got, want)
				}
				return fakemodel.Turn{}, nil
			})
			cmd.Dir, cmd.Env = g.Project, g.environ()
			cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
			must(t, cmd.Start())
			must(t, cmd.Wait())
		})
	}
}

// programs lists guard's own programs among a process's descendants and itself.
func programs(t *testing.T, root int) []string {
	t.Helper()
	parents := map[int]int{}
	entries, err := os.ReadDir("/proc")
	must(t, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if _, parent, err := stat(pid); err == nil {
			parents[pid] = parent
		}
	}
	var found []string
	for pid := range parents {
		up := pid
		for up > 1 && up != root {
			up = parents[up]
		}
		exe, err := os.Readlink("/proc/" + itoa(pid) + "/exe")
		if up != root || err != nil || !strings.HasPrefix(filepath.Base(exe), "guard") {
			continue
		}
		found = append(found, filepath.Base(exe)+" "+argv(t, pid)[1])
	}
	slices.Sort(found)
	return found
}

// TestLaunchIsStoppedAndGoesOn: SIGTSTP and SIGCONT meet the client itself, as
// in a direct start.
func TestLaunchIsStoppedAndGoesOn(t *testing.T) {
	for _, under := range []bool{false, true} {
		g := newGuarded(t, "")
		w, args := g.direct(), []string{"-p", "go"}
		if under {
			w.Client, args = filepath.Join(g.bin, "guard"), append([]string{"launch", "claude", "--"}, args...)
		}
		cmd := exec.Command(w.Client, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an orphaned group isn't stopped by SIGTSTP
		w.script(fakemodel.Script{Steps: []fakemodel.Step{func(context.Context, *fakemodel.Request) (fakemodel.Turn, error) {
			must(t, syscall.Kill(cmd.Process.Pid, syscall.SIGTSTP))
			w.await("the client to stop", func() bool {
				state, _, err := stat(cmd.Process.Pid)
				must(t, err)
				return state == "T"
			})
			must(t, syscall.Kill(cmd.Process.Pid, syscall.SIGCONT))
			return fakemodel.Turn{Text: "spoken"}, nil
		}}})
		cmd.Dir, cmd.Env = w.Project, w.environ()
		out, err := cmd.Output()
		must(t, err)
		if strings.TrimSpace(string(out)) != "spoken" {
			t.Errorf("under guard %v the client said %q", under, out)
		}
	}
}

// TestLaunchInShell: below a shell with job control a launch is one job: Ctrl-Z
// gives the terminal back to the shell, and fg goes on where it was.
func TestLaunchInShell(t *testing.T) {
	g := newGuarded(t, "")
	g.steps(fakemodel.Use("Bash", g.touch()), fakemodel.Say("spoken"), fakemodel.Say("and again"))
	g.Env = append(g.Env, "PS1=shell% ", "HISTFILE=")
	g.write(filepath.Join(g.Home, ".claude/settings.json"), object{"skipDangerousModePermissionPrompt": true})
	w := g.direct()
	w.Client = "/bin/bash"
	x := w.interact("--norc", "--noprofile", "-i")
	x.shown("shell%")
	x.enter(filepath.Join(g.bin, "guard") + " launch claude --dangerously-skip-permissions; echo ended $?")
	x.shown("bypass permissions")
	x.enter("say it")
	x.shown("spoken")
	x.keys("\x1a")
	x.shown("shell%")
	x.enter("echo $((40 + 2))")
	x.shown("42")
	x.enter("fg")
	x.enter("go on")
	x.shown("and again")
	x.enter("/exit")
	x.shown("shell%")
	x.enter("exit 0")
	x.wait()
	g.denied()
}
