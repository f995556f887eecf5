package runtime

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
)

// projectServers is a project's own list of MCP servers.
const projectServers = ".mcp.json"

// Lists of names of a project's servers. The client writes a person's answer to
// its question into the project itself, where the project could have put it, so
// a yes counts in the user's own files alone. A no counts everywhere.
const (
	acceptedServers = "enabledMcpjsonServers"
	rejectedServers = "disabledMcpjsonServers"
)

// takeState reads, from the client's own state, the MCP servers of the user's
// own scope and of the user's for this project, and the consent to the mode
// without permission prompts.
func (u *User) takeState(settings object, path string, pass []string, dir string) error {
	f, err := readUser(path, maxState)
	if err != nil {
		return err
	}
	if _, said := u.More[consent]; !said && string(f.top["bypassPermissionsModeAccepted"]) == "true" {
		u.More[consent] = jsontext.Value("true")
	}
	u.Servers = object{}
	if err := u.addServers(&f, f.top["mcpServers"], "mcpServers", pass); err != nil {
		return err
	}
	var projects map[string]jsontext.Value
	if list, ok := f.top["projects"]; ok {
		if err := json.Unmarshal(list, &projects); err != nil {
			return f.bad("projects", "want an object")
		}
	}
	var project object
	if mine, ok := projects[dir]; ok {
		if err := json.Unmarshal(mine, &project); err != nil {
			return f.bad("projects."+dir, "want an object")
		}
	}
	u.takeAccepted(dir, pass, settings, project)
	err = u.addServers(&f, project["mcpServers"], "projects."+dir+".mcpServers", pass)
	u.Dropped = unique(u.Dropped)
	return err
}

// addServers puts a list of servers over those that are there.
func (u *User) addServers(f *userFile, list jsontext.Value, at string, pass []string) error {
	if list == nil {
		return nil
	}
	if err := f.check(serversShape, list, at); err != nil {
		return err
	}
	var servers object
	if err := json.Unmarshal(list, &servers); err != nil {
		return f.bad(at, err.Error())
	}
	for name, raw := range servers {
		server, err := u.filterServer(f, at+"."+name, raw, pass)
		if err != nil {
			return err
		}
		u.Servers[name] = server
	}
	return nil
}

// takeAccepted takes over those of the project's own servers that the user's
// files accept by name. The file is the project's: what is wrong with it costs
// the project its servers, and not the user the launch.
func (u *User) takeAccepted(dir string, pass []string, settings, project object) {
	accepted := append(nameList(settings[acceptedServers]), nameList(project[acceptedServers])...)
	if len(accepted) == 0 {
		return
	}
	rejected := append(nameList(settings[rejectedServers]), nameList(project[rejectedServers])...)
	for _, name := range []string{"settings.json", "settings.local.json"} {
		if f, err := readUser(filepath.Join(dir, ".claude", name), maxSettings); err == nil {
			rejected = append(rejected, nameList(f.top[rejectedServers])...)
		}
	}
	f, err := readUser(filepath.Join(dir, projectServers), maxSettings)
	var all object
	if list, ok := f.top["mcpServers"]; ok && err == nil {
		err = json.Unmarshal(list, &all)
	}
	chosen := object{}
	for name, server := range all {
		if slices.Contains(accepted, name) && !slices.Contains(rejected, name) {
			chosen[name] = server
		}
	}
	if len(chosen) > 0 && err == nil {
		var list jsontext.Value
		if list, err = json.Marshal(chosen); err == nil {
			err = u.addServers(&f, list, "mcpServers", pass)
		}
	}
	if err != nil {
		u.Notes = append(u.Notes, "the project's MCP servers are not taken over, though the user accepted some: "+verdict.Object(projectServers)+" can't be read as a list of servers")
	}
}

// nameList reads a list of names, and nothing from what is none.
func nameList(v jsontext.Value) []string {
	var names []string
	if v == nil || json.Unmarshal(v, &names) != nil {
		return nil
	}
	return names
}

// filterServer takes out of a server's env block what the session itself may
// not have.
func (u *User) filterServer(f *userFile, at string, raw jsontext.Value, pass []string) (jsontext.Value, error) {
	var server object
	if err := json.Unmarshal(raw, &server); err != nil {
		return nil, f.bad(at, err.Error())
	}
	vars, err := environment(f, server["env"], at+".env")
	if err != nil || len(vars) == 0 {
		return raw, err
	}
	block := map[string]string{}
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		if !slices.Contains(pass, name) && fits(name, dropped) && !fits(name, kept) {
			u.Dropped = append(u.Dropped, name)
			continue
		}
		block[name] = value
	}
	if server["env"], err = json.Marshal(block, json.Deterministic(true)); err != nil {
		return nil, f.bad(at+".env", err.Error())
	}
	out, err := json.Marshal(server, json.Deterministic(true))
	if err != nil {
		return nil, f.bad(at, err.Error())
	}
	return out, nil
}

// ServersFile is the text of the file with the user's MCP servers. They may
// hold secrets, so they are in no argument.
func (u User) ServersFile() ([]byte, error) {
	return marshal("the list of MCP servers", map[string]any{"mcpServers": u.Servers})
}
