package runtime

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"leaseguard.internal/internal/verdict"
)

// Versions of Claude that matter.
const (
	Oldest = "2.1.295" // the first that obeys onFailure
	Tested = "2.1.332" // the newest that the whole suite runs with
)

// ClaudeProgram is Claude Code's native executable.
var ClaudeProgram = Program{
	Name:    "claude",
	Local:   ".claude/local/claude",
	Beside:  []string{"node_modules/@anthropic-ai/claude-code-linux-*/claude"},
	Install: "npm install -g @anthropic-ai/claude-code@" + Tested,
	Oldest:  Oldest, Tested: Tested, Older: "before " + Oldest + " a gate that can't be started lets the tool run",
}

// versionLine is all that claude --version prints.
var versionLine = regexp.MustCompile(`^([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})(?:-[0-9A-Za-z.-]+)? \(Claude Code\)\n?$`)

// CheckVersion judges what the client at path printed as its version. The
// warning is for a version that nobody tested with guard yet.
func CheckVersion(path, line string) (warning string, err error) {
	m := versionLine.FindStringSubmatch(line)
	if m == nil {
		return "", refuse(verdict.WiringUnproved, "asking for its version", path, "it answers "+verdict.Object(line)+", which is not Claude's", "guard launch claude --client FILE, with Claude Code's own program")
	}
	return ClaudeProgram.judge(path, strings.Join(m[1:], "."))
}

// judge says what a version is worth that has passed the pattern of its client.
func (p Program) judge(path, version string) (warning string, err error) {
	have := numbers(version)
	switch {
	case slices.Compare(have, numbers(p.Oldest)) < 0:
		return "", refuse(verdict.ClientTooOld, "launching", path, "it is version "+version+", and "+p.Older, p.Install)
	case slices.Compare(have, numbers(p.Tested)) > 0:
		return p.Name + " " + version + " is newer than " + p.Tested + ", the newest that guard was tested with; its gate is proved before it starts", nil
	}
	return "", nil
}

// agent is how the client names itself to its model.
var agent = regexp.MustCompile(`^claude-cli/([0-9.]{1,20}(?:-[0-9A-Za-z.-]+)?)(?: |$)`)

// AgentVersion finds the version in a User-Agent, in the form that --version
// prints. Empty: it says none.
func AgentVersion(header string) string {
	m := agent.FindStringSubmatch(header)
	if m == nil {
		return ""
	}
	if line := m[1] + " (Claude Code)"; versionLine.MatchString(line) {
		return line
	}
	return ""
}

// numbers are those of a version, without what may stand behind a dash.
func numbers(version string) []int {
	version, _, _ = strings.Cut(version, "-")
	var all []int
	for text := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(text) // the patterns allow nothing else
		all = append(all, n)
	}
	return all
}
