package runtime

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"leaseguard.internal/internal/verdict"
)

// maxAgent bounds one agent's file.
const maxAgent = 256 << 10

// userAgent is an agent as --agents takes it. Hooks, servers, permission modes and
// whatever else a file may name are not among it.
type userAgent struct {
	Description string   `json:"description"`
	Prompt      string   `json:"prompt"`
	Tools       []string `json:"tools,omitzero"` // an empty list is none, and no list is all
	Disallowed  []string `json:"disallowedTools,omitzero"`
	Model       string   `json:"model,omitempty"`
	Effort      string   `json:"effort,omitempty"`
}

var errAgent = errors.New("its front matter names no name or no description")

// agentKeys are the keys of an agent's front matter that are taken over.
var agentKeys = []string{"name", "description", "tools", "disallowedTools", "model", "effort", "color"}

// takeAgents reads the user's agents. One that can't be read as the client would
// is left out, and said: a session has less then, never more.
func (u *User) takeAgents(dir string) error {
	u.Agents = object{}
	for _, path := range markdown(dir) {
		name, a, left, err := readAgent(path)
		if err != nil {
			u.Notes = append(u.Notes, "the agent in "+verdict.Object(path)+" is not taken over: "+err.Error())
			continue
		}
		if len(left) > 0 {
			u.Notes = append(u.Notes, "not taken over from the agent in "+verdict.Object(path)+": "+strings.Join(left, ", "))
		}
		text, err := marshal("an agent", a)
		if err != nil {
			return err
		}
		u.Agents[name] = text
	}
	return nil
}

// readAgent reads one agent, and names the keys of it that are left.
func readAgent(path string) (name string, a userAgent, left []string, err error) {
	text, err := readText(path, maxAgent)
	if err != nil {
		return "", userAgent{}, nil, err
	}
	if !utf8.Valid(text) {
		return "", userAgent{}, nil, errors.New("it is no UTF-8")
	}
	fields, body, err := frontMatter(text)
	if err != nil {
		return "", userAgent{}, nil, err
	}
	name = fields["name"].text
	a = userAgent{
		Description: fields["description"].text, Prompt: strings.TrimSpace(string(body)),
		Tools: fields["tools"].names(), Disallowed: fields["disallowedTools"].names(),
		Model: fields["model"].text, Effort: fields["effort"].text,
	}
	switch {
	case name == "" || a.Description == "":
		return "", userAgent{}, nil, errAgent
	case fields["tools"].nested || fields["disallowedTools"].nested:
		return "", userAgent{}, nil, errFrontMatter
	}
	for key := range fields {
		if !slices.Contains(agentKeys, key) {
			left = append(left, verdict.Clean(key))
		}
	}
	slices.Sort(left)
	return name, a, left, nil
}

// agentsArg is the argument that gives the user's agents; empty: there are none.
func (u User) agentsArg(dir string) (string, error) {
	if len(u.Agents) == 0 {
		return "", nil
	}
	text, err := marshal("the user's agents", u.Agents)
	if err != nil {
		return "", err
	}
	arg := "--agents=" + string(text)
	if len(arg) > MaxArgument {
		name, size := u.Agents.largest()
		return "", refuse(verdict.ConfigInvalid, "taking over the agents in", dir,
			"they are "+strconv.Itoa(len(text))+" bytes long, and the kernel takes "+strconv.Itoa(MaxArgument)+" in one argument; the largest is "+verdict.Object(name)+" with "+strconv.Itoa(size),
			"make it shorter, or move it out of "+shellWord(filepath.Clean(dir)))
	}
	return arg, nil
}
