package launcher

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// claudex launches the scripted client as claudex.
func (f fixture) claudex(t *testing.T, env ...string) (stdout, stderr string, code int) {
	t.Helper()
	return f.start(t, append(env, "TEST_RUNTIME=claudex", "TEST_CLIENT="), "report")
}

// put writes a file below the fixture, with a mode.
func (f fixture) put(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(f.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err == nil {
		err = os.Chmod(path, mode) // whatever the umask is
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// files lists a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestClaudex: its settings get the gate and keep mode and bytes; the client is
// told the directory, and enforced by the arguments of claude all the same.
func TestClaudex(t *testing.T) {
	f := newFixture(t).copied(t)
	f.claudeBroker(t, verbs{})
	const before = "{\n  \"model\" : \"opus\",\n\t\"permissions\": {\"deny\":[\"WebFetch\"]}\n}\n"
	path := f.put(t, ".claudex/settings.json", before, 0o640)
	f.put(t, ".claude/settings.json", `{"model":"another"}`, 0o600)
	stdout, stderr, code := f.claudex(t)
	var view runtimeView
	if code != 42 || json.Unmarshal([]byte(stdout), &view) != nil {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	args := string(view.Args[1])
	if !strings.HasPrefix(args, `--settings={"hooks":{"ConfigChange"`) || !strings.Contains(args, `"model":"opus"`) || string(view.Args[2]) != "--setting-sources=" {
		t.Errorf("arguments %q", view.Args)
	}
	if want := "CLAUDE_CONFIG_DIR=" + filepath.Join(f.dir, ".claudex"); !slices.Contains(view.Env, want) {
		t.Errorf("the client lacks %s", want)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(text), `{"hooks":{`) || !strings.HasSuffix(string(text), strings.TrimPrefix(before, "{")) {
		t.Errorf("settings are now %s, %v", text, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("settings: %v, %v", info, err)
	}
	if got := files(t, filepath.Dir(path)); !slices.Equal(got, []string{"settings.json"}) {
		t.Errorf("beside the settings lie %q", got)
	}
	first, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := f.claudex(t); code != 42 || strings.Contains(stderr, "hooks") {
		t.Errorf("once more: exit %d: %s", code, stderr)
	}
	if again, err := os.Stat(path); err != nil || !os.SameFile(first, again) {
		t.Errorf("settings that have the gate were written again: %v", err)
	}
	if other, err := os.ReadFile(filepath.Join(f.dir, ".claude/settings.json")); err != nil || string(other) != `{"model":"another"}` {
		t.Errorf("claude's own settings are now %s, %v", other, err)
	}
}

// TestClaudexMakesItsDirectory: where there is none, and one's own is chosen by
// the variable.
func TestClaudexMakesItsDirectory(t *testing.T) {
	f := newFixture(t).copied(t)
	f.claudeBroker(t, verbs{})
	dir := filepath.Join(f.dir, "a/b")
	if _, stderr, code := f.claudex(t, "CLAUDE_CONFIG_DIR="+dir); code != 42 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for name, want := range map[string]os.FileMode{"": 0o700, "settings.json": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// TestT3_ClaudexLeavesLinksAlone: settings that are no plain file of their
// user's, or that the client would skip, end the launch and stay as they are.
func TestT3_ClaudexLeavesLinksAlone(t *testing.T) {
	link := func(t *testing.T, f fixture, name, target string) {
		t.Helper()
		path := filepath.Join(f.dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.Symlink(target, path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const settings = ".claudex/settings.json"
	for _, c := range []struct {
		name string
		make func(t *testing.T, f fixture)
		want string
	}{
		{"a chain of links", func(t *testing.T, f fixture) {
			link(t, f, settings, "dots/a.json")
			link(t, f, ".claudex/dots/a.json", "../../store/real.json")
			f.put(t, "store/real.json", "{}", 0o600)
			dots := filepath.Join(f.dir, ".claudex/dots")
			if err := os.Chmod(dots, 0o555); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(dots, 0o755) }) // or an ordinary user couldn't remove it
		}, "symbolic link"},
		{"a dangling link", func(t *testing.T, f fixture) { link(t, f, settings, "nowhere") }, "symbolic link"},
		{"a loop", func(t *testing.T, f fixture) { link(t, f, settings, "settings.json") }, "too many"},
		{"a second name", func(t *testing.T, f fixture) {
			if err := os.Link(f.put(t, settings, "{}", 0o600), filepath.Join(f.dir, "store.json")); err != nil {
				t.Fatal(err)
			}
		}, "hard links"},
		{"malformed", func(t *testing.T, f fixture) { f.put(t, settings, `{"model":"x",}`, 0o600) }, "no JSON"},
		{"what the client would skip", func(t *testing.T, f fixture) {
			f.put(t, settings, `{"hooks":{"PreToolUse":[{"matcher":{"type":"always"},"hooks":[]}]}}`, 0o600)
		}, "at hooks.PreToolUse[0].matcher"},
		{"a directory that others may write", func(t *testing.T, f fixture) {
			f.put(t, settings, "{}", 0o600)
			if err := os.Chmod(filepath.Join(f.dir, ".claudex"), 0o777); err != nil {
				t.Fatal(err)
			}
		}, "nobody else's to write"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t).copied(t)
			v := f.claudeBroker(t, verbs{})
			c.make(t, f)
			before := snapshot(t, f.dir, ".claudex", "store", "store.json")
			stdout, stderr, code := f.claudex(t)
			if code != 3 || stdout != "" || !strings.HasPrefix(stderr, "guard: config_invalid: ") || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, ". Next: ") {
				t.Errorf("exit %d, stdout %q, stderr %q; want %q", code, stdout, stderr, c.want)
			}
			if after := snapshot(t, f.dir, ".claudex", "store", "store.json"); !slices.Equal(after, before) {
				t.Errorf("before\n%q, after\n%q", before, after)
			}
			if len(v.asked) != 0 {
				t.Errorf("a session was registered: %+v", <-v.asked)
			}
		})
	}
}

// snapshot is what stands below some names: modes, targets of links, bytes.
func snapshot(t *testing.T, dir string, names ...string) []string {
	t.Helper()
	var all []string
	for _, name := range names {
		_ = filepath.WalkDir(filepath.Join(dir, name), func(path string, d os.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			target, _ := os.Readlink(path)
			text := []byte(nil)
			if info.Mode().IsRegular() {
				text, _ = os.ReadFile(path)
			}
			all = append(all, path+" "+info.Mode().String()+" "+target+" "+string(text))
			return nil
		})
	}
	if len(all) == 0 {
		t.Fatal("there is nothing to compare")
	}
	return all
}

// TestReplaceSeesOthers: a file that somebody else wrote meanwhile isn't lost.
func TestReplaceSeesOthers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "settings.json")
	none, err := openSettings(path)
	if err != nil || none.found {
		t.Fatalf("found %+v, %v", none, err)
	}
	if err := os.WriteFile(path, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := none.replace([]byte("ours")); !errors.Is(err, errChanged) {
		t.Errorf("a new file replaced another: %v", err)
	}
	old, err := openSettings(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("theirs again"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := old.replace([]byte("ours")); !errors.Is(err, errChanged) {
		t.Errorf("a changed file was replaced: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "theirs again" || len(files(t, dir)) != 1 {
		t.Errorf("there stands %q, %v, among %q", text, err, files(t, dir))
	}
}
