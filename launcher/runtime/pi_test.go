package runtime

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	piAt     = "lib/node_modules/@earendil-works/pi-coding-agent/"
	piScript = "#!/usr/bin/env node\nimport \"./cli-runtime.js\";\n"
	piName   = `{"name":"@earendil-works/pi-coding-agent","version":"1.6.0","type":"module"}`
)

// withPi is an npm prefix, p, with Pi and node in it, and more.
func withPi(more map[string]string) map[string]string {
	files := map[string]string{
		"p/bin/pi": "-> ../" + piAt + "dist/bundle/cli.js", "p/bin/node": elf,
		"p/" + piAt + "dist/bundle/cli.js": piScript, "p/" + piAt + "package.json.": piName,
		"p/" + piAt + "dist/bundle/chunks/chunk-1.js.": "x",
	}
	for name, text := range more {
		files[name] = text
	}
	return files
}

func TestL1_L4_FindPi(t *testing.T) {
	const script = "p/" + piAt + "dist/bundle/cli.js"
	for _, c := range []struct {
		name    string
		files   map[string]string
		path    string // directories, blank between
		file    string
		script  string // found, below the directory
		node    string
		refused string // a part of the reason, where DIR stands for it
	}{
		{name: "npm's link", files: withPi(nil), path: "p/bin", script: script, node: "p/bin/node"},
		{name: "the first node of PATH", files: withPi(map[string]string{"n/node": "-> ../v/node-22", "v/node-22": elf}), path: "n p/bin", script: script, node: "v/node-22"},
		{name: "guard's wrapper is passed over", files: withPi(map[string]string{"g/pi": "#!/bin/sh\nexec guard launch pi -- \"$@\"\n"}), path: "g p/bin", script: script, node: "p/bin/node"},
		{name: "named", files: withPi(nil), path: "p/bin", file: script, script: script, node: "p/bin/node"},
		{name: "unbundled", files: withPi(map[string]string{"q/pi": "-> ../p/" + piAt + "dist/cli.js", "p/" + piAt + "dist/cli.js": piScript}), path: "q p/bin", script: "p/" + piAt + "dist/cli.js", node: "p/bin/node"},
		{name: "a version manager's shim", files: withPi(map[string]string{"s/pi": "#!/usr/bin/env bash\nexec mise exec -- pi \"$@\"\n"}), path: "s p/bin", refused: "guard launch pi --client DIR/p/bin/pi"},
		{name: "pnpm's wrapper", files: map[string]string{
			"b/pi": "-> ../w/pi", "w/pi": "#!/bin/sh\nexec node \"$basedir/cli.js\" \"$@\"\n", "n/node": elf,
			"w/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js": piScript, "w/node_modules/@earendil-works/pi-coding-agent/package.json.": piName,
		}, path: "b n", refused: "--client DIR/w/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js"},
		{name: "a build with node inside", files: map[string]string{"b/pi": elf}, path: "b", refused: "npm install -g @earendil-works/pi-coding-agent@"},
		{name: "another package's script", files: map[string]string{"b/pi": "-> ../o/cli.js", "o/cli.js": piScript, "o/package.json.": `{"name":"other","version":"1.6.0"}`}, path: "b", refused: "it is not the client's own script"},
		{name: "another script of Pi's package", files: withPi(map[string]string{"p/" + piAt + "dist/rpc-entry.js": piScript}), path: "p/bin", file: "p/" + piAt + "dist/rpc-entry.js", refused: "it is not the client's own script"},
		{name: "nowhere", path: "b", refused: "no executable of that name is in PATH"},
		{name: "no node", files: map[string]string{"b/pi": "-> ../p/cli.js", "p/cli.js": piScript, "p/package.json.": piName}, path: "b", refused: "Pi's script needs one"},
		{name: "node is a script", files: withPi(map[string]string{"s/node": "#!/bin/sh\nexec asdf exec node \"$@\"\n"}), path: "s p/bin", refused: `"DIR/s/node": it is a shim`},
		{name: "node is a native shim", files: withPi(map[string]string{"s/node": "-> volta-shim", "s/volta-shim": elf}), path: "s p/bin", refused: `"DIR/s/node": it is a shim`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := tree(t, c.files)
			got, err := FindPi(searchIn(dir, c.path, c.file))
			if isRefused(t, err, dir, c.refused) {
				return
			}
			defer got.Close()
			if got.Script.Path != filepath.Join(dir, c.script) || got.Node.Path != filepath.Join(dir, c.node) || got.Version != "1.6.0" {
				t.Errorf("found %q on %q, version %q", got.Script.Path, got.Node.Path, got.Version)
			}
		})
	}
}

func TestPiVersion(t *testing.T) {
	for _, c := range []struct{ manifest, code, words string }{
		{piName, "", ""},
		{strings.Replace(piName, "1.6.0", "1.6.1-beta.2", 1), "", "newer than 1.6.0"},
		{strings.Replace(piName, "1.6.0", "2.0.0", 1), "", "newer than 1.6.0"},
		{strings.Replace(piName, "1.6.0", "1.5.9", 1), "client_too_old", "1.5.9"},
		{`{"name":"@mariozechner/pi-coding-agent","version":"0.73.1"}`, "client_too_old", "npm install -g @earendil-works/pi-coding-agent@1.6.0"},
		{strings.Replace(piName, "1.6.0", "new", 1), "wiring_unproved", `"new"`},
		{`{"name":"@earendil-works/pi-coding-agent"}`, "wiring_unproved", "package.json"},
	} {
		t.Run(c.manifest, func(t *testing.T) {
			dir := tree(t, withPi(map[string]string{"p/" + piAt + "package.json.": c.manifest}))
			p, err := FindPi(Search{Path: filepath.Join(dir, "p/bin")})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			warning, err := p.CheckVersion()
			if c.code != "" {
				warning = refusal(t, err, c.code)
			} else if err != nil {
				t.Error(err)
			}
			if !strings.Contains(warning, c.words) || (c.words == "") != (warning == "") {
				t.Errorf("says %q", warning)
			}
		})
	}
}

// TestPiIsPinned: whatever of Pi or node changes between proof and exec ends the
// launch.
func TestPiIsPinned(t *testing.T) {
	const bundle = "p/" + piAt + "dist/bundle/"
	for name, change := range map[string]func(dir string) error{
		"script": func(dir string) error { return os.WriteFile(filepath.Join(dir, bundle+"cli.js"), []byte("x"), 0o755) },
		"a file beside it": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, bundle+"chunks/chunk-1.js"), []byte("y"), 0o644)
		},
		"one more": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, bundle+"chunks/chunk-2.js"), nil, 0o644)
		},
		"node": func(dir string) error {
			return os.Rename(filepath.Join(dir, bundle+"cli.js"), filepath.Join(dir, "p/bin/node"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, withPi(nil))
			p, err := FindPi(Search{Path: filepath.Join(dir, "p/bin")})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			refusal(t, p.Check(), "wiring_unproved")
		})
	}
}

func TestPiArgs(t *testing.T) {
	in := PiInstall{
		Install: Install{
			Gate: "/opt/guard/guard-gate", Guard: "/opt/guard/guard", Socket: "/run/user/7/guard/broker.sock", BrokerUID: 7, Budget: 1500 * time.Millisecond,
			Server: "guard-0123456789abcdef", ServerEnv: []string{"HOME=/h"},
		},
		Extensions: []string{"/opt/team.js", "builtin:mcp"},
	}
	want := strings.Fields("--no-extensions --no-approve -e /opt/team.js -e builtin:mcp -e /proc/self/fd/64")
	if got := in.Args("/proc/self/fd/64"); !slices.Equal(got, want) {
		t.Errorf("arguments %q", got)
	}
	proof := in.ProofArgs("/proc/self/fd/64", "/proc/self/fd/65")
	if want := strings.Fields("--no-extensions --no-approve -e /proc/self/fd/65 -e /opt/team.js -e builtin:mcp -e /proc/self/fd/64"); !slices.Equal(proof[:len(want)], want) {
		t.Errorf("the proof's are %q", proof)
	}
	if len(in.Extensions) != 2 {
		t.Errorf("the configuration was changed: %q", in.Extensions)
	}
	variable, err := in.Variable()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	text, ok := strings.CutPrefix(variable, "GUARD_PI=")
	if err := json.Unmarshal([]byte(text), &got); !ok || err != nil {
		t.Fatalf("%q: %v", variable, err)
	}
	if got["deadline"] != 2.0 || got["server"] != "0123456789abcdef" || got["gate"] != in.Gate || got["guard"] != in.Guard {
		t.Errorf("the extension is told %v", got)
	}
}

func TestS2_FilterPi(t *testing.T) {
	gone := strings.Fields(`BASH_ENV ENV LD_PRELOAD LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS NODE_COMPILE_CACHE GODEBUG
		PYTHONSTARTUP PERL5OPT CLAUDE_CODE_SIMPLE LISTEN_FDS NOTIFY_SOCKET GUARD_PI GUARD_SESSION PI_CODING_AGENT_DIR PI_OFFLINE PI_PACKAGE_DIR CODEX_HOME
		JITI_ALIAS JITI_DEBUG OPENSSL_CONF OPENSSL_MODULES`)
	stay := strings.Fields(`PATH HOME SHELL TERM LANG ANTHROPIC_API_KEY OPENAI_API_KEY HTTPS_PROXY AWS_PROFILE XPI_X`)
	var env []string
	for _, name := range slices.Concat(gone, stay) {
		env = append(env, name+"=/1")
	}
	got := FilterPi(append(env, "JITI_FS_CACHE=true", "NODE_DISABLE_COMPILE_CACHE=0"), []string{"JITI_FS_CACHE"})
	slices.Sort(gone)
	if !slices.Equal(got.Dropped, gone) {
		t.Errorf("dropped %q, want %q", got.Dropped, gone)
	}
	want := []string{}
	for _, name := range stay {
		want = append(want, name+"=/1")
	}
	if want = append(want, "NODE_DISABLE_COMPILE_CACHE=1", "JITI_FS_CACHE=false"); !slices.Equal(got.Vars, want) {
		t.Errorf("kept %q, want %q", got.Vars, want)
	}
	passed := FilterPi([]string{"PI_CODING_AGENT_DIR=/x", "NODE_EXTRA_CA_CERTS=/y", "NODE_OPTIONS=-z"}, []string{"PI_CODING_AGENT_DIR", "NODE_EXTRA_CA_CERTS"})
	if !slices.Equal(passed.Dropped, []string{"NODE_OPTIONS"}) || len(passed.Vars) != 4 {
		t.Errorf("env_pass: %+v", passed)
	}
	for _, v := range got.ProofPi() {
		if strings.Contains(v, "API_KEY") || strings.Contains(v, "HTTPS_PROXY") || strings.HasPrefix(v, "AWS_") {
			t.Errorf("the proof runs with %s", v)
		}
	}
}

func TestPiOptions(t *testing.T) {
	for _, c := range []struct {
		args       string // blank between
		refused    string
		unattended bool
	}{
		{args: ""},
		{args: "-p hi", unattended: true},
		{args: "--model anthropic/x -c -nt -nbt -xt bash -t read,bash"},
		{args: "--mode rpc --session-dir /x --no-session"},
		{args: "-n -ne -na -ns -np -nc --no-themes"},
		{args: "@file two words -- --verbatim"},
		{args: "-e x", refused: "-e"},
		{args: "--extension x", refused: "--extension"},
		{args: "--extension=x", refused: "--extension"},
		{args: "-p -- -e", refused: "-e", unattended: true},
		{args: "--name -e x", refused: "-e"},
		{args: "--system-prompt --extension", refused: "--extension"},
		{args: "-a", refused: "-a"},
		{args: "-p hi --approve", refused: "--approve", unattended: true},
		{args: "-pe x", refused: "-pe"},
		{args: "-nx", refused: "-nx"},
		{args: "--nosuch", refused: "--nosuch"},
		{args: "install npm:x", refused: "install"},
		{args: "--offline update", refused: "update"},
		{args: "mcp", refused: "mcp"},
	} {
		t.Run(c.args, func(t *testing.T) { checkArgs(t, PiTable, c.args, c.refused, c.unattended) })
	}
}

// TestT2_PiSettings: a file of the user's that Pi would skip ends the launch.
func TestT2_PiSettings(t *testing.T) {
	for _, c := range []struct{ name, text, refused string }{
		{name: "none"},
		{name: "good", text: `{"defaultTools":["read"]}`},
		{name: "a comma too many", text: `{"defaultTools":["read"],}`, refused: "line 1 is no JSON"},
		{name: "a key twice", text: `{"a":1,"a":2}`, refused: "line 1 is no JSON"},
		{name: "no object", text: `[]`, refused: "it is no JSON object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{"home/.pi/agent/models.json.": `{"providers":{},} // as Pi takes it`}
			if c.text != "" {
				files["home/.pi/agent/settings.json."] = c.text
			}
			dir := tree(t, files)
			got, err := PiSettings(func(name string) string { return map[string]string{"HOME": filepath.Join(dir, "home")}[name] })
			if c.refused != "" {
				if reason := refusal(t, err, "config_invalid"); !strings.Contains(reason, c.refused) || !strings.Contains(reason, "settings.json") {
					t.Errorf("reason %q", reason)
				}
				return
			}
			if err != nil || !strings.Contains(string(got), "as Pi takes it") || c.text != "" && !strings.Contains(string(got), "defaultTools") {
				t.Errorf("read %q, %v", got, err)
			}
		})
	}
}

func TestT2_PiProjectFiles(t *testing.T) {
	dir := tree(t, map[string]string{".pi/settings.json.": "{", ".pi/extensions/x.js.": "", ".pi/notes.": "", "AGENTS.md.": ""})
	if got := PiProjectFiles(dir); !slices.Equal(got, []string{".pi/settings.json", ".pi/extensions"}) {
		t.Errorf("found %q", got)
	}
}
