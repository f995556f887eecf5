package runtime

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/pelletier/go-toml/v2"

	"leaseguard.internal/internal/verdict"
)

// Where an administrator's files of Codex are.
const (
	CodexRequirements = "/etc/codex/requirements.toml"
	codexManaged      = "/etc/codex/managed_config.toml"
	codexSystem       = "/etc/codex/config.toml"
)

// CodexUser is what the client's configuration would bring into a session beside
// the gate. guard can tell the client to read no file as little as it can tell
// it to run no other hook; so it looks at the files that the client will read,
// and takes back by arguments, which beat them, what doesn't belong there.
type CodexUser struct {
	Home    string    // where the client keeps its user's configuration
	Files   []Managed // all that was read, for the proof's digest
	Trusted []string  // directories whose own configuration would be loaded
	Hooks   []string  // hooks of the user's, by the client's name for them
	Servers []string  // MCP servers by name
	Plugins bool      // the user has plugins
	Member  bool      // the service may send settings
}

// codexConfig is what guard reads of a config.toml.
type codexConfig struct {
	Projects map[string]struct {
		Trust string `toml:"trust_level"`
	} `toml:"projects"`
	Hooks   map[string]any `toml:"hooks"`
	Servers map[string]any `toml:"mcp_servers"`
	Plugins map[string]any `toml:"plugins"`

	Service  string `toml:"chatgpt_base_url"`
	Store    string `toml:"cli_auth_credentials_store"`
	Profiles map[string]struct {
		Service string `toml:"chatgpt_base_url"`
	} `toml:"profiles"`
}

// LoadCodex reads the configuration of the client's user, with the profiles that
// the arguments name. A file that the client would choke on ends the launch, and so
// does a variable of its .env that isn't among pass and that guard keeps out.
func LoadCodex(env func(string) string, profiles, pass []string) (CodexUser, error) {
	home := cmp.Or(env("CODEX_HOME"), filepath.Join(env("HOME"), ".codex"))
	if !filepath.IsAbs(home) {
		return CodexUser{}, refuse(verdict.ConfigInvalid, "looking for the configuration of Codex in", home, "the directory is not absolute", "set HOME to one that begins with /")
	}
	u := CodexUser{Home: home}
	own := []string{filepath.Join(home, "config.toml")}
	for _, name := range profiles {
		own = append(own, filepath.Join(home, name+".config.toml"))
	}
	for _, path := range append([]string{codexSystem}, own...) {
		c, err := u.config(path)
		if err != nil {
			return CodexUser{}, err
		}
		u.take(c)
		if path == codexSystem { // an administrator's hooks are theirs
			continue
		}
		u.hooks(path, c.Hooks)
		if err := c.checkService(path); err != nil {
			return CodexUser{}, err
		}
	}
	if err := u.hooksFile(filepath.Join(home, "hooks.json")); err != nil {
		return CodexUser{}, err
	}
	if err := u.dotenv(filepath.Join(home, ".env"), pass); err != nil {
		return CodexUser{}, err
	}
	for _, path := range []string{CodexRequirements, codexManaged} {
		if _, err := u.read(path); err != nil {
			return CodexUser{}, err
		}
	}
	member, err := u.member()
	if err != nil {
		return CodexUser{}, err
	}
	u.Member = u.Member || member
	for _, list := range []*[]string{&u.Trusted, &u.Hooks, &u.Servers} {
		*list = unique(*list)
	}
	return u, nil
}

// read keeps a file's bytes for the digest of the proof.
func (u *CodexUser) read(path string) (userFile, error) {
	f, err := readFile(path, maxSettings)
	if err == nil && f.data != nil {
		u.Files = append(u.Files, Managed{Path: path, Data: f.data})
	}
	return f, err
}

func (u *CodexUser) config(path string) (c codexConfig, err error) {
	f, err := u.read(path)
	if err != nil {
		return c, err
	}
	if err := toml.Unmarshal(f.data, &c); err != nil {
		at := ""
		if place := (*toml.DecodeError)(nil); errors.As(err, &place) {
			line, _ := place.Position()
			at = fmt.Sprintf("line %d", line)
		}
		return c, refuse(verdict.ConfigInvalid, "reading", path, cmp.Or(at, "the file")+": "+err.Error(), "correct "+shellWord(path))
	}
	return c, nil
}

func (u *CodexUser) take(c codexConfig) {
	for dir, p := range c.Projects {
		if p.Trust == "trusted" {
			u.Trusted = append(u.Trusted, dir)
		}
	}
	u.Servers = slices.AppendSeq(u.Servers, maps.Keys(c.Servers))
	u.Plugins = u.Plugins || len(c.Plugins) > 0
	u.Member = u.Member || c.Store != "" && c.Store != "file" // a log-in that guard can't see
}

// hooksFile reads a hooks.json. One that the client can't read brings no hook.
func (u *CodexUser) hooksFile(path string) error {
	f, err := u.read(path)
	if err != nil {
		return err
	}
	var top struct {
		Hooks map[string]any `json:"hooks"`
	}
	if json.Unmarshal(bytes.TrimSpace(f.data), &top) == nil {
		u.hooks(path, top.Hooks)
	}
	return nil
}

// hooks names the hooks of a file as the client does: by file, event, group and
// place in it. The file's name may reach the client with its links resolved.
func (u *CodexUser) hooks(path string, events map[string]any) {
	// What the user has trusted may come only later: a file that is put there in
	// the session is read when another conversation begins.
	state, _ := events["state"].(map[string]any)
	for key := range state {
		if !strings.HasPrefix(strings.TrimSpace(key), sessionFlags+":") { // the gate's own, of which guard says more
			u.Hooks = append(u.Hooks, key)
		}
	}
	files := []string{path}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		files = append(files, filepath.Join(dir, filepath.Base(path)))
	}
	for event, groups := range events {
		list, _ := groups.([]any)
		for g, group := range list {
			of, _ := group.(map[string]any)
			handlers, _ := of["hooks"].([]any)
			for h := range handlers {
				for _, file := range files {
					u.Hooks = append(u.Hooks, hookKey(file, event, g, h))
				}
			}
		}
	}
}

// hookKey is the client's name for a hook.
func hookKey(file, event string, group, handler int) string {
	return file + ":" + snake(event) + ":" + strconv.Itoa(group) + ":" + strconv.Itoa(handler)
}

// snake writes PreToolUse as pre_tool_use.
func snake(event string) string {
	var b strings.Builder
	for i, r := range event {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// Project are the files of the project in dir that a session doesn't load: the
// client would, if its user has trusted that directory or one above it.
func (u CodexUser) Project(dir string) []string {
	if !slices.ContainsFunc(u.Trusted, func(t string) bool { return dir == t || strings.HasPrefix(dir, strings.TrimSuffix(t, "/")+"/") }) {
		return nil
	}
	return there(dir, ".codex/config.toml", ".codex/hooks.json", ".codex/rules")
}
