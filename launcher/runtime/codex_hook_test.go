package runtime

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	codexContext = `{"hookSpecificOutput":{"hookEventName":"PreToolUse","additionalContext":"a \"b\" \u0001"}}`
	codexDenial  = `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no"}}`
)

// asCodex runs a hook's command as Codex does, with more in its environment, and
// gives status, stdout and stderr.
func asCodex(t *testing.T, command, payload string, env ...string) (int, string, string) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bash, "-c", command)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, env...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(payload), &out, &errs
	var ended *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// fakeGate writes a program that stands for the gate.
func fakeGate(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestF3_CodexHookCloses: only a gate that ends by itself with status 0 and the
// form of a pass lets a call pass. Of everything else Codex would make a pass.
func TestF3_CodexHookCloses(t *testing.T) {
	for name, tc := range map[string]struct {
		body, out string // out: what Codex gets with status 0; none: denied
		says      string // a part of stderr
	}{
		"passes":                       {`cat >/dev/null; printf '{}'`, `{}`, ""},
		"passes, with a newline":       {`echo '{}'`, `{}`, ""},
		"passes, with context":         {`printf '%s' '` + codexContext + `'`, codexContext, ""},
		"denies":                       {`echo '` + codexDenial + `'; echo "guard: lease_unverified: no" >&2; exit 2`, "", "guard: lease_unverified: no\n"},
		"denies silently":              {`exit 2`, "", "no pass"},
		"status 1":                     {`printf '{}'; exit 1`, "", "no pass"},
		"status 3":                     {`exit 3`, "", "no pass"},
		"status 255":                   {`exit 255`, "", "no pass"},
		"killed":                       {`kill -9 $$`, "", "no pass"},
		"killed after a pass":          {`printf '{}'; kill -9 $$`, "", "no pass"},
		"terminated":                   {`kill $$; sleep 60`, "", "no pass"},
		"status 0 and a denial":        {`echo '` + codexDenial + `'`, "", "no pass"},
		"status 0 and nothing":         {`exit 0`, "", "no pass"},
		"status 0 and garbage":         {`echo hello`, "", "no pass"},
		"status 0 and binary garbage":  {`printf '\377\376\001'`, "", "no pass"},
		"status 0 and half an object":  {`printf '{'`, "", "no pass"},
		"noise before a pass":          {`echo loading rules...; printf '{}'`, "", "no pass"},
		"noise before a denial":        {`echo loading rules...; echo '` + codexDenial + `'`, "", "no pass"},
		"two objects":                  {`printf '{}{}'`, "", "no pass"},
		"allow":                        {`printf '%s' '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}'`, "", "no pass"},
		"ask":                          {`printf '%s' '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"x"}}'`, "", "no pass"},
		"another input":                {`printf '%s' '{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{}}}'`, "", "no pass"},
		"a pattern is no pass of sh's": {`printf '%s' '*'`, "", "no pass"},
		"hangs":                        {`sleep 60; printf '{}'`, "", "no pass"},
		"hangs and can't be ended":     {`trap "" TERM; while :; do sleep 1; done`, "", "no pass"},
		"leaves somebody on its pipe":  {`setsid sleep 5 2>/dev/null & printf '{}'; exit 0`, "", "no pass"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := int64(60)
			if strings.HasPrefix(name, "hangs") || strings.HasPrefix(name, "leaves") {
				limit = 1
			}
			status, out, errs := asCodex(t, closingHook([]string{fakeGate(t, "gate", tc.body), "codex"}, limit), `{"x":1}`)
			switch {
			case tc.out != "" && (status != 0 || out != tc.out || errs != ""):
				t.Errorf("status %d, stdout %q, stderr %q, want a pass", status, out, errs)
			case tc.out == "" && (status != 2 || out != "" || !strings.Contains(errs, tc.says)):
				t.Errorf("status %d, stdout %q, stderr %q, want a denial", status, out, errs)
			}
		})
	}
}

// A gate that can't be started is a denial too.
func TestF3_CodexHookWithoutGate(t *testing.T) {
	noExec := fakeGate(t, "gate", "printf '{}'")
	if err := os.Chmod(noExec, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := fakeGate(t, "gate", "")
	if err := os.WriteFile(binary, []byte("\x7fELF\x00\x01"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, gate := range map[string]string{"missing": "/none/guard-gate", "not executable": noExec, "a directory": t.TempDir(), "no program": binary, "no name": ""} {
		if status, out, errs := asCodex(t, closingHook([]string{gate, "codex"}, 60), "{}"); status != 2 || out != "" || errs == "" {
			t.Errorf("%s: status %d, stdout %q, stderr %q", name, status, out, errs)
		}
	}
}

// What is in bash's environment can't turn a denial into a pass. BASH_ENV can:
// bash reads it before it looks at the command (so that it never gets there:
// the environment of Codex has none).
func TestF5_CodexHookAndEnvironment(t *testing.T) {
	hook := closingHook([]string{fakeGate(t, "gate", "echo no >&2; exit 2"), "codex"}, 60)
	noise := filepath.Join(t.TempDir(), "noise")
	if err := os.WriteFile(noise, []byte("echo hello from a profile\nexit 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	function := func(name string) string { return "BASH_FUNC_" + name + "%%=() { builtin exit 0; }" }
	for _, env := range [][]string{
		{function("exit"), function("echo"), function("printf"), function("case"), function("env"), function("sh"), function("timeout")},
		{function("/usr/bin/timeout"), function("/usr/bin/env"), function("/bin/sh")},
		{"ENV=" + noise, "PROMPT_COMMAND=exit 0", "PS4=$(exit 0)", "IFS=/", "SHELLOPTS=noexec:nounset", "BASHOPTS=extglob", "POSIXLY_CORRECT=1"},
		{"PATH=/none"}, {"HOME=" + filepath.Dir(noise), "CDPATH=/", "LC_ALL=zz"},
	} {
		if status, _, errs := asCodex(t, hook, "{}", env...); status != 2 || !strings.Contains(errs, "no") {
			t.Errorf("%q: status %d, stderr %q", env, status, errs)
		}
	}
	if status, _, _ := asCodex(t, hook, "{}", "BASH_ENV="+noise); status != 0 {
		t.Errorf("status %d: BASH_ENV is harmless, and the docs say otherwise", status)
	}
}

// The gate gets its arguments as they are, and the payload on its stdin.
func TestCodexHookQuotes(t *testing.T) {
	words := []string{"codex", "", "it's", `a "b" \c`, "$(touch x) `y` $HOME", "two\nlines", "*", "|| exit 0", "é\x01"}
	gate := fakeGate(t, "it's a 'gate' $x", `printf '%s\0' "$@" >"${0%/*}/args"; cat >"${0%/*}/stdin"; printf '{}'`)
	for name, command := range map[string]string{
		"decides": closingHook(append([]string{gate}, words...), 60), "listens": shellWords(append([]string{gate}, words...)),
	} {
		status, out, errs := asCodex(t, command, `{"a":"b"}`)
		args, err := os.ReadFile(filepath.Join(filepath.Dir(gate), "args"))
		if err != nil || status != 0 || out != "{}" || errs != "" {
			t.Fatalf("%s: status %d, stdout %q, stderr %q, %v", name, status, out, errs, err)
		}
		stdin, err := os.ReadFile(filepath.Join(filepath.Dir(gate), "stdin"))
		if want := strings.Join(words, "\x00") + "\x00"; string(args) != want || string(stdin) != `{"a":"b"}` || err != nil {
			t.Errorf("%s: arguments %q, want %q; stdin %q", name, args, want, stdin)
		}
	}
}
