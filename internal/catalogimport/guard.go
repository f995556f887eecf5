package catalogimport

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
)

// Guard is what is understood of a rewind-guard configuration.
type Guard struct {
	ReadOnly []string // names, or prefixes with one * at the end
	Args     []Arg    // where single tools name their machine
	Left     []string // what isn't taken over, each with why
}

// Arg says where a tool names its machine.
type Arg struct{ Tool, Path string }

// readGuard understands, at the top level:
//
//	"read_only_tools": ["NAME", ...]
//	"tools": {"NAME": {"vm_arg": "PATH"}, ...}, or a list of {"name": "NAME", "vm_arg": "PATH"}
//	"vm_arg": {"NAME": "PATH", ...}
//
// Everything else is left, and said.
func readGuard(fields map[string][]byte) (*Guard, error) {
	g := &Guard{}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		value := jsontext.Value(fields[key])
		var err error
		switch {
		case key == "read_only_tools":
			g.ReadOnly, err = texts(value)
		case key == "tools" && value.Kind() == '{':
			err = g.eachTool(value)
		case key == "tools" && value.Kind() == '[':
			err = g.listedTools(value)
		case key == "vm_arg" && value.Kind() == '{':
			err = g.eachArg(value)
		default:
			g.leave("the key %s: guard.toml has no such setting for tools", verdict.Object(key))
		}
		if err != nil {
			return nil, fmt.Errorf("the value of %s: %w", verdict.Object(key), err)
		}
	}
	if n := len(g.ReadOnly) + len(g.Args); n > MaxTools {
		return nil, fmt.Errorf("%d tools; at most %d are read", n, MaxTools)
	}
	return g, nil
}

func (g *Guard) leave(format string, args ...any) {
	g.Left = append(g.Left, fmt.Sprintf(format, args...))
}

func (g *Guard) eachTool(value []byte) error {
	tools, err := strictjson.Fields(value)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		if string(tools[name]) == "null" {
			continue
		}
		fields, err := strictjson.Fields(tools[name], "vm_arg")
		if err != nil {
			return fmt.Errorf("tool %s: %w", verdict.Object(name), err)
		}
		g.tool(name, fields)
	}
	return nil
}

func (g *Guard) listedTools(value []byte) error {
	list, err := strictjson.Elements(value)
	if err != nil {
		return err
	}
	for i, element := range list {
		fields, err := strictjson.Fields(element, "name", "vm_arg")
		if err != nil {
			return fmt.Errorf("tool %d: %w", i+1, err)
		}
		names, err := texts(fields["name"])
		if err != nil || len(names) != 1 || names[0] == "" {
			return fmt.Errorf("tool %d has no name", i+1)
		}
		delete(fields, "name")
		g.tool(names[0], fields)
	}
	return nil
}

func (g *Guard) eachArg(value []byte) error {
	args, err := strictjson.Fields(value)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		g.tool(name, map[string][]byte{"vm_arg": args[name]})
	}
	return nil
}

// tool takes over what is said of one tool.
func (g *Guard) tool(name string, fields map[string][]byte) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key != "vm_arg" {
			g.leave("%s of the tool %s: guard.toml has no such key, or another meaning for it", verdict.Object(key), verdict.Object(name))
			continue
		}
		paths, err := texts(fields[key])
		if err != nil || len(paths) != 1 {
			g.leave("vm_arg of the tool %s: guard.toml takes one argument, as a string", verdict.Object(name))
			continue
		}
		if strictjson.CheckPath(paths[0]) != nil {
			g.leave("vm_arg of the tool %s: %s is no path such as a.b[0]", verdict.Object(name), verdict.Object(paths[0]))
			continue
		}
		g.Args = append(g.Args, Arg{name, paths[0]})
	}
}

// texts reads a string or a list of strings.
func texts(value []byte) ([]string, error) {
	list := [][]byte{value}
	if jsontext.Value(value).Kind() == '[' {
		var err error
		if list, err = strictjson.Elements(value); err != nil {
			return nil, err
		}
	}
	var out []string
	for _, element := range list {
		if jsontext.Value(element).Kind() != '"' {
			return nil, errors.New("want strings")
		}
		text, err := jsontext.AppendUnquote(nil, element)
		if err != nil {
			return nil, err
		}
		out = append(out, string(text))
	}
	return out, nil
}
