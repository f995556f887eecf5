package runtime

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"leaseguard.internal/internal/verdict"
)

// Codex puts the variables of its home's .env over its own environment when it
// starts: measured, PATH there leads its hooks to another bash, and BASH_ENV or
// LD_PRELOAD into that one. So what may stand there is what the environment may
// have, less what guard itself has looked at before.

// codexDotenv are the names that may stand in that file, beside credentials and
// those of session.env_pass.
var codexDotenv = []string{
	"LANG", "LC_*", "TZ", "OPENAI_*",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
}

// assignment is a line of that file that sets a variable.
var assignment = regexp.MustCompile(`^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=`)

// dotenv refuses a .env that sets anything else. Each line is judged by itself:
// of a value over several lines nobody here says where it ends.
func (u *CodexUser) dotenv(path string, pass []string) error {
	f, err := u.read(path)
	if err != nil {
		return err
	}
	number := 0
	for line := range strings.Lines(string(f.data)) {
		number++
		if text := strings.TrimSpace(line); text == "" || text[0] == '#' {
			continue
		}
		at := fmt.Sprintf("line %d", number)
		m := assignment.FindStringSubmatch(line)
		if m == nil {
			return refuse(verdict.ConfigInvalid, "reading", path, at+" is no NAME=value", "write each variable of "+shellWord(path)+" in one line")
		}
		// What the environment has anyway was looked at there; here it would be another.
		name, next := m[1], "take "+m[1]+" out of "+shellWord(path)
		if !fits(name, codexKept) {
			if slices.Contains(pass, name) {
				continue
			}
			next += ", or add it to session.env_pass in guard.toml"
		}
		if fits(name, dropped) || !fits(name, codexDotenv) && !isSecret(name) {
			return refuse(verdict.ConfigInvalid, "reading", path, at+" sets "+name+" over the environment that guard gives Codex", next)
		}
	}
	return nil
}
