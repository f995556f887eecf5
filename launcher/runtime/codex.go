package runtime

import (
	"regexp"
	"strings"

	"leaseguard.internal/internal/verdict"
)

// Versions of Codex that matter.
const (
	CodexOldest = "0.171.0" // the first whose behaviour was measured
	CodexTested = "0.171.0" // the newest that the whole suite runs with
)

// CodexProgram is Codex's native executable. npm puts a script of node's in
// front of it, which is refused with the program's path.
var CodexProgram = Program{
	Name:    "codex",
	Beside:  []string{"node_modules/@openai/codex-linux-*/vendor/*/bin/codex", "vendor/*/bin/codex"},
	Install: "npm install -g @openai/codex@" + CodexTested,
	Oldest:  CodexOldest, Tested: CodexTested, Older: "what hooks of versions before " + CodexOldest + " miss was never measured",
}

// codexVersion is all that codex --version prints.
var codexVersion = regexp.MustCompile(`^codex-cli ([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})(?:-[0-9A-Za-z.-]+)?\n?$`)

// codexAgent is how the client names itself to its model.
var codexAgent = regexp.MustCompile(`^codex[a-z_-]{0,20}/([0-9.]{1,20}(?:-[0-9A-Za-z.-]+)?) `)

// CodexAgentVersion finds the version in a User-Agent, in the form that --version
// prints. Empty: it says none.
func CodexAgentVersion(header string) string {
	m := codexAgent.FindStringSubmatch(header)
	if m == nil || !codexVersion.MatchString("codex-cli "+m[1]) {
		return ""
	}
	return "codex-cli " + m[1]
}

// CheckCodexVersion judges what the client at path says of itself. The warning is
// for a version that nobody tested with guard yet.
func CheckCodexVersion(path, line string) (warning string, err error) {
	m := codexVersion.FindStringSubmatch(line)
	if m == nil {
		return "", refuse(verdict.WiringUnproved, "asking for its version", path, "it answers "+verdict.Object(line)+", which is not Codex's", "guard launch codex --client FILE, with Codex's own program")
	}
	return CodexProgram.judge(path, strings.Join(m[1:], "."))
}
