//go:build system

package system

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// In system mode the administrator's hooks judge the calls of people's sessions.
// They run as the session's user, without the group that proves the gate; what the
// host is told comes over the same connection.
func TestHooksInSystemMode(t *testing.T) {
	machine(t)
	const hook = "/opt/guard/no-srv"
	script := `#!/bin/sh
read -r line
[ "$(id -u)" = "$(id -u ada)" ] && [ "$(id -G)" = "$(id -G ada)" ] && [ "$(id -g)" = "$(id -g ada)" ] || { echo "runs as $(id)" >&2; exit 2; }
case "$line" in *"/srv/"*) echo "nothing below /srv for $(id -un)" >&2; exit 2;; esac
`
	for path, text := range map[string]string{
		hook:                    script,
		"/etc/guard/hooks.json": `{"version":1,"hooks":{"PreToolUse":[{"matcher":"Read","hooks":[{"id":"no-srv","type":"command","command":"` + hook + `"}]}]}}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(t, "chmod", "755", hook)
	s := activate(t)
	s.wake(t)
	operator(t, "hooks", "trust", "no-srv", "--yes")
	h := startHost(t)
	fmt.Fprintln(h.in, programs+"/guard-gate")
	said, err := h.out.ReadString('\n')
	if err != nil || !strings.Contains(said, "exit status 2") || !strings.Contains(said, "policy_denied") || !strings.Contains(said, "nothing below /srv for ada") {
		t.Errorf("the host was told %s, %v", said, err)
	}
	if !h.session(t).GateSeen {
		t.Error("the gate that became the runner isn't known as the host's own")
	}
	if err := os.Chmod(programs+"/guard", 0o775); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(h.in, programs+"/guard-gate")
	if said, err = h.out.ReadString('\n'); err != nil || !strings.Contains(said, "policy_unavailable") {
		t.Errorf("with a guard that others may write the host was told %s, %v", said, err)
	}
}
