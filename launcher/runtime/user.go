package runtime

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
)

// User is what a session takes over of its user's configuration of Claude. The
// client itself is told to read no settings file, so that no project can speak;
// what is here is given to it by guard.
type User struct {
	SettingsFile string // where it would be
	Settings     []byte // its bytes, for the proof's digest
	Model        jsontext.Value
	Permissions  object
	More         object   // further keys that pass as they are
	Env          []string // of the env block, name=value, not filtered yet
	Left         []string // keys of the file that are not taken over

	Servers object   // MCP servers of the user's scope, env blocks filtered
	Dropped []string // names dropped from their env blocks
}

// consent is what the client writes down once its user has accepted the mode
// without permission prompts. Without it a session would ask at each launch.
const consent = "skipDangerousModePermissionPrompt"

// carried are the keys of settings.json that a session has.
var carried = []string{"$schema", "env", "model", "permissions", consent}

// LoadUser reads the user's settings and MCP servers. A file that the client
// would skip ends the launch, with the place in it.
func LoadUser(env func(string) string, pass []string) (User, error) {
	dir, state, err := places(env)
	if err != nil {
		return User{}, err
	}
	file, err := readUser(filepath.Join(dir, "settings.json"), maxSettings)
	if err != nil {
		return User{}, err
	}
	u := User{SettingsFile: file.path, Settings: file.data, More: object{}}
	if file.top != nil {
		if err := u.takeSettings(&file); err != nil {
			return User{}, err
		}
	}
	return u, u.takeState(state, pass)
}

// places are the directory of the user's settings and the file of the client's
// state, by the client's own rules.
func places(env func(string) string) (dir, state string, err error) {
	dir, home := env("CLAUDE_CONFIG_DIR"), env("HOME")
	base := cmp.Or(dir, home)
	dir = cmp.Or(dir, filepath.Join(home, ".claude"))
	if !filepath.IsAbs(base) {
		return "", "", refuse(verdict.ConfigInvalid, "looking for the settings of Claude in", base, "the directory is not absolute", "set HOME or CLAUDE_CONFIG_DIR to one that begins with /")
	}
	if _, err := os.Lstat(filepath.Join(dir, ".config.json")); err == nil {
		return dir, filepath.Join(dir, ".config.json"), nil
	}
	return dir, filepath.Join(base, ".claude.json"), nil
}

func (u *User) takeSettings(f *userFile) error {
	whole, err := json.Marshal(f.top)
	if err == nil {
		err = f.check(settingsShape, whole, "")
	}
	if err != nil {
		return err
	}
	u.Model = f.top["model"]
	if p, ok := f.top["permissions"]; ok {
		if err := json.Unmarshal(p, &u.Permissions); err != nil {
			return f.bad("permissions", err.Error())
		}
	}
	if value, ok := f.top[consent]; ok {
		u.More[consent] = value
	}
	for key := range f.top {
		if !slices.Contains(carried, key) {
			u.Left = append(u.Left, key)
		}
	}
	slices.Sort(u.Left)
	u.Env, err = environment(f, f.top["env"], "env")
	return err
}

// environment reads an env block into name=value, sorted.
func environment(f *userFile, block jsontext.Value, at string) ([]string, error) {
	if block == nil {
		return nil, nil
	}
	var vars object
	if err := json.Unmarshal(block, &vars); err != nil {
		return nil, f.bad(at, err.Error())
	}
	var all []string
	for name, v := range vars {
		value, err := text(v)
		if err == nil && strings.ContainsRune(name+value, 0) {
			err = errNUL
		}
		if err == nil && (name == "" || strings.ContainsRune(name, '=')) {
			err = errName
		}
		if err != nil {
			return nil, f.bad(at+"."+name, err.Error())
		}
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return all, nil
}

// takeState reads the MCP servers of the user's own scope, and the consent to the
// mode without permission prompts, from the client's own state. Servers of a
// project are not among them.
func (u *User) takeState(path string, pass []string) error {
	f, err := readUser(path, maxState)
	if err != nil {
		return err
	}
	if _, said := u.More[consent]; !said && string(f.top["bypassPermissionsModeAccepted"]) == "true" {
		u.More[consent] = jsontext.Value("true")
	}
	list, ok := f.top["mcpServers"]
	if !ok {
		return nil
	}
	if err := f.check(serversShape, list, "mcpServers"); err != nil {
		return err
	}
	if err := json.Unmarshal(list, &u.Servers); err != nil {
		return f.bad("mcpServers", err.Error())
	}
	for name, raw := range u.Servers {
		if u.Servers[name], err = u.filterServer(&f, name, raw, pass); err != nil {
			return err
		}
	}
	u.Dropped = unique(u.Dropped)
	return nil
}

// filterServer takes out of a server's env block what the session itself may
// not have.
func (u *User) filterServer(f *userFile, name string, raw jsontext.Value, pass []string) (jsontext.Value, error) {
	at := "mcpServers." + name
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

// ProjectFiles are the settings and instructions of the project in dir that a
// session doesn't load.
func ProjectFiles(dir string) []string {
	var found []string
	for _, name := range []string{
		".claude/settings.json", ".claude/settings.local.json", ".mcp.json",
		"CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md", ".claude/agents", ".claude/commands", ".claude/skills",
	} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			found = append(found, name)
		}
	}
	return found
}
