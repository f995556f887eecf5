package runtime

import (
	"path/filepath"
	"slices"
	"strings"
)

// codexKept is all that Codex inherits. Its hooks run in a shell, with the
// client's own environment: one variable that this shell reads (BASH_ENV,
// BASH_FUNC_*, ZDOTDIR) answers every hook in the gate's place, which the client
// takes for a pass. So here what isn't known to be harmless doesn't come along.
var codexKept = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TERM", "COLORTERM", "TZ", "TMPDIR", "XDG_*",
	"SSH_AUTH_SOCK", "GIT_*", "SSL_CERT_*", "OPENAI_*",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
}

// FilterCodex keeps what is in the table, and the names in pass. What changes
// with every terminal is left out without a word.
func FilterCodex(env, pass []string) Environment {
	var out Environment
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case fits(name, codexKept) || slices.Contains(pass, name):
			out.Vars = append(out.Vars, v)
		case !fits(name, unproved):
			out.Dropped = append(out.Dropped, name)
		}
	}
	out.straighten(pass)
	out.Dropped = unique(out.Dropped)
	return out
}

// straighten takes the parts out of PATH that aren't absolute: they lead to
// whatever project the session stands in, whose program would run in the place of
// one that the client starts unasked, git or rg.
func (e *Environment) straighten(pass []string) {
	if slices.Contains(pass, "PATH") {
		return
	}
	for i, v := range e.Vars {
		path, is := strings.CutPrefix(v, "PATH=")
		parts := strings.Split(path, ":")
		straight := slices.DeleteFunc(slices.Clone(parts), func(dir string) bool { return !filepath.IsAbs(dir) })
		if !is || len(straight) == len(parts) {
			continue
		}
		if len(straight) == 0 {
			straight = []string{"/usr/bin", "/bin"} // an empty PATH is the project too
		}
		e.Vars[i] = "PATH=" + strings.Join(straight, ":")
		e.Dropped = append(e.Dropped, "relative parts of PATH")
	}
}

// ProofCodex is the environment of Codex's proof: without credentials, proxies
// and what changes from one terminal to the next.
func (e Environment) ProofCodex() []string {
	return e.proved()
}

// Get is the value of a variable; the last of equal names counts.
func (e Environment) Get(name string) string {
	value := ""
	for _, v := range e.Vars {
		if rest, ok := strings.CutPrefix(v, name+"="); ok {
			value = rest
		}
	}
	return value
}
