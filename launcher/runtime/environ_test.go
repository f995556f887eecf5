package runtime

import (
	"slices"
	"strings"
	"testing"
)

func TestS2_Filter(t *testing.T) {
	gone := strings.Fields(`BASH_ENV ENV LD_PRELOAD LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES NODE_OPTIONS NODE_PATH GODEBUG PYTHONSTARTUP
		PERL5OPT CLAUDE_CODE_SIMPLE CLAUDE_CODE_SAFE_MODE CLAUDE_CODE_SHELL_PREFIX CLAUDE_CODE_SHELL CLAUDE_ENV_FILE CLAUDE_CODE_PROCESS_WRAPPER
		LISTEN_FDS NOTIFY_SOCKET GUARD_SESSION GUARD_X BUN_BE_BUN BUN_OPTIONS BUN_INSPECT BASH_FUNC_ls%% CLAUDECODE CLAUDE_CODE_NEW_IN_NEXT_VERSION
		PI_X CODEX_HOME GLIBC_TUNABLES OPENSSL_CONF`)
	stay := strings.Fields(`PATH HOME SHELL TERM LANG NOTIFY_SOCKET_2 ANTHROPIC_API_KEY ANTHROPIC_BASE_URL ANTHROPIC_MODEL CLAUDE_CONFIG_DIR
		CLAUDE_CODE_OAUTH_TOKEN CLAUDE_CODE_MAX_OUTPUT_TOKENS AWS_PROFILE ENVIRONMENT NODE_EXTRA_CA_CERTS IS_SANDBOX NO_PROXY OLD_LD_PRELOAD`)
	var env []string
	for _, name := range slices.Concat(gone, stay) {
		env = append(env, name+"=1")
	}
	env = append(env, "ODD", "BASH_ENV=2", "DISABLE_UPDATES=0")
	got := Filter(env, nil)
	slices.Sort(gone)
	if !slices.Equal(got.Dropped, gone) {
		t.Errorf("dropped %q, want %q", got.Dropped, gone)
	}
	var want []string
	for _, name := range stay {
		want = append(want, name+"=1")
	}
	want = append(want, "ODD", "DISABLE_AUTOUPDATER=1", "DISABLE_UPDATES=1")
	if !slices.Equal(got.Vars, want) || len(got.Switches) != 0 {
		t.Errorf("kept %q and switches %q, want %q", got.Vars, got.Switches, want)
	}
	if err := got.CheckSwitches(); err != nil {
		t.Error(err)
	}
	passed := Filter([]string{"LD_LIBRARY_PATH=/x", "LD_PRELOAD=/y"}, []string{"LD_LIBRARY_PATH"})
	if !slices.Contains(passed.Vars, "LD_LIBRARY_PATH=/x") || !slices.Equal(passed.Dropped, []string{"LD_PRELOAD"}) {
		t.Errorf("env_pass: %+v", passed)
	}
}

func TestSwitches(t *testing.T) {
	for _, v := range []string{"CLAUDE_CODE_USE_BEDROCK=1", "CLAUDE_CODE_USE_VERTEX=true", "CLAUDE_CODE_USE_FOUNDRY=yes", "CLAUDE_CODE_USE_NEXT=1",
		"ANTHROPIC_UNIX_SOCKET=/x", "HTTPS_PROXY=http://x", "http_proxy=x", "ALL_PROXY=x"} {
		name, _, _ := strings.Cut(v, "=")
		e := Filter([]string{v}, nil)
		if reason := refusal(t, e.CheckSwitches(), "wiring_unproved"); !strings.Contains(reason, "unset "+name) || !strings.Contains(reason, "session.env_pass") {
			t.Errorf("reason %q", reason)
		}
		passed := Filter([]string{v}, []string{name})
		if passed.CheckSwitches() != nil || !slices.Contains(passed.Vars, v) {
			t.Errorf("%s isn't let through by session.env_pass", name)
		}
		if slices.ContainsFunc(passed.Proof(), func(p string) bool { return strings.HasPrefix(p, name) }) {
			t.Errorf("the proof runs with %s", name)
		}
	}
	for _, v := range []string{"CLAUDE_CODE_USE_BEDROCK=0", "CLAUDE_CODE_USE_BEDROCK=", "HTTPS_PROXY=", "CLAUDE_CODE_USE_VERTEX=False"} {
		e := Filter([]string{v}, nil)
		if err := e.CheckSwitches(); err != nil {
			t.Errorf("%s: %v", v, err)
		}
	}
}

// TestProofEnvironment: no credential gets into the proof, and a proof holds in
// every terminal and directory.
func TestProofEnvironment(t *testing.T) {
	e := Filter([]string{
		"PATH=/bin", "HOME=/h", "ANTHROPIC_API_KEY=k", "ANTHROPIC_AUTH_TOKEN=t", "ANTHROPIC_BASE_URL=u", "CLAUDE_CODE_OAUTH_TOKEN=o",
		"AWS_SECRET_ACCESS_KEY=s", "GITHUB_TOKEN=g", "MY_PASSWORD=p", "npm_config_api_key=n", "GOOGLE_APPLICATION_CREDENTIALS=c",
		"PWD=/x", "SHLVL=3", "SSH_CONNECTION=1", "TMUX=1", "CLAUDE_CONFIG_DIR=/c",
	}, nil)
	want := []string{
		"CLAUDE_CONFIG_DIR=/c", "DISABLE_AUTOUPDATER=1", "DISABLE_UPDATES=1", "HOME=/h", "PATH=/bin",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1",
	}
	if got := e.Proof(); !slices.Equal(got, want) {
		t.Errorf("proof's environment %q, want %q", got, want)
	}
}

func TestOver(t *testing.T) {
	got := Over([]string{"A=1", "B=1", "A=2"}, []string{"A=3", "C=4"})
	if want := []string{"B=1", "A=3", "C=4"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestS2_RelativePath: no part of PATH leads into the project, where its programs
// would run in the place of those that a client starts unasked.
func TestS2_RelativePath(t *testing.T) {
	for path, want := range map[string]string{
		"/usr/bin:/bin":             "/usr/bin:/bin",
		".:/usr/bin":                "/usr/bin",
		"/usr/bin:":                 "/usr/bin",
		":/a::node_modules/.bin:/b": "/a:/b",
		"":                          "/usr/bin:/bin",
		"bin":                       "/usr/bin:/bin",
	} {
		env := []string{"PATH=" + path, "HOME=/h"}
		for name, filter := range map[string]func(env, pass []string) Environment{"codex": FilterCodex, "pi": FilterPi} {
			got := filter(env, nil)
			if said := slices.Contains(got.Dropped, "relative parts of PATH"); got.Get("PATH") != want || said == (path == want) {
				t.Errorf("%s: of %q is left %q, dropped %q", name, path, got.Get("PATH"), got.Dropped)
			}
			if got := filter(env, []string{"PATH"}); got.Get("PATH") != path || len(got.Dropped) != 0 {
				t.Errorf("%s: passed, of %q is left %q", name, path, got.Get("PATH"))
			}
		}
		if env[0] != "PATH="+path {
			t.Errorf("the given environment has become %q", env)
		}
	}
}
