package config

import (
	"fmt"
	"strings"
	"time"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/wire"
)

// toolTable is the one table that may be there many times.
const toolTable = "tool"

// key is one key of guard.toml.
type key struct {
	name    string // table.key
	def     string // the default as the file would have it; "" when there is none
	example string // shown by the template when there is no default
	about   string // one line for the template
	set     func(*place, value) error
}

// place is where values go.
type place struct {
	c    *Config
	tool *catalog.Entry // of the [[tool]] being read
	dir  string         // that relative paths are relative to
}

// keys are all keys, in the order of the template and of the documentation.
var keys = []key{
	{name: "lease.ttl", def: `"300s"`, about: "longest lease, in whole seconds, at most 300s",
		set: wholeSeconds(time.Second, 300*time.Second, func(p *place) *time.Duration { return &p.c.Lease.TTL })},
	{name: "lease.promotion", def: `"operator"`, about: "who promotes: operator or self, the agent's own recovery",
		set: oneOf(func(p *place) *string { return &p.c.Lease.Promotion }, "operator", "self")},
	{name: "lease.context", def: `["AGENTS.md"]`, about: "documents bound to a lease, relative to the session's directory",
		set: documents(func(p *place) *[]string { return &p.c.Lease.Context })},

	{name: "identity.allow_root_sessions", def: `false`, about: "true lets root and the like launch sessions; nothing is enforced against them",
		set: boolean(func(p *place) *bool { return &p.c.Identity.AllowRootSessions })},
	{name: "identity.operators", def: `[]`, about: "system mode: only these users and %groups of guard-operators; none: all of it",
		set: into(value.accounts, func(p *place) *[]string { return &p.c.Identity.Operators })},

	{name: "session.on_revoke", def: `"leave"`, about: "what becomes of what a session left running when its trust ends: leave or kill_tools",
		set: oneOf(func(p *place) *string { return &p.c.Session.OnRevoke }, "leave", "kill_tools")},
	{name: "session.env_pass", def: `[]`, about: "variables let through the environment filter",
		set: list(func(p *place) *[]string { return &p.c.Session.EnvPass })},

	{name: "launch.budget", def: `"150s"`, about: "the gate's deadline for one call; the host's own is 30s more",
		set: wholeSeconds(time.Second, 570*time.Second, func(p *place) *time.Duration { return &p.c.Launch.Budget })},
	{name: "launch.prove_timeout", def: `"20s"`, about: "how long a session may stay unseen with unproved = end",
		set: wholeSeconds(time.Second, 600*time.Second, func(p *place) *time.Duration { return &p.c.Launch.ProveTimeout })},
	{name: "launch.unproved", def: `"show"`, about: "what becomes of a session whose gate is never seen: show or end",
		set: oneOf(func(p *place) *string { return &p.c.Launch.Unproved }, "show", "end")},
	{name: "launch.allow_flags", def: `[]`, about: "flags of a runtime to let through",
		set: list(func(p *place) *[]string { return &p.c.Launch.AllowFlags })},
	{name: "launch.pi_extensions", def: `[]`, about: "extensions that Pi loads before guard's: files, or builtin:NAME",
		set: piExtensions},
	{name: "launch.codex_sandbox", def: `"client"`, about: "the sandbox that Codex starts in: the client's own choice, or read-only",
		set: oneOf(func(p *place) *string { return &p.c.Launch.CodexSandbox }, "client", "read-only")},

	{name: "zvm.url", example: `"https://zvm.example:443"`, about: "the Zerto Virtual Manager",
		set: zvmURL},
	{name: "zvm.ca_file", example: `"zvm-ca.pem"`, about: "its certificate authority; or spki_sha256",
		set: file(func(p *place) *string { return &p.c.ZVM.CAFile })},
	{name: "zvm.spki_sha256", example: `"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="`, about: "SHA-256 of its public key in base64, instead of ca_file",
		set: zvmPin},
	{name: "zvm.client_id", example: `"guard"`, about: "client of its identity server, with client_secret_file",
		set: text(func(p *place) *string { return &p.c.ZVM.ClientID })},
	{name: "zvm.client_secret_file", example: `"zvm.secret"`, about: "file with the client's secret, mode 0600",
		set: file(func(p *place) *string { return &p.c.ZVM.ClientSecretFile })},
	{name: "zvm.credential", example: `"zvm"`, about: "name of a systemd credential with that secret or password, instead of its file",
		set: credentialName},
	{name: "zvm.username", example: `"guard@zerto"`, about: "user, with password_file, instead of a client",
		set: text(func(p *place) *string { return &p.c.ZVM.Username })},
	{name: "zvm.password_file", example: `"zvm.password"`, about: "file with the user's password, mode 0600",
		set: file(func(p *place) *string { return &p.c.ZVM.PasswordFile })},
	{name: "zvm.accept_same_uid", def: `false`, about: "user mode: the agent's uid can read this secret; true says that you know",
		set: boolean(func(p *place) *bool { return &p.c.ZVM.AcceptSameUID })},

	{name: "checkpoint.self", example: `"app-01"`, about: `the VM that this host is, a list of them, or "none": change it without a checkpoint`,
		set: self},
	{name: "checkpoint.self_reuse", def: `"0s"`, about: "how old a confirmed checkpoint may be for built-in tools, at most 24h",
		set: duration(0, catalog.MaxReuse, func(p *place) *time.Duration { return &p.c.Checkpoint.SelfReuse })},
	{name: "checkpoint.timeout", def: `"140s"`, about: "longest wait for a call's checkpoints",
		set: duration(time.Second, 570*time.Second, func(p *place) *time.Duration { return &p.c.Checkpoint.Timeout })},
	{name: "checkpoint.accept_status", def: `["MeetingSLA"]`, about: "states of a protection group in which its checkpoints count",
		set: statuses},
	{name: "checkpoint.unknown_vm", def: `"ask"`, about: "a machine that Zerto doesn't know: ask, deny or allow",
		set: oneOf(func(p *place) *string { return &p.c.Checkpoint.UnknownVM }, "ask", "deny", "allow")},
	{name: "checkpoint.no_vm", def: `"ask"`, about: "a changing call that names no machine: ask, deny or allow",
		set: oneOf(func(p *place) *string { return &p.c.Checkpoint.NoVM }, "ask", "deny", "allow")},
	{name: "checkpoint.unlisted", def: `"ask"`, about: "a tool without a [[tool]]: ask, deny or allow",
		set: oneOf(func(p *place) *string { return &p.c.Checkpoint.Unlisted }, "ask", "deny", "allow")},
	{name: "checkpoint.on_ask", def: `"host"`, about: "who is asked: host, or deny for nobody",
		set: oneOfYet(func(p *place) *string { return &p.c.Checkpoint.OnAsk }, "operator", "host", "deny")},

	{name: "tool.match", example: `"mcp__vsphere__power_off_vm"`, about: "a tool's exact name, or a prefix with one * at its end",
		set: text(func(p *place) *string { return &p.tool.Match })},
	{name: "tool.class", example: `"mutating"`, about: "mutating or read_only",
		set: class},
	{name: "tool.vm_arg", example: `"vm_name"`, about: "where the arguments name the machine: a.b[0]; or vm",
		set: text(func(p *place) *string { return &p.tool.VMArg })},
	{name: "tool.vm", example: `"db-01"`, about: "the machine that the tool changes, or a list, instead of vm_arg",
		set: names(func(p *place) *[]string { return &p.tool.VM })},
	{name: "tool.vm_kind", def: `"name"`, about: "how machines are named: name or identifier",
		set: oneOf(func(p *place) *string { return &p.tool.VMKind }, catalog.ByName, catalog.ByIdentifier)},
	{name: "tool.vpg", def: `""`, about: "the only protection group that counts; empty: all that hold the machine",
		set: optional(func(p *place) *string { return &p.tool.VPG })},
	{name: "tool.reuse", def: `"0s"`, about: "how old a confirmed checkpoint may be, at most 24h",
		set: duration(0, catalog.MaxReuse, func(p *place) *time.Duration { return &p.tool.Reuse })},

	{name: "policy_server.url", example: `"https://policy.example/v1/sessions/{session}/policies/evaluate"`, about: "where each call is judged too; {session} becomes the session's id",
		set: policyURL},
	{name: "policy_server.headers", def: `{}`, about: "headers of the requests; no credentials",
		set: headers},
	{name: "policy_server.token_file", example: `"policy.token"`, about: "file with the bearer token, mode 0600; or token_command",
		set: file(func(p *place) *string { return &p.c.PolicyServer.TokenFile })},
	{name: "policy_server.token_command", example: `["/usr/local/bin/policy-token"]`, about: "program with arguments that prints the bearer token",
		set: tokenCommand},
	{name: "policy_server.connect_timeout", def: `"5s"`, about: "longest wait for a connection",
		set: duration(time.Second, 60*time.Second, func(p *place) *time.Duration { return &p.c.PolicyServer.ConnectTimeout })},
	{name: "policy_server.budget", def: `"30s"`, about: "longest wait for a call's answer, with all retries",
		set: duration(time.Second, 570*time.Second, func(p *place) *time.Duration { return &p.c.PolicyServer.Budget })},

	{name: "hooks.untrusted", def: `"deny"`, about: "what a policy hook that nobody trusted does to the calls that it is for: deny, or skip to go on without it",
		set: oneOf(func(p *place) *string { return &p.c.Hooks.Untrusted }, "deny", "skip")},
	{name: "hooks.path", def: `"/usr/local/bin:/usr/bin:/bin"`, about: "PATH of policy hooks",
		set: searchPath},

	{name: "audit.keep", def: `"90d"`, about: "how long records are kept",
		set: duration(time.Hour, 3650*day, func(p *place) *time.Duration { return &p.c.Audit.Keep })},
	{name: "audit.max", def: `"2GiB"`, about: "how much room records may take; the oldest go first",
		set: size(32<<20, 1<<40, func(p *place) *int64 { return &p.c.Audit.Max })},

	{name: "limits.sessions_per_uid", def: `64`, about: "live sessions of one user",
		set: integer(1, 16384, func(p *place) *int { return &p.c.Limits.SessionsPerUID })},
	{name: "limits.calls_per_session", def: `32`, about: "calls of one session in flight at once",
		set: integer(1, 256, func(p *place) *int { return &p.c.Limits.CallsPerSession })},
	{name: "limits.payload", def: `"16MiB"`, about: "bytes of one call that are read",
		set: size(64<<10, wire.MaxPayload, func(p *place) *int64 { return &p.c.Limits.Payload })},
}

// split returns a key's table and its name in it.
func (k key) split() (table, name string) {
	table, name, _ = strings.Cut(k.name, ".")
	return table, name
}

// defaultValue reads the default as if it stood in a file.
func (k key) defaultValue() value {
	table, name := k.split()
	header := "[" + table + "]"
	if table == toolTable {
		header = "[" + header + "]"
	}
	d := read("default", []byte(header+"\n"+name+" = "+k.def+"\n"))
	if len(d.errs) > 0 {
		panic(fmt.Sprintf("default of %s: %v", k.name, d.errs[0])) // held by a test
	}
	return d.tables[0].entries[0].val
}

func findKey(name string) (key, bool) {
	for _, k := range keys {
		if k.name == name {
			return k, true
		}
	}
	return key{}, false
}

// tableList returns the tables in the order of keys.
func tableList() []string {
	var list []string
	for _, k := range keys {
		if t, _ := k.split(); len(list) == 0 || list[len(list)-1] != t {
			list = append(list, t)
		}
	}
	return list
}

func knownTable(name string) bool {
	for _, t := range tableList() {
		if t == name {
			return true
		}
	}
	return false
}

func tableNames() string { return strings.Join(tableList(), ", ") }

// keyNames lists the keys of a table, for an error.
func keyNames(table string) string {
	var list []string
	for _, k := range keys {
		if t, name := k.split(); t == table {
			list = append(list, name)
		}
	}
	return strings.Join(list, ", ")
}
