//go:build system

package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/launcher/runtime"
)

// nativeClaude is the pinned client, where "make hosts" puts it.
const nativeClaude = "../../bin/hosts/claude/node_modules/@anthropic-ai/claude-code-linux-x64/claude"

// fromManaged is how the client writes the denial of a managed hook, and not
// that of any other.
const fromManaged = "<tool_use_error>PreToolUse:"

const projectDir = "/home/ada/project"

// claudeFor gives ada the pinned client, on a machine in system mode, with a model
// that plays a script.
func claudeFor(t *testing.T, script fakemodel.Script) *fakemodel.Server {
	t.Helper()
	run(t, "install", "-d", "-o", "ada", "/home/ada/bin", projectDir)
	program := "/home/ada/bin/claude"
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	bind(t, nativeClaude, program)
	model := modelOf(t, script)
	key := model.Key()
	text := fmt.Sprintf(`{"hasCompletedOnboarding":true,"theme":"dark","customApiKeyResponses":{"approved":[%q],"rejected":[]}}`, key[len(key)-20:])
	if err := os.WriteFile("/home/ada/.claude.json", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "chown", "ada", "/home/ada/.claude.json")
	return model
}

// modelOf plays a script until the test ends.
func modelOf(t *testing.T, script fakemodel.Script) *fakemodel.Server {
	t.Helper()
	model, err := fakemodel.Start(script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	})
	return model
}

// bind puts a part of bin/hosts where ada finds it, until the test ends.
func bind(t *testing.T, from, to string) {
	t.Helper()
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		t.Fatalf("%v; run: make hosts", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) })
}

// asks is a command of ada's in her project that leads the client to the model.
func asks(model *fakemodel.Server, args ...string) *exec.Cmd {
	cmd := as("ada", append(args, "-p", "go", "--permission-mode", "bypassPermissions")...)
	cmd.Dir = projectDir
	cmd.Env = append(cmd.Env, "PATH=/home/ada/bin:"+programs+":/usr/bin:/bin", "ANTHROPIC_BASE_URL="+model.URL(), "ANTHROPIC_API_KEY="+model.Key(),
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1")
	return cmd
}

func touching(name string) fakemodel.Step {
	return fakemodel.Use("Bash", fmt.Sprintf(`{"command":"touch %s","description":"x"}`, filepath.Join(projectDir, name)))
}

// after has something done before the model goes on.
func after(do func() error, step fakemodel.Step) fakemodel.Step {
	return fakemodel.After(func(context.Context, *fakemodel.Request) error { return do() }, step)
}

// approved has olga approve ada's one session of a runtime before a step.
func approved(t *testing.T, runtime string, step fakemodel.Step) fakemodel.Step {
	return after(func() error {
		for _, open := range status(t).Sessions {
			if open.Runtime != runtime || !open.GateSeen {
				return fmt.Errorf("the broker knows %+v", open)
			}
			operator(t, "approve", open.ID)
		}
		return nil
	}, step)
}

// heardOfChange waits until the broker has heard that the client's settings
// changed, and has locked the session for it.
func heardOfChange(t *testing.T) func() error {
	return func() error {
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			for _, open := range status(t).Sessions {
				if d := open.LastDenial; d != nil && d.Code == "config_change" && open.Alarm != "" {
					return nil
				}
			}
		}
		return errors.New("the client told nobody that its settings changed")
	}
}

// made wants just these of the named files in the project.
func made(t *testing.T, want map[string]bool) {
	t.Helper()
	for name, there := range want {
		if _, err := os.Lstat(filepath.Join(projectDir, name)); (err == nil) != there {
			t.Errorf("%s was made: %v, want %v", name, err == nil, there)
		}
	}
}

// TestClaudeInSystemMode: the real client of an ordinary user, against the broker
// of another uid, asked by the hooks that guard init --system put among the
// administrator's settings. The lease of an operator of a third uid decides, and
// compaction ends it. When the file with the hooks goes, those that the session
// brought take over, and it stays gated.
func TestClaudeInSystemMode(t *testing.T) {
	machine(t)
	full := func(ctx context.Context, r *fakemodel.Request) (fakemodel.Turn, error) {
		turn, err := touching("under")(ctx, r)
		turn.Tokens = 990_000 // for this client too many, so it compacts
		return turn, err
	}
	// The client takes the change over a moment after it has told of it.
	untilOwn := func(ctx context.Context, r *fakemodel.Request) (fakemodel.Turn, error) {
		last, err := r.Last()
		if err != nil || !strings.Contains(last.Text, fromManaged) {
			return fakemodel.Turn{Text: "done"}, err
		}
		time.Sleep(50 * time.Millisecond)
		return touching("without")(ctx, r)
	}
	model := claudeFor(t, fakemodel.Script{
		Steps: append([]fakemodel.Step{
			fakemodel.Use("Read", `{"file_path":"/etc/hostname"}`),
			touching("before"),
			approved(t, "claude", full),
			touching("compacted"),
			approved(t, "claude", touching("again")),
			after(func() error { return os.Remove(runtime.DropIn) }, fakemodel.Use("Read", `{"file_path":"/etc/hosts"}`)),
			after(heardOfChange(t), touching("without")),
		}, slices.Repeat([]fakemodel.Step{untilOwn}, 200)...),
		Others: []fakemodel.Conversation{fakemodel.Compaction()},
	})
	s := activate(t)
	s.wake(t)
	if out, err := asks(model, "guard", "launch", "claude", "--").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	} else if strings.Contains(string(out), "managed settings") {
		t.Errorf("the launch finds fault with the machine: %s", out)
	}
	made(t, map[string]bool{"before": false, "under": true, "compacted": false, "again": true, "without": false})
	results := model.Results()
	if len(results) < 7 {
		t.Fatalf("the model was told %+v", results)
	}
	for i, want := range []string{"", "guard: lease_unverified: ", "", "guard: lease_revoked: ", "", "", "guard: lease_revoked: "} {
		r := results[i]
		if i == 6 {
			r = results[len(results)-1]
		}
		if r.IsError != (want != "") || !strings.Contains(r.Text, want) {
			t.Errorf("call %d: the model was told %q, want %q", i+1, r.Text, want)
		}
		if managed := strings.Contains(r.Text, fromManaged); want != "" && managed != (i < 6) {
			t.Errorf("call %d was denied by a managed hook: %v; %q", i+1, managed, r.Text)
		}
	}
	s.terminate(t)
}

// TestT5_LaunchInSystemMode: whatever an administrator's files say of the hooks,
// the launch either proves that the gate is asked or doesn't happen.
func TestT5_LaunchInSystemMode(t *testing.T) {
	machine(t)
	s := activate(t)
	s.wake(t)
	own, err := os.ReadFile(runtime.DropIn)
	if err != nil {
		t.Fatal(err)
	}
	const main, later = "/etc/claude-code/managed-settings.json", "/etc/claude-code/managed-settings.d/zzz.json"
	broken := strings.ReplaceAll(string(own), `"timeout": 180`, `"timeout": 0`)
	if broken == string(own) {
		t.Fatalf("the drop-in is %s", own)
	}
	for _, c := range []struct {
		name, path, text string
		mode             os.FileMode
		words            []string // of the refusal; nil: it runs
		said             string   // what the launch says then
	}{
		{"hooks of that file never load", runtime.DropIn, broken, 0o644, []string{"zz-leaseguard.json has a hook of ConfigChange that the client leaves out: at timeout"}, ""},
		{"hooks only elsewhere", runtime.DropIn, `{"allowManagedHooksOnly":true}`, 0o644, []string{"zz-leaseguard.json has allowManagedHooksOnly = true"}, ""},
		{"switched off later", later, `{"disableAllHooks":true}`, 0o644, []string{"zzz.json has disableAllHooks = true"}, ""},
		{"others may write", later, `{}`, 0o666, []string{"zzz.json", "its mode is 0666", "as root: chown root:root"}, ""},
		{"of an older version", runtime.DropIn, strings.ReplaceAll(string(own), `"timeout": 180`, `"timeout": 170`), 0o644, nil, "as root: guard init --system"},
		{"gone", runtime.DropIn, "", 0, nil, "as root: guard init --system"},
		{"others' policies", main, `{"permissions":{"deny":["WebFetch"]}}`, 0o644, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			place(t, c.path, c.text, c.mode)
			model := claudeFor(t, fakemodel.Script{Steps: []fakemodel.Step{touching("file"), fakemodel.Say("done")}})
			out, err := asks(model, "guard", "launch", "claude", "--").CombinedOutput()
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			last := lines[len(lines)-1]
			if c.words != nil {
				if model.Count() != 0 || err == nil || err.Error() != "exit status 3" || !strings.HasPrefix(last, "guard: wiring_unproved: ") {
					t.Errorf("%v, %d requests: %s", err, model.Count(), out)
				}
				for _, word := range c.words {
					if !strings.Contains(last, word) {
						t.Errorf("the refusal doesn't say %q: %s", word, last)
					}
				}
			} else if results := model.Results(); err != nil || len(results) != 1 || !strings.Contains(results[0].Text, "guard: lease_unverified: ") ||
				strings.Contains(string(out), "managed settings") != (c.said != "") || !strings.Contains(string(out), c.said) {
				t.Errorf("%v: %s; the model was told %+v", err, out, results)
			}
			made(t, map[string]bool{"file": false})
		})
	}
}

// place puts a text in a file's place, or nothing, until the test ends.
func place(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	old, err := os.ReadFile(path)
	t.Cleanup(func() {
		_ = os.Remove(path) // gone already, in some cases
		if err != nil {
			return
		}
		if err := os.WriteFile(path, old, 0o644); err != nil {
			t.Error(err)
		}
	})
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if mode == 0 {
		return
	}
	if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}
