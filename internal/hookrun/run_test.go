package hookrun

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"leaseguard.internal/internal/wire"
)

// TestM28_HowAHookIsStarted: no shell takes its arguments apart, it leads a
// session of its own, and stands in the root directory, which no project can put
// anything into.
func TestM28_HowAHookIsStarted(t *testing.T) {
	t.Parallel()
	args := []string{"", "a b", "$(id)", "*", "'\"", "\x01", "é"}
	h := script(t, `for a in "$@"; do printf '<%s>' "$a" >&2; done; pwd >&2; read -r _ _ _ _ pgrp sid _ < /proc/$$/stat; [ "$pgrp" = $$ ] && [ "$sid" = $$ ] && echo own >&2; exit 2`)
	h.Args = args
	r := run(t, h)[0]
	want(t, r, wire.HookDenied, "<><a b><$(id)><*><'\"><\x01><é>/\nown")
	if r.Exit != 2 || r.DurationUS <= 0 {
		t.Errorf("result %+v", r)
	}
}

// TestM29_Environment: a hook has a fixed environment, whatever the runner's is.
func TestM29_Environment(t *testing.T) {
	t.Parallel()
	h := script(t, `tr '\0' '\n' < /proc/self/environ >&2; exit 2`)
	r := start(t, func(c *exec.Cmd) {
		c.Env = []string{"SSH_AUTH_SOCK=/s", "TOKEN=secret", "LD_LIBRARY_PATH=/tmp", "BASH_ENV=/tmp/x", "PATH=/tmp/evil", "HOME=/tmp/evil", "HTTP_PROXY=x"}
	})
	r.send(wire.HookJob{Hooks: []wire.Hook{h}, Path: "/usr/bin:/bin:/from/configuration"}, line)
	got := r.results()[0]
	r.answer(pass)
	names := []string{}
	for l := range strings.SplitSeq(got.Reason, "\n") {
		name, value, _ := strings.Cut(l, "=")
		names = append(names, name)
		if name == "PATH" && value != "/usr/bin:/bin:/from/configuration" || name == "HOME" && value == "/tmp/evil" {
			t.Errorf("%s=%s", name, value)
		}
	}
	slices.Sort(names)
	all := []string{"GUARD_HOOK_EXECUTION", "HOME", "LANG", "NODE_PRESERVE_SYMLINKS", "NODE_PRESERVE_SYMLINKS_MAIN", "PATH"}
	if names = slices.Compact(names); !slices.Equal(names, all) {
		t.Errorf("a hook's environment has %q, want %q", names, all)
	}
}

// TestM31_TheLineOnStdin: each hook reads the very line, and then the end.
func TestM31_TheLineOnStdin(t *testing.T) {
	t.Parallel()
	text := strings.Replace(line, "git push", `echo a\u0000rm b`, 1) // P2: nothing is cut at a NUL
	h := script(t, `cat >&2; exit 2`)
	for _, r := range runJob(t, wire.HookJob{Hooks: []wire.Hook{h, h}}, text) {
		want(t, r, wire.HookDenied)
		if r.Reason != strings.TrimSpace(text) {
			t.Errorf("a hook read %q, want %q", r.Reason, text)
		}
	}
}

// TestM27_AllRunEightAtOnce: all hooks that a call meets run, none stops another,
// eight at once, and their results stand in the order of the definitions.
func TestM27_AllRunEightAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := script(t, `touch "$1/in.$2"; ls "$1"/in.* | wc -l > "$1/seen.$2"; sleep 0.1; rm "$1/in.$2"; echo "hook $2" >&2; exit 2`)
	var hooks []wire.Hook
	for i := range 20 {
		h.Args = []string{dir, strconv.Itoa(i)}
		hooks = append(hooks, h)
	}
	most := 0
	for i, r := range run(t, hooks...) {
		want(t, r, wire.HookDenied, fmt.Sprintf("hook %d", i))
		most = max(most, number(t, fmt.Sprintf("%s/seen.%d", dir, i)))
	}
	if most < 2 || most > concurrent {
		t.Errorf("%d ran at once, want 2 to %d", most, concurrent)
	}
}

// TestM30_W9_NoVariableTurnsHooksOff: what turned the policy off elsewhere does
// nothing here. What a hook starts itself the broker sees: TestM30_W9_Recursion.
func TestM30_W9_NoVariableTurnsHooksOff(t *testing.T) {
	t.Parallel()
	h := script(t, `echo "$GUARD_HOOK_EXECUTION" >&2; exit 2`)
	r := start(t, func(c *exec.Cmd) { c.Env = []string{"GUARD_HOOK_EXECUTION=", "MAKA_HOOK_EXECUTION=x"} })
	r.send(wire.HookJob{Hooks: []wire.Hook{h}}, line)
	want(t, r.results()[0], wire.HookDenied, "1")
	r.answer(pass)
}

// TestW3_HookThatReadsNothing is judged by its status, however much it was to read.
func TestW3_HookThatReadsNothing(t *testing.T) {
	t.Parallel()
	deny, allowed := script(t, "exec 0<&-; exit 2"), script(t, "exit 0")
	for _, size := range []int{100, 60 << 10, 70 << 10, 8 << 20} {
		text := strings.Repeat("x", size) + "\n"
		r := runJob(t, wire.HookJob{Hooks: []wire.Hook{deny, allowed}}, text)
		want(t, r[0], wire.HookDenied)
		want(t, r[1], wire.HookAllowed)
	}
}

// TestM32_W4_OutputOverTheCapIsAFailure: a denial that is printed on one line of
// more than 64 KiB is no blank output.
func TestM32_W4_OutputOverTheCapIsAFailure(t *testing.T) {
	t.Parallel()
	fill := `head -c 70000 /dev/zero | tr '\0' x`
	r := run(t,
		script(t, `printf '%s' '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"'; `+fill+`; echo '"}}'`),
		script(t, fill+` >&2`),
		script(t, `echo first >&2; `+fill+` >&2; exit 2`),
		script(t, `head -c 65536 /dev/zero | tr '\0' ' '`),
	)
	want(t, r[0], wire.HookFailed, "65536")
	want(t, r[1], wire.HookFailed, "65536")
	want(t, r[2], wire.HookDenied, "first")
	want(t, r[3], wire.HookAllowed)
}

// TestW1_EachFailureIsOne: whatever isn't a clean word of the hook's is a failure,
// which its definition makes a denial.
func TestW1_EachFailureIsOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) wire.Hook {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return trusted(t, wire.Hook{ID: name, Command: path, TimeoutMS: 20_000})
	}
	open := filepath.Join(dir, "open")
	for _, err := range []error{os.Mkdir(open, 0o700), os.Symlink("/bin/sh", open+"/sh"), os.Chmod(open, 0o777)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	slow := script(t, "sleep 100")
	slow.TimeoutMS = 100
	for name, tc := range map[string]struct {
		hook   wire.Hook
		status wire.HookStatus
		reason string
	}{
		"status 1":                 {script(t, "exit 1"), wire.HookFailed, "status 1"},
		"killed":                   {script(t, "kill -9 $$"), wire.HookFailed, "SIGKILL"},
		"too slow":                 {slow, wire.HookFailed, "100 ms"},
		"text":                     {script(t, "echo fine"), wire.HookFailed, "no decision"},
		"not executable":           {file("plain", "#!/bin/sh\nexit 0\n", 0o600), wire.HookFailed, "permission denied"},
		"no program":               {file("garbage", "\x7fELF?", 0o700), wire.HookFailed, "exec format"},
		"empty":                    {file("empty", "", 0o700), wire.HookFailed, "exec format"},
		"no interpreter":           {file("shebang", "#!\n", 0o700), wire.HookFailed, "interpreter"},
		"interpreter by name":      {file("name", "#!sh\n", 0o700), wire.HookFailed, "interpreter"},
		"interpreter gone":         {file("gone", "#!/usr/bin/no-such\n", 0o700), wire.HookFailed, "interpreter"},
		"interpreter of a user's":  {file("own", "#!"+open+"/sh\n", 0o700), wire.HookFailed, "interpreter"},
		"command gone":             {wire.Hook{ID: "g", Command: dir + "/none", Args: []string{}, TimeoutMS: 1000}, wire.HookFailed, "no such file"},
		"command is a directory":   {wire.Hook{ID: "d", Command: dir, Args: []string{}, TimeoutMS: 1000}, wire.HookFailed, "regular file"},
		"command is a device":      {wire.Hook{ID: "z", Command: "/dev/zero", Args: []string{}, TimeoutMS: 1000}, wire.HookFailed, "regular file"},
		"command without a digest": {wire.Hook{ID: "n", Command: "/bin/true", Args: []string{}, TimeoutMS: 1000}, wire.HookChanged, "trusted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want(t, run(t, tc.hook)[0], tc.status, tc.reason)
		})
	}
}

// TestW10_NothingOfTheProject: neither PATH nor the working directory is the
// session's, so that git, node or python load nothing that the project chose.
func TestW10_NothingOfTheProject(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	if err := os.WriteFile(filepath.Join(project, "ls"), []byte("#!/bin/sh\ntouch "+project+"/ran\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	h := script(t, `ls . >/dev/null; pwd >&2; exit 2`)
	r := start(t, func(c *exec.Cmd) { c.Dir, c.Env = project, []string{"PATH=" + project} })
	r.send(wire.HookJob{Hooks: []wire.Hook{h}}, line)
	if got := r.results()[0]; got.Reason != "/" {
		t.Errorf("result %+v", got)
	}
	r.answer(pass)
	if _, err := os.Stat(project + "/ran"); err == nil {
		t.Error("the project's program ran in the place of ls")
	}
}

// A hook that denies when all hooks' time together is over has denied, whatever its
// failure would mean.
func TestDenialAtTheEndOfAllTime(t *testing.T) {
	t.Parallel()
	h := script(t, `trap "exit 2" TERM; while :; do sleep 0.01; done`)
	h.TimeoutMS = 30_000
	want(t, runJob(t, wire.HookJob{Hooks: []wire.Hook{h}, TotalMS: 2000, Here: true}, line)[0], wire.HookDenied, "denied this tool call")
}
