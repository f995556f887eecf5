package runtime

import (
	"strconv"
	"strings"
)

// Codex lets a tool run whatever becomes of its hook, unless the hook ends with
// status 2 and says something on stderr, or prints a denial that is valid to the
// letter. And it runs a hook's command by bash, which takes functions from the
// environment. So between Codex and the gate stands a command that has one way to
// a pass: the gate ended by itself, in time, with status 0, and wrote what a pass
// looks like. All else comes to the last program, which says so and ends with 2.
//
// It names programs by their paths, for which bash takes no functions, and ends
// with the program whose status counts, since "exit" may be one. What it can't
// help is BASH_ENV, which bash reads first, and a PATH with another bash in it.
const (
	codexPass = `out=$("$@") && case $out in ` +
		`"{}" | "{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",\"additionalContext\":\""*"\"}}") printf %s "$out" ;; ` +
		`*) exit 1 ;; esac`
	codexDeny = `echo "guard: guard-gate gave this call no pass" >&2; exit 2`
)

// closingHook is the command line of a hook of Codex that decides. The gate, given
// with its arguments, is killed after so many seconds, and all of its group: more
// than its own deadline, less than the hook's. Codex waits for the end of the
// gate's output, so that nothing of it may live on.
func closingHook(gate []string, seconds int64) string {
	clean := []string{"/usr/bin/env", "-i", "/bin/sh", "-c"}
	ask := append([]string{"/usr/bin/timeout", "-s", "KILL", strconv.FormatInt(seconds, 10)}, clean...)
	return shellWords(append(append(ask, codexPass, "sh"), gate...)) + " || " + shellWords(append(clean, codexDeny))
}

// shellWords writes words so that a shell reads them as they are.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellWord(w)
	}
	return strings.Join(quoted, " ")
}
