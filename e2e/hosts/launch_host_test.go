//go:build hosts

package hosts

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"leaseguard.internal/internal/fakemodel"
)

// direct is the same client as a guarded world's, without guard.
func (g *guarded) direct() *world {
	w := *g.world
	return &w
}

// ending starts a program in a world, waits for the first request to the model,
// which is then held, sends a signal and gives how the program ended.
func ending(t *testing.T, g *guarded, program string, sig syscall.Signal, args ...string) string {
	t.Helper()
	return endingWith(t, g, g.script, program, sig, args...)
}

// endingWith is ending with the model of any client.
func endingWith(t *testing.T, g *guarded, script func(fakemodel.Script), program string, sig syscall.Signal, args ...string) string {
	t.Helper()
	asked := make(chan struct{})
	script(fakemodel.Script{Steps: []fakemodel.Step{func(ctx context.Context, _ *fakemodel.Request) (fakemodel.Turn, error) {
		close(asked)
		<-ctx.Done()
		return fakemodel.Turn{}, ctx.Err()
	}}})
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = g.Project, g.environ()
	must(t, cmd.Start())
	hang := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer hang.Stop()
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("the client never asked its model")
	}
	must(t, cmd.Process.Signal(sig))
	_ = cmd.Wait() // how it ended is what this is about
	return cmd.ProcessState.String()
}

// TestLaunchEndsAsDirect: exit status and signals are those of a direct start.
func TestLaunchEndsAsDirect(t *testing.T) {
	t.Parallel()
	client := []string{"-p", "go"}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			want := ending(t, newGuarded(t, ""), claude, sig, client...)
			for runtime, as := range claudes {
				if runtime == "claudex" && sig != syscall.SIGTERM {
					continue // it is the same process
				}
				g := as(newGuarded(t, ""))
				got := ending(t, g, filepath.Join(g.bin, "guard"), sig, append([]string{"launch", runtime, "--"}, client...)...)
				if got != want {
					t.Errorf("%s ended under guard with %q, by itself with %q", runtime, got, want)
				}
			}
		})
	}
	t.Run("failing", func(t *testing.T) {
		t.Parallel()
		g := newGuarded(t, "").claudex()
		g.script(fakemodel.Script{})
		args := []string{"-p", "go", "--output-format", "nonsense"}
		want, got := g.direct().runAs(args...), g.launchAs(append([]string{"--"}, args...)...)
		if got.Exit != want.Exit || got.Exit == 0 || !strings.HasSuffix(got.Stderr, want.Stderr) {
			t.Errorf("under guard exit %d with %q, by itself %d with %q", got.Exit, got.Stderr, want.Exit, want.Stderr)
		}
	})
}

// TestL4_LaunchFromInstallersPlace: claude is a shell alias only. guard finds
// the installer's file without reading any shell's, and says so; its own wrapper
// in PATH is passed over.
func TestL4_LaunchFromInstallersPlace(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "")
	g.steps(fakemodel.Say("done"))
	local := filepath.Join(g.Home, ".claude/local")
	must(t, os.MkdirAll(local, 0o755))
	must(t, os.Symlink(claude, filepath.Join(local, "claude")))
	g.write(filepath.Join(g.Home, ".bashrc"), "alias claude=/nowhere")
	wrappers := filepath.Join(g.Dir, "wrappers")
	g.write(filepath.Join(wrappers, "claude"), "#!/bin/sh\nexec guard launch claude -- \"$@\"\n")
	must(t, os.Chmod(filepath.Join(wrappers, "claude"), 0o755))
	g.Env = append(g.Env, "PATH="+wrappers+":"+g.bin+":/usr/bin:/bin")
	o := g.launch()
	g.ok(o)
	if !strings.Contains(o.Stderr, "claude is not in PATH; using \""+filepath.Join(local, "claude")+"\"") || !strings.Contains(o.Stderr, "--client FILE") {
		t.Errorf("stderr %q", o.Stderr)
	}
	// By way of the wrapper itself: it ends in guard once, not in a loop.
	w := g.direct()
	w.Client = filepath.Join(wrappers, "claude")
	w.ok(w.run())
}

// TestR2_LaunchResume: neither the client's own --resume nor guard's carries
// authority over, whatever the client says its session is called.
func TestR2_LaunchResume(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "")
	first := ""
	g.steps(
		fakemodel.Use("Read", string(toJSON(t, object{"file_path": "/etc/hostname"}))),
		g.operator("approve", fakemodel.Use("Bash", `{"command":"true"}`)),
		func(context.Context, *fakemodel.Request) (fakemodel.Turn, error) {
			first = g.sessions()[0].ID
			return fakemodel.Turn{Text: "first done"}, nil
		},
		fakemodel.Use("Bash", g.touch()), fakemodel.Say("second done"),
		fakemodel.Use("Bash", g.touch()), fakemodel.Say("third done"),
	)
	g.ok(g.launch())
	g.ok(g.launch("--continue"))
	g.ok(g.launchAs("--resume", first, "--", "-p", "go", "--dangerously-skip-permissions", "--continue"))
	got := g.results()
	if len(got) != 4 || !strings.HasPrefix(got[1], "ok: ") || g.marked() {
		t.Fatalf("results %q, marked %v", got, g.marked())
	}
	for _, r := range got[2:] { // revoked, when the client has told of the resume
		if !strings.HasPrefix(r, "error: ") || !strings.Contains(r, "the session's lease is UNVERIFIED") {
			t.Errorf("after a resume the model was told %q", r)
		}
	}
}

// TestLaunchCarriesUser: model, permissions, variables and MCP servers of the
// user's own are there, and no secret of theirs stands in an argument.
func TestLaunchCarriesUser(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "[checkpoint]\nself = \"none\"\nunlisted = \"allow\"\nno_vm = \"allow\"\n")
	var argv string
	g.steps(
		func(_ context.Context, r *fakemodel.Request) (fakemodel.Turn, error) {
			text, err := os.ReadFile("/proc/" + itoa(g.sessions()[0].AnchorPID) + "/cmdline")
			must(t, err)
			argv = string(text)
			if !strings.Contains(r.Model, "haiku") || r.Offers("WebFetch") {
				t.Errorf("model %q, WebFetch offered %v", r.Model, r.Offers("WebFetch"))
			}
			return fakemodel.Use("Read", `{"file_path":"/etc/hostname"}`)(context.Background(), r)
		},
		g.operator("approve", fakemodel.Use("mcp__vs__act", `{"x":1}`)),
		fakemodel.Use("Bash", `{"command":"echo $FROM_USER"}`),
	)
	g.write(filepath.Join(g.Home, ".claude/settings.json"), object{
		"model": "haiku", "permissions": object{"deny": []string{"WebFetch"}}, "env": object{"FROM_USER": "us3r"},
	})
	state := object{}
	state["mcpServers"] = object{"vs": object{"command": self, "args": []string{"play-mcp", g.Records, "act"}, "env": object{"KEY": "s3cret"}}}
	key := g.Model.Key()
	state["hasCompletedOnboarding"] = true
	state["customApiKeyResponses"] = object{"approved": []string{key[len(key)-20:]}, "rejected": []string{}}
	g.write(filepath.Join(g.Home, ".claude.json"), state)
	g.write(filepath.Join(g.Project, ".mcp.json"), g.mcp("planted", "act"))
	o := g.launch()
	g.ok(o)
	got := g.results()
	want := []string{"ok: ", "ok: ran act", "ok: us3r"}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("the model was told %q, want %q", got, want)
	}
	for _, secret := range []string{"s3cret", "us3r"} {
		if argv == "" || strings.Contains(argv, secret) {
			t.Errorf("the client's arguments are %q", argv)
		}
	}
}
