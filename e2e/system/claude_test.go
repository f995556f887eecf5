//go:build system

package system

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/fakemodel"
)

// nativeClaude is the pinned client, where "make hosts" puts it.
const nativeClaude = "../../bin/hosts/claude/node_modules/@anthropic-ai/claude-code-linux-x64/claude"

// The real client of an ordinary user, against the broker of another uid: the
// gate is proved before exec and known afterwards by its group, and the lease of
// an operator of a third uid decides.
func TestClaudeInSystemMode(t *testing.T) {
	machine(t)
	if _, err := os.Stat(nativeClaude); err != nil {
		t.Fatalf("%v; run: make hosts", err)
	}
	run(t, "install", "-d", "-o", "ada", "/home/ada/bin", "/home/ada/project")
	program := "/home/ada/bin/claude"
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(nativeClaude, program, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(program, unix.MNT_DETACH) })
	s := activate(t)
	s.wake(t)

	touch := func(name string) fakemodel.Step {
		return fakemodel.Use("Bash", fmt.Sprintf(`{"command":"touch %s","description":"x"}`, filepath.Join("/home/ada/project", name)))
	}
	then := func(words string, step fakemodel.Step) fakemodel.Step {
		return fakemodel.After(func(context.Context, *fakemodel.Request) error {
			for _, open := range status(t).Sessions {
				if open.Runtime != "claude" || !open.GateSeen {
					return fmt.Errorf("the broker knows %+v", open)
				}
				operator(t, words, open.ID)
			}
			return nil
		}, step)
	}
	model, err := fakemodel.Start(fakemodel.Script{Steps: []fakemodel.Step{
		touch("before"), then("approve", touch("under")), then("revoke", touch("after")), fakemodel.Say("done"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	}()
	key := model.Key()
	text := fmt.Sprintf(`{"hasCompletedOnboarding":true,"theme":"dark","customApiKeyResponses":{"approved":[%q],"rejected":[]}}`, key[len(key)-20:])
	if err := os.WriteFile("/home/ada/.claude.json", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "chown", "ada", "/home/ada/.claude.json")
	cmd := as("ada", "guard", "launch", "claude", "--", "-p", "go", "--permission-mode", "bypassPermissions")
	cmd.Dir = "/home/ada/project"
	cmd.Env = append(cmd.Env, "PATH=/home/ada/bin:"+programs+":/usr/bin:/bin", "ANTHROPIC_BASE_URL="+model.URL(), "ANTHROPIC_API_KEY="+key,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var told []string
	for _, r := range model.Requests() {
		for _, result := range r.Results() {
			told = append(told, fmt.Sprint(result))
		}
	}
	for name, there := range map[string]bool{"before": false, "under": true, "after": false} {
		if _, err := os.Lstat(filepath.Join("/home/ada/project", name)); (err == nil) != there {
			t.Errorf("%s was made: %v, want %v; the model was told %s", name, err == nil, there, strings.Join(told, "\n"))
		}
	}
	s.terminate(t)
}
