package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/internal/config"
)

// secret makes a file that a ZVM's configuration may name.
func (h home) secret(t *testing.T) string {
	t.Helper()
	path := filepath.Join(h.dir, "zvm.secret")
	if err := os.WriteFile(path, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (h home) config(t *testing.T) *config.Config {
	t.Helper()
	cfg, err := config.Load(h.paths.Config, h.paths.Mode, uid())
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestInit(t *testing.T) {
	h := newHome(t)
	got := h.guard("", "init", "--zvm-url", "https://zvm.example", "--zvm-ca-file", "/x/ca.pem", "--zvm-client-id", "guard",
		"--zvm-client-secret-file", h.secret(t), "--accept-same-uid", "--self", "app-01", "--self", "db \"01\"", "--allow-root-sessions")
	if got.code != ExitDone || got.stderr != "" || !strings.Contains(got.out, "Next: guard launch exec") {
		t.Fatalf("%+v", got)
	}
	cfg := h.config(t)
	if cfg.ZVM == nil || cfg.ZVM.URL != "https://zvm.example" || !cfg.ZVM.AcceptSameUID || len(cfg.Checkpoint.Self) != 2 ||
		cfg.Checkpoint.Self[1] != `db "01"` || !cfg.Identity.AllowRootSessions {
		t.Errorf("wrote %+v, zvm %+v", cfg, cfg.ZVM)
	}
	if info, err := os.Stat(h.paths.Config); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(h.paths.Config), ".guard*")); len(left) > 0 {
		t.Errorf("left behind %v", left)
	}
}

func TestInitNeverOverwrites(t *testing.T) {
	h := newHome(t)
	if got := h.guard("", "init"); got.code != ExitDone || !strings.Contains(got.stderr, "every change will be denied") {
		t.Fatalf("%+v", got)
	}
	before, err := os.ReadFile(h.paths.Config)
	if err != nil {
		t.Fatal(err)
	}
	if got := h.guard("", "init", "--self", "none"); got.code != ExitUnfinished || !strings.Contains(got.stderr, "--force") {
		t.Errorf("%+v", got)
	}
	if after, _ := os.ReadFile(h.paths.Config); string(after) != string(before) {
		t.Error("guard.toml was changed")
	}
	if got := h.guard("", "init", "--self", "none", "--force"); got.code != ExitDone || !h.config(t).Checkpoint.SelfNone {
		t.Errorf("%+v", got)
	}
}

// What the broker would refuse never takes the file's place.
func TestInitChecksWhatItWrites(t *testing.T) {
	h := newHome(t)
	for _, tc := range []struct{ args, want string }{
		{"--zvm-url https://zvm.example --zvm-ca-file ca.pem --zvm-client-id g --zvm-client-secret-file s", "accept_same_uid"},
		{"--zvm-url http://zvm.example --zvm-ca-file ca.pem --zvm-client-id g --zvm-client-secret-file s --accept-same-uid", "zvm.url"},
		{"--zvm-client-id g", "zvm"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			got := h.guard("", append([]string{"init"}, strings.Fields(tc.args)...)...)
			if got.code != ExitUsage || !strings.Contains(got.stderr, tc.want) {
				t.Errorf("%+v; want a fault of %s", got, tc.want)
			}
			if entries, _ := os.ReadDir(filepath.Dir(h.paths.Config)); len(entries) > 0 {
				t.Errorf("left behind %v", entries)
			}
		})
	}
}

func TestInitRelativePaths(t *testing.T) {
	h := newHome(t)
	h.secret(t)
	t.Chdir(h.dir)
	got := h.guard("", "init", "--zvm-url", "https://z", "--zvm-spki-sha256", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
		"--zvm-username", "u", "--zvm-password-file", "zvm.secret", "--accept-same-uid")
	if got.code != ExitDone || got.stderr != "" {
		t.Fatalf("%+v", got)
	}
	if want := filepath.Join(h.dir, "zvm.secret"); h.config(t).ZVM.PasswordFile != want {
		t.Errorf("password file %q, want %q", h.config(t).ZVM.PasswordFile, want)
	}
}

func TestAsk(t *testing.T) {
	for _, tc := range []struct {
		name, answers, err string
		want               initFlags
	}{
		{"no ZVM, nothing protected", "\n\n", "", initFlags{self: []string{"none"}}},
		{"no ZVM, two machines", "\napp 01, db\n", "", initFlags{self: []string{"app 01", "db"}}},
		{"ZVM", "https://z\nca.pem\n\nsec\nyes\napp\n", "", initFlags{self: []string{"app"},
			zvm: config.ZVM{URL: "https://z", CAFile: "ca.pem", ClientID: "guard", ClientSecretFile: "sec", AcceptSameUID: true}}},
		{"ZVM not accepted", "https://z\nca.pem\n\nsec\n\napp\n", "accept_same_uid", initFlags{}},
		{"ends early", "https://z\nca.pem\n", "nothing was written", initFlags{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var in initFlags
			var asked strings.Builder
			err := (Command{Stdin: strings.NewReader(tc.answers), Stderr: &asked}).ask(&in)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("ask = %v, want %q", err, tc.err)
			}
			if err == nil && (in.zvm != tc.want.zvm || strings.Join(in.self, "|") != strings.Join(tc.want.self, "|")) {
				t.Errorf("answers %+v, want %+v", in, tc.want)
			}
		})
	}
}
