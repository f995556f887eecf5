package archtest

import (
	"go/token"
	"regexp"
	"slices"
)

// UseRule says where names of other packages may be mentioned at all.
type UseRule struct {
	Packages []string // import paths
	Names    *regexp.Regexp
	In       []string // directory patterns that may; tests always may, unless Tests
	Within   []string // directory patterns that the rule is about; none: all
	Tests    bool
	Why      string
}

// UseRules give dangerous names one owner each.
var UseRules = []UseRule{
	{
		Packages: []string{"time"},
		Names:    regexp.MustCompile(`^(Now|Since|Until|After|AfterFunc|Tick|NewTimer|NewTicker|Sleep)$`),
		In:       []string{"internal/clock"},
		Why:      "leases end on CLOCK_BOOTTIME; with one owner of clocks no other time can slip into a decision",
	},
	{
		Packages: []string{"syscall", "golang.org/x/sys/unix"},
		Names:    regexp.MustCompile(`^(SO_PEER|SO_PASS|SCM_|GetsockoptUcred$|UnixCredentials$|ParseUnixCredentials$|UnixRights$)`),
		In:       []string{"internal/peer", "gate", "internal/testproc", "internal/sdunit", "e2e/system"},
		Tests:    true,
		Why: "who is on the other end of a socket is answered in one package, by one proof; " +
			"the gate may look too, since it imports nothing, and its look can only refuse; testproc plays the attacker; sdunit hands descriptors to the service manager, which e2e/system plays",
	},
	{
		Packages: []string{"golang.org/x/sys/unix"},
		Names:    regexp.MustCompile(`^(Pidfd|PIDFD_|IoctlPidfd|PID_FS_MAGIC)`),
		In:       []string{"internal/peer", "internal/proc", "broker/session"},
		Why:      "a process is named by a pidfd that these packages hold, never by a number that can be used again",
	},
	{
		Packages: []string{"os", "path/filepath", "golang.org/x/sys/unix"},
		Names:    regexp.MustCompile(`^(Stat|Statx|Open|Openat|Openat2|EvalSymlinks)$`),
		Within:   []string{"broker", "broker/session", "internal/peer"},
		Why:      "a path that a peer chose can lead into a file system that never answers; internal/lookup asks none",
	},
	{
		Packages: []string{"syscall", "golang.org/x/sys/unix"},
		Names:    regexp.MustCompile(`^(ENOSPC|EFBIG|EROFS|EDQUOT|EIO)$`),
		In:       nil,
		Why:      "whatever the disk says, what wasn't written grants nothing; and libraries lose the number on the way",
	},
	{
		Packages: []string{"encoding/json"},
		Names:    regexp.MustCompile(`^(Unmarshal|NewDecoder|Decoder)$`),
		In:       nil,
		Why:      "encoding/json folds the case of keys and takes the last of two equal ones: decode by internal/strictjson",
	},
	{
		Packages: []string{"os"},
		Names:    regexp.MustCompile(`^Exit$`),
		In:       []string{"cmd/...", "bench/...", "internal/house/...", "internal/failpoint"},
		Why:      "a program ends in its main, after its defers; and a stray exit 1 would let a tool call pass",
	},
	{
		Packages: []string{"log"},
		Names:    regexp.MustCompile(`^(Fatal|Panic)`),
		In:       nil,
		Why:      "exits with status 1, which hosts take for a pass",
	},
	{
		Packages: []string{"fmt"},
		Names:    regexp.MustCompile(`^Print(f|ln)?$`),
		In:       nil,
		Why:      "commands are given their writer, so that a test can read what they say and stdout has one owner",
	},
	{
		Packages: []string{"net/http"},
		Names:    regexp.MustCompile(`^(DefaultClient|DefaultTransport|ProxyFromEnvironment|Get|Post|PostForm|Head)$`),
		In:       nil,
		Why:      "the default client takes proxies and roots from the environment, which the agent may have written",
	},
}

// CheckUses applies the use rules to the files.
func CheckUses(files []File, rules []UseRule) []Finding {
	var found []Finding
	for _, f := range files {
		f.uses(func(pkg, name string, pos token.Pos) {
			for _, r := range rules {
				if f.Test && !r.Tests || !r.about(f.Dir) || !slices.Contains(r.Packages, pkg) || !r.Names.MatchString(name) {
					continue
				}
				if !slices.ContainsFunc(r.In, func(p string) bool { return matches(p, f.Dir) }) {
					found = append(found, Finding{f.Path, f.line(pos), "uses " + pkg + "." + name, r.Why})
				}
			}
		})
	}
	return found
}

// about says whether the rule binds that directory.
func (r UseRule) about(dir string) bool {
	return len(r.Within) == 0 || slices.ContainsFunc(r.Within, func(p string) bool { return matches(p, dir) })
}
