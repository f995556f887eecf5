package catalogimport

import (
	"fmt"
	"strings"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/verdict"
)

// tomlString writes a string as guard.toml has it.
func tomlString(s string) string { return config.Quote(s) }

// String says for people what was read.
func (s *Source) String() string {
	if s.Guard != nil {
		return fmt.Sprintf("%s: a rewind-guard configuration, %d read-only names, %d with vm_arg", verdict.Object(s.File), len(s.Guard.ReadOnly), len(s.Guard.Args))
	}
	more := ""
	if s.More {
		more = "; the list goes on where the file ends"
	}
	return fmt.Sprintf("%s: %d tools of the MCP server %s%s", verdict.Object(s.File), len(s.Tools), verdict.Object(s.Server), more)
}

const draftHead = `# A draft of [[tool]] entries, not in force. Judge each entry, then append it to
# guard.toml. What servers say of their own tools proves nothing: lines behind a #
# below an entry are suggestions that only you can decide on.
`

// TOML writes the draft as it could stand in guard.toml. Everything that came out
// of a file is quoted, in comments too.
func (d *Draft) TOML() []byte {
	var b strings.Builder
	b.WriteString(draftHead)
	for _, from := range d.From {
		b.WriteString("# From " + from + "\n")
	}
	for _, e := range d.Entries {
		b.WriteByte('\n')
		for _, why := range e.Why {
			b.WriteString("# " + why + "\n")
		}
		fmt.Fprintf(&b, "[[tool]]\nmatch = %s\nclass = %s\n", tomlString(e.Match), tomlString(e.Class))
		if e.VMArg != "" {
			fmt.Fprintf(&b, "vm_arg = %s\n", tomlString(e.VMArg))
		}
		for _, line := range e.Suggest {
			b.WriteString("# " + line + "\n")
		}
	}
	if len(d.Left) > 0 {
		b.WriteString("\n# Left out:\n")
	}
	for _, left := range d.Left {
		b.WriteString("# - " + left + "\n")
	}
	return []byte(b.String())
}
