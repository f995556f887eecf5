//go:build system

package system

import (
	"os/exec"
	"regexp"
	"testing"
)

// examined runs a command of guard's and holds exit code and lines to what is
// expected.
func examined(t *testing.T, cmd *exec.Cmd, code int, lines ...string) {
	t.Helper()
	out, _ := cmd.CombinedOutput() // its code tells
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("%q ended with %d, want %d", cmd.Args, got, code)
	}
	for _, line := range lines {
		if !regexp.MustCompile(`(?m)^` + line + `$`).Match(out) {
			t.Errorf("%q lacks %q", cmd.Args, line)
		}
	}
	if t.Failed() {
		t.Fatalf("it said\n%s", out)
	}
}

// TestDoctorInSystemMode: an operator sees that all is well, and what isn't; who
// is none is told what needs no operator; a session sees itself, through the only
// socket that it can open.
func TestDoctorInSystemMode(t *testing.T) {
	a := world(t, false)
	doctor := []string{
		`guard +ok +version .*, system mode`,
		`programs +ok +"/opt/guard/bin": nobody but root and uid [0-9]+ may change guard, guard-broker and guard-gate`,
		`sockets +ok +"/run/guard"`,
	}
	examined(t, as("olga", "guard", "doctor"), 0, append(doctor,
		`operator +ok +separate-uid .*`, `config +ok +"/etc/guard/guard.toml" is in force`, `sessions +ok +`+a.id[:6]+` .* VERIFIED, ungated host`)...)
	examined(t, as("ada", "guard", "doctor"), 3, append(doctor, `broker +unknown +it tells operators alone: .*`, `sudo +ok .*`)...)

	if code, said := a.do(t, "guard explain Bash >explained"); code != "0" {
		t.Fatalf("explaining inside the session: exit %s, %s", code, said)
	}
	examined(t, exec.Command("cat", a.dir+"/explained"), 0, `tool +"Bash" of claude, in session `+a.id, `VERIFIED +pass  self_unprotected`)
	if code, _ := a.do(t, "guard doctor >examined"); code != "1" {
		t.Errorf("doctor inside the session: exit %s", code)
	}
	examined(t, exec.Command("cat", a.dir+"/examined"), 0, `sessions +ok +`+a.id[:6]+` .*`, `operator +fail +not_operator: .*`)
	if code, said := a.do(t, "guard checkpoint x"); code != "1" {
		t.Errorf("a checkpoint inside the session: exit %s, %s", code, said)
	}

	run(t, "chmod", "g-s", programs+"/guard-gate")
	defer run(t, "chmod", "2755", programs+"/guard-gate")
	examined(t, as("olga", "guard", "doctor"), 1, `programs +fail +".*guard-gate" has not the group guard-gate and its set-group-id bit.*`,
		` +fix: chown root:guard-gate ".*guard-gate" && chmod 2755 ".*guard-gate"`)
}
