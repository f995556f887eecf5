package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/zvmsim"
)

// file makes a file in the home.
func (h home) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// secret makes a file that a ZVM's configuration may name.
func (h home) secret(t *testing.T) string { return h.file(t, "zvm.secret", "s3cret\n") }

// ca makes a certificate authority's file, by the simulator.
func (h home) ca(t *testing.T) string {
	t.Helper()
	sim, err := zvmsim.Start(zvmsim.Options{Dir: filepath.Join(h.dir, "sim")})
	if err != nil {
		t.Fatal(err)
	}
	if err := sim.Close(); err != nil {
		t.Fatal(err)
	}
	return sim.Info().CAFile
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
	got := h.guard("", "init", "--zvm-url", "https://zvm.example", "--zvm-ca-file", h.ca(t), "--zvm-client-id", "guard",
		"--zvm-client-secret-file", h.secret(t), "--accept-same-uid", "--self", "app-01", "--self", "db \"01\"", "--allow-root-sessions")
	if got.code != ExitDone || got.stderr != "" || !strings.Contains(got.out, "Next: guard launch claude") {
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
	if got := h.guard("", "init", "--force"); got.code != ExitUsage || !strings.Contains(got.stderr, "--force alone") {
		t.Errorf("%+v", got)
	}
	for range 2 { // also where an older one was kept already
		got := h.guard("", "init", "--self", "none", "--force")
		if got.code != ExitDone || !h.config(t).Checkpoint.SelfNone || !strings.Contains(got.out, "kept the old one as ") {
			t.Errorf("%+v", got)
		}
	}
	if old, err := os.ReadFile(h.paths.Config + oldSuffix); err != nil || !strings.Contains(string(old), "\nself = \"none\"") {
		t.Errorf("kept %q, %v", old, err)
	}
}

// What the broker would refuse never takes the file's place.
func TestInitChecksWhatItWrites(t *testing.T) {
	h := newHome(t)
	whole := "--zvm-ca-file " + h.ca(t) + " --zvm-client-id g --zvm-client-secret-file " + h.secret(t)
	none := h.dir + "/none"
	for _, tc := range []struct {
		name, args string
		want       []string // one line each
	}{
		{"same uid", "--zvm-url https://z " + whole, []string{"--accept-same-uid is missing"}},
		{"bad URL", "--zvm-url http://z --accept-same-uid " + whole, []string{`--zvm-url: "http://z" is no address`}},
		{"no URL", whole, []string{"--zvm-url is missing"}},
		{"one flag", "--zvm-client-id g", []string{"--zvm-url is missing"}},
		{"no trust", "--zvm-url https://z --zvm-client-id g --zvm-client-secret-file s", []string{"--zvm-ca-file or --zvm-spki-sha256"}},
		{"half a credential", "--zvm-url https://z --zvm-ca-file c --zvm-client-id g", []string{"--zvm-client-id with --zvm-client-secret-file"}},
		{"client and user", "--zvm-url https://z --zvm-username u " + whole, []string{"--zvm-client-id with --zvm-client-secret-file"}},
		{"two bad values", "--zvm-url z --zvm-spki-sha256 x --zvm-client-id g --zvm-client-secret-file s --accept-same-uid", []string{"--zvm-url: ", "--zvm-spki-sha256: "}},
		{"no such files", "--zvm-url https://z --accept-same-uid --zvm-client-id g --zvm-ca-file " + none + " --zvm-client-secret-file " + none,
			[]string{"--zvm-ca-file: ", "--zvm-client-secret-file: "}},
		{"no such password", "--zvm-url https://z --accept-same-uid --zvm-username u --zvm-ca-file " + h.ca(t) + " --zvm-password-file " + none, []string{"--zvm-password-file: "}},
		{"no certificate", "--zvm-url https://z --accept-same-uid --zvm-client-id g --zvm-client-secret-file " + h.secret(t) + " --zvm-ca-file " + h.secret(t),
			[]string{"it holds no certificate"}},
		{"none and another", "--self none --self app-01", []string{"none stands alone"}},
		{"empty name", "--self=", []string{"--self is empty"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := h.guard("", append([]string{"init"}, strings.Fields(tc.args)...)...)
			lines := strings.Split(got.stderr, "\n")
			if got.code != ExitUsage || len(lines) != len(tc.want)+2 { // and Try, and nothing
				t.Fatalf("%+v; want a line for each of %q", got, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(lines[i], want) || strings.Contains(lines[i], "toml-") {
					t.Errorf("line %q; want %q", lines[i], want)
				}
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
	h := newHome(t)
	ca, sec := h.ca(t), h.secret(t)
	for _, tc := range []struct {
		name, answers, err string
		want               initFlags
	}{
		{"no ZVM, nothing protected", "\n\n\n", "", initFlags{self: []string{"none"}}},
		{"no ZVM, two machines", "\napp 01, db\nno\n", "", initFlags{self: []string{"app 01", "db"}}},
		{"ZVM", "https://z\n" + ca + "\n\n" + sec + "\nyes\napp\n\n", "", initFlags{self: []string{"app"},
			zvm: config.ZVM{URL: "https://z", CAFile: ca, ClientID: "guard", ClientSecretFile: sec, AcceptSameUID: true}}},
		{"each answer is asked for until it will do", "http://z\nhttps://z\n\n/none\n" + ca + "\n\n" + ca + "/x\n" + sec + "\nsure\ny\nnone, app\napp\nperhaps\ny\n", "", initFlags{self: []string{"app"}, offered: true,
			zvm: config.ZVM{URL: "https://z", CAFile: ca, ClientID: "guard", ClientSecretFile: sec, AcceptSameUID: true}}},
		{"ZVM not accepted", "https://z\n" + ca + "\n\n" + sec + "\n\napp\n", "accept_same_uid", initFlags{}},
		{"system mode has no passphrase", "\n\n", "", initFlags{self: []string{"none"}, system: true}},
		{"ends before the last", "\n\n", "nothing was written", initFlags{}},
		{"ends early", "https://z\n" + ca + "\n", "nothing was written", initFlags{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := initFlags{system: tc.want.system}
			var asked strings.Builder
			err := (Command{Stdin: strings.NewReader(tc.answers), Stderr: &asked}).ask(&in)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("ask = %v, want %q", err, tc.err)
			}
			if err == nil && (in.zvm != tc.want.zvm || in.offered != tc.want.offered || strings.Join(in.self, "|") != strings.Join(tc.want.self, "|")) {
				t.Errorf("answers %+v, want %+v", in, tc.want)
			}
		})
	}
}
