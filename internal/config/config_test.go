package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/safepath"
)

const path = "/etc/guard/guard.toml"

func uid() uint32 { return uint32(os.Getuid()) }

// wantFault holds that err names line and key, and contains all of parts.
func wantFault(t *testing.T, err error, line int, key string, parts ...string) {
	t.Helper()
	fault, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("error = %v, want an *Error", err)
	}
	if fault.Line != line || fault.Key != key {
		t.Errorf("error %q is of line %d, key %q; want %d, %q", err, fault.Line, fault.Key, line, key)
	}
	for _, p := range parts {
		if !strings.Contains(fault.Problem, p) {
			t.Errorf("error %q lacks %q", err, p)
		}
	}
}

func TestDefault(t *testing.T) {
	want := &Config{
		Lease:   Lease{TTL: 300 * time.Second, Promotion: "operator", Context: []string{"AGENTS.md"}},
		Session: Session{OnRevoke: "leave", EnvPass: []string{}},
		Launch: Launch{
			Budget: 150 * time.Second, ProveTimeout: 20 * time.Second, Unproved: "show", AllowFlags: []string{}, PiExtensions: []string{},
			CodexSandbox: "client",
		},
		Identity: Identity{Operators: []string{}},
		Checkpoint: Checkpoint{
			Timeout: 140 * time.Second, AcceptStatus: []string{"MeetingSLA"},
			UnknownVM: "ask", NoVM: "ask", Unlisted: "ask", OnAsk: "host",
		},
		Hooks:  Hooks{Untrusted: "deny", Path: "/usr/local/bin:/usr/bin:/bin"},
		Audit:  Audit{Keep: 90 * 24 * time.Hour, Max: 2 << 30},
		Limits: Limits{SessionsPerUID: 64, CallsPerSession: 32, Payload: 16 << 20},
	}
	if d := cmp.Diff(want, Default()); d != "" {
		t.Error(d)
	}
}

const whole = `
[lease]
ttl = "2m"
context = []
[identity]
allow_root_sessions = true
[launch]
budget = '60s'
[zvm]
url = "https://zvm.example:9669/"
ca_file = "zvm-ca.pem"
username = "guard"
password_file = "../secret/zvm"
accept_same_uid = true
[checkpoint]
self = [
  "app-01", # with a comment
  "app-02",
]
self_reuse = "5m"
unlisted = "deny"
[[tool]]
match = "mcp__v__*"
class = "read_only"
[[tool]]
match = "mcp__v__off"
class = "mutating"
vm_arg = "vms"
vm_kind = "identifier"
vpg = "G"
reuse = "1m"
[[tool]]
match = "mcp__db__drop"
class = "mutating"
vm = "db-01"
[audit]
keep = "36h"
max = "512MiB"
[limits]
sessions_per_uid = 1
`

func TestDecodeWhole(t *testing.T) {
	got, err := decode(path, paths.System, []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Path = path
	want.Lease.TTL, want.Lease.Context = 2*time.Minute, []string{}
	want.Identity.AllowRootSessions = true
	want.Launch.Budget = time.Minute
	want.ZVM = &ZVM{
		URL: "https://zvm.example:9669", CAFile: "/etc/guard/zvm-ca.pem", Username: "guard",
		PasswordFile: "/etc/secret/zvm", AcceptSameUID: true,
	}
	want.Checkpoint.Self, want.Checkpoint.SelfReuse = []string{"app-01", "app-02"}, 5*time.Minute
	want.Checkpoint.Unlisted = "deny"
	want.Tools = []catalog.Entry{
		{Match: "mcp__v__*", Class: catalog.ReadOnly, VMKind: catalog.ByName, Line: 22},
		{Match: "mcp__v__off", Class: catalog.Mutating, VMArg: "vms", VMKind: catalog.ByIdentifier, VPG: "G", Reuse: time.Minute, Line: 25},
		{Match: "mcp__db__drop", Class: catalog.Mutating, VM: []string{"db-01"}, VMKind: catalog.ByName, Line: 32},
	}
	want.Audit = Audit{Keep: 36 * time.Hour, Max: 512 << 20}
	want.Limits.SessionsPerUID = 1
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if crlf, err := decode(path, paths.System, []byte(strings.ReplaceAll(whole, "\n", "\r\n"))); err != nil {
		t.Errorf("with CRLF: %v", err)
	} else if d := cmp.Diff(want, crlf); d != "" {
		t.Errorf("with CRLF: %s", d)
	}
}

func TestSelfNone(t *testing.T) {
	c, err := decode(path, paths.User, []byte("[checkpoint]\nself = \"none\"\n"))
	if err != nil || !c.Checkpoint.SelfNone || c.Checkpoint.Self != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	const lease = "[lease]\nttl = \"1s\"\n"
	tests := []struct {
		name, text string
		line       int
		key        string
		want       []string
	}{
		{"no TOML", "[lease\n", 1, "", []string{"correct the TOML"}},
		{"no TOML later", lease + "context = [\n", 3, "", []string{"correct the TOML"}},
		{"no value", "[lease]\n\nttl =\n", 3, "", []string{"correct the TOML"}},
		{"not UTF-8", lease + "# \xff\n", 3, "", []string{"UTF-8"}},
		{"byte order mark", "\xef\xbb\xbf" + lease, 1, "", []string{"correct the TOML"}},
		{"unknown table", lease + "\n[leese]\nttl = 1\n", 4, "", []string{`"leese"`, "lease, identity"}},
		{"table in capitals", "[Lease]\n", 1, "", []string{`"Lease"`}},
		{"table below a table", "[lease.x]\n", 1, "", []string{`"lease.x"`}},
		{"table twice", lease + "[audit]\n[lease]\n", 4, "lease", []string{"line 1"}},
		{"tool as a table", "[tool]\n", 1, "tool", []string{"[[tool]]"}},
		{"lease as a list", "[[lease]]\n", 1, "lease", []string{"write [lease]"}},
		{"unknown key", lease + "tll = \"1s\"\n", 3, "", []string{`"tll"`, "ttl, promotion, context"}},
		{"folded key", "[lease]\nTTL = \"1s\"\n", 2, "", []string{`"TTL"`, "[lease]"}},
		{"folded by long s", "[\"\u017fession\"]\n", 1, "", []string{"unknown table"}},
		{"key twice", lease + "# x\nttl = \"2s\"\n", 4, "lease.ttl", []string{"line 2"}},
		{"key twice, quoted", lease + "\"ttl\" = \"2s\"\n", 3, "lease.ttl", []string{"line 2"}},
		{"key above the tables", "ttl = \"1s\"\n" + lease, 1, "", []string{`"ttl"`, "header"}},
		{"dotted key", "lease.ttl = \"1s\"\n", 1, "", []string{`"lease.ttl"`, "header"}},
		{"dotted key in a table", "[zvm]\ntls.verify = false\n", 2, "", []string{"dots"}},
		{"inline table", "lease = { ttl = \"1s\" }\n", 1, "", []string{"header"}},
		{"inline tools", "tool = [{ match = \"x\" }]\n", 1, "", []string{"header"}},
		{"number for a duration", "[lease]\nttl = 300\n", 2, "lease.ttl", []string{"in quotes"}},
		{"duration without unit", "[lease]\nttl = \"300\"\n", 2, "lease.ttl", []string{"no duration"}},
		{"part of a second", "[lease]\nttl = \"1500ms\"\n", 2, "lease.ttl", []string{"whole seconds"}},
		{"negative", "[lease]\nttl = \"-1s\"\n", 2, "lease.ttl", []string{"out of range"}},
		{"zero", "[lease]\nttl = \"0s\"\n", 2, "lease.ttl", []string{"out of range"}},
		{"far too many days", "[audit]\nkeep = \"99999999999d\"\n", 2, "audit.keep", []string{"no duration"}},
		{"part of a day", "[audit]\nkeep = \"1.5d\"\n", 2, "audit.keep", []string{"no duration"}},
		{"size overflows", "[audit]\nmax = \"99999999999TiB\"\n", 2, "audit.max", []string{"out of range"}},
		{"size too small", "[audit]\nmax = \"1KiB\"\n", 2, "audit.max", []string{`"32MiB"`}},
		{"negative size", "[audit]\nmax = \"-1GiB\"\n", 2, "audit.max", []string{"no size"}},
		{"integer overflows", "[limits]\nsessions_per_uid = 99999999999999999999\n", 2, "limits.sessions_per_uid", []string{"1 to 16384"}},
		{"float", "[limits]\nsessions_per_uid = 1.0\n", 2, "limits.sessions_per_uid", []string{"whole number"}},
		{"date", "[limits]\nsessions_per_uid = 2026-01-01\n", 2, "limits.sessions_per_uid", []string{"whole number"}},
		{"list of numbers", "[lease]\ncontext = [1]\n", 2, "lease.context", []string{"in the list"}},
		{"string for a list", "[lease]\ncontext = \"a\"\n", 2, "lease.context", []string{"list of strings"}},
		{"absolute document", "[lease]\ncontext = [\"/etc/passwd\"]\n", 2, "lease.context", []string{"plain path"}},
		{"document twice", "[lease]\ncontext = [\"a\", \"a\"]\n", 2, "lease.context", []string{"twice"}},
		{"NUL", "[checkpoint]\nself = \"a\\u0000b\"\n", 2, "checkpoint.self", []string{"NUL"}},
		{"none in a list", "[checkpoint]\nself = [\"a\", \"none\"]\n", 2, "checkpoint.self", []string{`self = "none"`}},
		{"None", "[checkpoint]\nself = \"None\"\n", 2, "checkpoint.self", []string{`self = "none"`}},
		{"no state", "[checkpoint]\naccept_status = []\n", 2, "checkpoint.accept_status", []string{"empty"}},
		{"state by number", "[checkpoint]\naccept_status = [\"1\"]\n", 2, "checkpoint.accept_status", []string{"MeetingSLA"}},
		{"tool without match", "[[tool]]\nclass = \"read_only\"\n", 1, "tool.match", []string{"missing"}},
		{"tool without class", "\n[[tool]]\nmatch = \"x\"\n", 2, "tool.class", []string{"missing"}},
		{"read-only Bash", "[[tool]]\nmatch = \"Bash\"\nclass = \"read_only\"\n", 3, "tool.class", []string{"never read_only"}},
		{"star inside", "[[tool]]\nclass = \"mutating\"\nmatch = \"a*b\"\n", 3, "tool.match", []string{"at its end"}},
		{"both ways to name a machine", "[[tool]]\nmatch = \"x\"\nclass = \"mutating\"\nvm_arg = \"a\"\nvm = \"b\"\n", 5, "tool.vm", []string{"keep one"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := decode(path, paths.User, []byte(tt.text))
			if c != nil {
				t.Error("a configuration beside the error")
			}
			wantFault(t, err, tt.line, tt.key, tt.want...)
			if !strings.HasPrefix(err.Error(), path+":") {
				t.Errorf("error %q doesn't begin with the file", err)
			}
		})
	}
}

func TestEqualToolsNameBothLines(t *testing.T) {
	const tool = "[[tool]]\nmatch = \"mcp__x__*\"\nclass = \"mutating\"\n"
	_, err := decode(path, paths.User, []byte(tool+tool))
	wantFault(t, err, 5, "tool.match", `"mcp__x__*"`, "line 1")
}

func TestAllFaultsAreSaid(t *testing.T) {
	_, err := decode(path, paths.User, []byte("[lease]\nttl = 1\nx = 1\npromotion = \"agent\"\n[audit]\nkeep = 1\n"))
	lines := strings.Split(err.Error(), "\n")
	var at []string
	for _, l := range lines {
		at = append(at, strings.Join(strings.SplitN(l, ":", 3)[:2], ":"))
	}
	want := []string{path + ":2", path + ":3", path + ":4", path + ":6"}
	if d := cmp.Diff(want, at); d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	_, err = decode(path, paths.User, []byte("[lease]\n"+strings.Repeat("x = 1\n", 10000)))
	if n := strings.Count(err.Error(), "\n"); n >= maxErrors {
		t.Errorf("%d lines of errors", n+1)
	}
}

func TestErrorsQuoteWhatTheFileSays(t *testing.T) {
	_, err := decode(path, paths.User, []byte("[lease]\n\"a\\u001b[31m\\n\" = 1\npromotion = \"\u202e"+strings.Repeat("x", 9999)+"\"\n"))
	if s := err.Error(); len(s) > 1000 || strings.ContainsAny(s, "\u202e\x1b") || strings.Count(s, "\n") != 1 {
		t.Errorf("error isn't bounded and quoted: %.200q", s)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "guard.toml")

	missing, err := Load(file, paths.User, uid())
	if d := cmp.Diff(Default(), missing); err != nil || d != "" {
		t.Errorf("missing file: %v %s", err, d)
	}
	if err := os.WriteFile(file, []byte("[lease]\nttl = \"7s\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file, paths.User, uid())
	if err != nil || c.Path != file || c.Lease.TTL != 7*time.Second {
		t.Errorf("%+v, %v", c, err)
	}
	steps := []struct {
		name   string
		change func() error
	}{
		{"others may write", func() error { return os.Chmod(file, 0o666) }},
		{"a link", func() error { return errors.Join(os.Rename(file, file+".real"), os.Symlink(file+".real", file)) }},
		{"a dangling link", func() error { return os.Remove(file + ".real") }},
		{"a directory", func() error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) }},
	}
	for _, s := range steps {
		if err := s.change(); err != nil {
			t.Fatal(err)
		}
		c, err := Load(file, paths.User, uid())
		if c != nil || !errors.Is(err, safepath.ErrUnsafe) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v, %v", s.name, c, err)
		}
	}
}

func TestLoadIsBounded(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "guard.toml")
	if err := os.WriteFile(file, []byte(strings.Repeat("#\n", maxFile)), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(file, paths.User, uid()); c != nil || err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load of a large file = %v, %v", c, err)
	}
}
