//go:build hosts

package hosts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCodexCredentialProgram: the program by which a user's provider prints its
// credential is started as a hook is, with the line that only hooks may have.
func TestCodexCredentialProgram(t *testing.T) {
	t.Parallel()
	codexHole("credential_program", "a program that prints a provider's credential, as the user's config.toml says, has the line that tells hooks from tools", "open",
		"it is the user's own: keep ~/.codex unwritable for the agent, or name a variable (env_key) in its place").report(t)
	g := newCodex(t, "")
	program, found := filepath.Join(g.Dir, "credential"), filepath.Join(g.Dir, "found")
	g.codexSteps(fmt.Sprintf("[model_providers.scripted.auth]\ncommand = %q\n", program), g.mark())
	g.write(program, "#!/bin/sh\nls /proc/self/fd >> "+found+"\necho "+g.Model.Key()+"\n")
	must(t, os.Chmod(program, 0o755))
	text, err := readAll(g.codexHome("config.toml"))
	must(t, err)
	g.write(g.codexHome("config.toml"), strings.Replace(text, "experimental_bearer_token", "# ", 1))
	g.ok(g.launchCodex())
	g.denied()
	if text, err := readAll(found); err != nil || !strings.Contains(text, "\n200\n") {
		t.Errorf("it has no line, and the row says otherwise: %v, %q", err, text)
	}
}
