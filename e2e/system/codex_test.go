//go:build system

package system

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/launcher/runtime"
)

// nativeCodex is the directory of the pinned client's program.
const nativeCodex = "../../bin/hosts/codex/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl"

// codexFor gives ada the pinned client, with a model that plays a script.
func codexFor(t *testing.T, more string, steps ...fakemodel.Step) *fakemodel.Server {
	t.Helper()
	run(t, "mkdir", "-p", "/home/ada/codex") // which may be the client's own already
	run(t, "install", "-d", "-o", "ada", "/home/ada/.codex", projectDir)
	bind(t, nativeCodex, "/home/ada/codex")
	model := modelOf(t, fakemodel.Script{Steps: steps})
	text := fmt.Sprintf("model = \"gpt-5.4\"\nmodel_provider = \"scripted\"\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"%s/v1\"\n"+
		"wire_api = \"responses\"\nrequest_max_retries = 0\nstream_max_retries = 0\nexperimental_bearer_token = %q\n%s", model.URL(), model.Key(), more)
	if err := os.WriteFile("/home/ada/.codex/config.toml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "chown", "-R", "ada", "/home/ada/.codex")
	return model
}

// codexAs is a command of ada's in her project.
func codexAs(args ...string) *exec.Cmd {
	cmd := as("ada", append(args, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "go")...)
	cmd.Dir = projectDir
	cmd.Env = append(cmd.Env, "PATH="+programs+":/usr/bin:/bin:/home/ada/codex/bin", "HOME=/home/ada")
	return cmd
}

func touchingCodex(name string) fakemodel.Step {
	return fakemodel.Use("exec_command", fmt.Sprintf(`{"cmd":"touch %s/%s"}`, projectDir, name))
}

// TestCodexInSystemMode: the real client of an ordinary user, against the broker
// of another uid, asked by the hooks that guard init --system put into the
// administrator's requirements beside what was there. No configuration, argument
// or launch without guard leads around them.
func TestCodexInSystemMode(t *testing.T) {
	const others = "# ours\nallowed_approval_policies = [\"never\", \"on-request\"]\n[features]\nmemories = false\n"
	run(t, "install", "-d", "/etc/codex")
	place(t, runtime.CodexRequirements, others, 0o644)
	machine(t)
	text, err := os.ReadFile(runtime.CodexRequirements)
	if err != nil || !strings.Contains(string(text), "allow_managed_hooks_only = true\n") {
		t.Fatalf("%v: %s", err, text)
	}
	if rest, err := runtime.WithoutRequirements(text); err != nil || string(rest) != others {
		t.Errorf("what was there is %q, %v", rest, err)
	}
	s := activate(t)
	s.wake(t)
	model := codexFor(t, "[features]\nhooks = false\n", touchingCodex("before"), approved(t, "codex", touchingCodex("under")))
	if out, err := codexAs("guard", "launch", "codex", "--").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if results := model.Results(); len(results) != 2 || !strings.Contains(results[0].Text, "guard: lease_unverified: ") {
		t.Errorf("the model was told %+v", results)
	}
	made(t, map[string]bool{"before": false, "under": true})

	model = codexFor(t, "[features]\nhooks = false\n", touchingCodex("alone"))
	if out, err := codexAs("codex", "--disable", "hooks").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if results := model.Results(); len(results) != 1 || !strings.Contains(results[0].Text, "guard: not_registered: ") {
		t.Errorf("without guard launch the model was told %+v", results)
	}
	made(t, map[string]bool{"alone": false})
	s.terminate(t)
	run(t, filepath.Join(programs, "guard"), "uninstall", "--system", "--yes")
	if text, err = os.ReadFile(runtime.CodexRequirements); err != nil || string(text) != others {
		t.Errorf("after uninstall %q is left, %v", text, err)
	}
}
