package config

import (
	"fmt"
	"strings"
	"unicode"
)

// Answers are what `guard init` has been told. The zero value gives a template
// that means the defaults.
type Answers struct {
	ZVM               *ZVM // nil: no [zvm]; paths are written as they are
	Self              []string
	SelfNone          bool
	AllowRootSessions bool
}

const templateHead = `# Configuration of guard. Every key stands here at its default, behind a #.
# After a change: guard broker restart (system mode: systemctl reload guard-broker). Every key: docs/configuration.md, or /usr/share/doc/leaseguard/configuration.md
`

// tableAbout is what the template says of a table as a whole.
var tableAbout = map[string]string{
	"zvm":        "Without this table no checkpoint can be taken, and calls that need one are denied.",
	toolTable:    "The catalog: one [[tool]] for each tool, or group of tools, that isn't the host's own.",
	"checkpoint": "What a changing call needs before it passes.",
	"audit":      "Records of every verdict.",
	"lease":      "A session may change things only while it holds a lease.",
	"limits":     "What is above a limit is denied, with the key's name.",
	policyServer: "With this table a server judges each call too; what it can't judge is denied.",
	"hooks":      "Programs of yours that may deny a call: hooks.json beside this file, .guard/hooks.json of a project.",
	"launch":     "What guard launch does.",
	"identity":   "Who may do what.",
	"session":    "What holds inside a session.",
}

const policyServer = "policy_server"

// Template writes a commented guard.toml with these answers. Load accepts it,
// whatever strings the answers hold, unless a key refuses the value itself.
func Template(a Answers) []byte {
	var b strings.Builder
	b.WriteString(templateHead)
	given := a.values()
	last := ""
	for _, k := range keys {
		table, name := k.split()
		if table != last {
			last = table
			writeHeader(&b, table, a)
		}
		mark, text := "#", k.def
		if text == "" {
			text = k.example
		}
		if v, ok := given[k.name]; ok {
			mark, text = "", v
		}
		fmt.Fprintf(&b, "# %s\n%s%s = %s\n", k.about, mark, name, text)
	}
	return []byte(b.String())
}

func writeHeader(b *strings.Builder, table string, a Answers) {
	header := "[" + table + "]"
	switch {
	case table == toolTable:
		header = "#[" + header + "]"
	case table == "zvm" && a.ZVM == nil, table == policyServer:
		header = "#" + header
	}
	fmt.Fprintf(b, "\n# %s\n%s\n", tableAbout[table], header)
}

// values are the keys that the answers set, as the file has them.
func (a Answers) values() map[string]string {
	given := make(map[string]string)
	set := func(key, s string) {
		if s != "" {
			given[key] = Quote(s)
		}
	}
	if z := a.ZVM; z != nil {
		set("zvm.url", z.URL)
		set("zvm.ca_file", z.CAFile)
		set("zvm.spki_sha256", z.SPKISHA256)
		set("zvm.client_id", z.ClientID)
		set("zvm.client_secret_file", z.ClientSecretFile)
		set("zvm.credential", z.Credential)
		set("zvm.username", z.Username)
		set("zvm.password_file", z.PasswordFile)
		given["zvm.accept_same_uid"] = fmt.Sprint(z.AcceptSameUID)
	}
	switch {
	case a.SelfNone:
		set("checkpoint.self", "none")
	case len(a.Self) == 1:
		set("checkpoint.self", a.Self[0])
	case len(a.Self) > 1:
		quoted := make([]string, len(a.Self))
		for i, s := range a.Self {
			quoted[i] = Quote(s)
		}
		given["checkpoint.self"] = "[" + strings.Join(quoted, ", ") + "]"
	}
	if a.AllowRootSessions {
		given["identity.allow_root_sessions"] = "true"
	}
	return given
}

// Quote writes a TOML basic string. strconv.Quote has escapes that TOML lacks.
func Quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\U%08X`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
