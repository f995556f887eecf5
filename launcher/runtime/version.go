package runtime

import (
	"regexp"
	"slices"
	"strconv"

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
	have := numbers(m[1:])
	text := m[1] + "." + m[2] + "." + m[3]
	switch {
	case slices.Compare(have, parts(Oldest)) < 0:
		return "", refuse(verdict.ClientTooOld, "launching", path,
			"it is version "+text+", and before "+Oldest+" a gate that can't be started lets the tool run", ClaudeProgram.Install)
	case slices.Compare(have, parts(Tested)) > 0:
		return "claude " + text + " is newer than " + Tested + ", the newest that guard was tested with; its gate is proved before it starts", nil
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

func parts(version string) []int {
	return numbers(versionLine.FindStringSubmatch(version + " (Claude Code)")[1:])
}

func numbers(texts []string) []int {
	all := make([]int, len(texts))
	for i, t := range texts {
		all[i], _ = strconv.Atoi(t) // the pattern allows nothing else
	}
	return all
}
