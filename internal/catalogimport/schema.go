package catalogimport

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
)

// schema is a JSON Schema by its keywords, of which those are read that say which
// arguments there are.
type schema map[string]jsontext.Value

// indirect are keywords by which a schema says more than is followed here.
var indirect = []string{"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "prefixItems", "const", "enum"}

// understand reads a schema; false: nothing can be said by it.
func understand(text jsontext.Value) (s schema, ok bool) {
	if len(text) == 0 || text.Kind() != '{' || json.Unmarshal(text, &s) != nil {
		return nil, false
	}
	return s, true
}

// open says whether the schema may allow what it doesn't spell out.
func (s schema) open() bool {
	return slices.ContainsFunc(indirect, func(word string) bool { return s[word] != nil })
}

// is says whether the schema allows that type, as far as it says.
func (s schema) is(kind string) bool {
	if s["type"] == nil {
		return true
	}
	kinds, err := texts(s["type"])
	return err != nil || slices.Contains(kinds, kind)
}

// missing says why no call that follows the schema has a machine's name at path.
// Empty: it may, or the schema doesn't say.
func missing(text jsontext.Value, path string) string {
	steps, err := strictjson.Steps(path)
	if err != nil {
		return verdict.Object(path) + " is no path into its input"
	}
	at := "its input"
	for _, step := range steps {
		s, ok := understand(text)
		if !ok {
			return ""
		}
		var why string
		if text, why = s.below(step, at); why != "" || text == nil {
			return why
		}
		at = verdict.Object(step.Key)
		if step.Key == "" {
			at = "an element of the list"
		}
	}
	s, ok := understand(text)
	switch {
	case !ok || s.open() || s.is("string"):
		return ""
	case !s.is("array"):
		return at + " is neither a string nor a list of strings"
	}
	if items, ok := understand(s["items"]); ok && !items.open() && !items.is("string") {
		return at + " is a list of something else than strings"
	}
	return ""
}

// below goes one step down. Neither a schema nor a reason: it doesn't say.
func (s schema) below(step strictjson.Step, at string) (jsontext.Value, string) {
	if step.Key == "" {
		if !s.open() && !s.is("array") {
			return nil, at + " is no list"
		}
		return s["items"], ""
	}
	properties, spelled := understand(s["properties"])
	if p, ok := properties[step.Key]; ok {
		return p, ""
	}
	switch {
	case s.open() || !spelled && s.is("object") && string(s["additionalProperties"]) != "false":
		return nil, "" // says nothing of its properties
	case !s.is("object"):
		return nil, at + " is no object"
	}
	return nil, at + " has no " + verdict.Object(step.Key)
}

// machineNames are arguments that usually name a machine, without _ and -, in
// lower case.
var machineNames = []string{"vm", "vms", "vmname", "vmnames", "virtualmachine", "virtualmachines", "virtualmachinename", "machine", "machines", "machinename"}

// candidates are arguments of a tool that may name a machine, likely ones first.
func candidates(t Tool) []string {
	s, ok := understand(t.Schema)
	if !ok {
		return nil
	}
	rank := func(name string) int {
		return slices.Index(machineNames, strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name)))
	}
	var found []string
	properties, _ := understand(s["properties"])
	for name := range properties {
		if rank(name) >= 0 && strictjson.CheckPath(name) == nil && missing(t.Schema, name) == "" {
			found = append(found, name)
		}
	}
	slices.SortFunc(found, func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return found
}
