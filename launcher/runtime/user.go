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
	Permissions  object
	More         object   // further keys that pass as they are
	KeyHelper    string   // a command that prints a credential, and may hold it; no proof runs it
	Env          []string // of the env block, name=value, not filtered yet
	Left         []string // keys of the file that are not taken over

	Servers object   // MCP servers, env blocks filtered
	Dropped []string // names dropped from their env blocks

	Memory []byte   // the user's instructions for every project
	Agents object   // the user's agents, as --agents takes them
	Notes  []string // what else isn't taken over, a sentence each
}

// Keys of settings.json that have a meaning here.
const (
	// consent is what the client writes down once its user has accepted the mode
	// without permission prompts. Without it a session would ask at each launch.
	consent   = "skipDangerousModePermissionPrompt"
	keyHelper = "apiKeyHelper"
)

// plain are the keys of settings.json that a session has as they are: they say
// what the model is asked and how, or take something away, and name no program.
var plain = []string{
	"model", "effortLevel", "maxEffortLevel", "promptCacheTtl",
	"language", "outputStyle", "attribution", "includeCoAuthoredBy",
	"disableWorkflows", "disableBundledSkills", "sandbox", "cleanupPeriodDays", consent,
}

// read are further keys that this package makes use of.
var read = []string{"$schema", "env", "permissions", keyHelper, acceptedServers, rejectedServers}

// elsewhere are variables of an env block that say where the client finds its
// own files. It takes none of them from there itself, and what guard has read and
// checked has to be what the client finds.
var elsewhere = []string{"HOME", "CLAUDE_CONFIG_DIR"}

// LoadUser reads the user's own files for a session in dir. A file that the
// client would skip ends the launch, with the place in it.
func LoadUser(env func(string) string, pass []string, dir string) (User, error) {
	base, state, err := places(env)
	if err != nil {
		return User{}, err
	}
	file, err := readUser(filepath.Join(base, "settings.json"), maxSettings)
	if err != nil {
		return User{}, err
	}
	u := User{SettingsFile: file.path, Settings: file.data, More: object{}}
	if file.top != nil {
		if err := u.takeSettings(&file); err != nil {
			return User{}, err
		}
	}
	if err := u.takeState(file.top, state, pass, dir); err != nil {
		return User{}, err
	}
	if err := u.takeMemory(base, env("HOME")); err != nil {
		return User{}, err
	}
	return u, u.takeAgents(filepath.Join(base, "agents"))
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
	if p, ok := f.top["permissions"]; ok {
		if err := json.Unmarshal(p, &u.Permissions); err != nil {
			return f.bad("permissions", err.Error())
		}
	}
	if helper, ok := f.top[keyHelper]; ok {
		if u.KeyHelper, err = text(helper); err != nil {
			return f.bad(keyHelper, err.Error())
		}
	}
	for key, value := range f.top {
		switch {
		case slices.Contains(plain, key):
			u.More[key] = value
		case slices.Contains(read, key), key == "hooks" && onlyGates(value):
		default:
			u.Left = append(u.Left, key)
		}
	}
	slices.Sort(u.Left)
	vars, err := environment(f, f.top["env"], "env")
	for _, v := range vars {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(elsewhere, name) {
			u.Dropped = append(u.Dropped, name)
			continue
		}
		u.Env = append(u.Env, v)
	}
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

// ProjectFiles are the settings and instructions of the project in dir that a
// session doesn't load.
func ProjectFiles(dir string) []string {
	return there(dir, ".claude/settings.json", ".claude/settings.local.json", projectServers,
		"CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md", ".claude/agents", ".claude/commands", ".claude/skills")
}

// there are those of a directory's files that are there.
func there(dir string, names ...string) []string {
	var found []string
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			found = append(found, name)
		}
	}
	return found
}
