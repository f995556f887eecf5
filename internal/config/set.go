package config

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/verdict"
)

// setter checks a value and puts it in its place.
type setter = func(*place, value) error

// into makes a setter of a reading and a place.
func into[T any](read func(value) (T, error), at func(*place) *T) setter {
	return func(p *place, v value) error {
		x, err := read(v)
		if err == nil {
			*at(p) = x
		}
		return err
	}
}

func text(at func(*place) *string) setter    { return into(value.str, at) }
func boolean(at func(*place) *bool) setter   { return into(value.bool, at) }
func list(at func(*place) *[]string) setter  { return into(value.strings, at) }
func names(at func(*place) *[]string) setter { return into(value.names, at) }

func duration(low, high time.Duration, at func(*place) *time.Duration) setter {
	return into(func(v value) (time.Duration, error) { return v.duration(low, high) }, at)
}

func wholeSeconds(low, high time.Duration, at func(*place) *time.Duration) setter {
	return into(func(v value) (time.Duration, error) {
		d, err := v.duration(low, high)
		if err == nil && d%time.Second != 0 {
			err = fmt.Errorf(`%v is not whole seconds; write such as "%s"`, v, showDuration(d.Round(time.Second)))
		}
		return d, err
	}, at)
}

func size(low, high int64, at func(*place) *int64) setter {
	return into(func(v value) (int64, error) { return v.size(low, high) }, at)
}

func integer(low, high int, at func(*place) *int) setter {
	return into(func(v value) (int, error) { return v.integer(low, high) }, at)
}

// optional reads a string that may be empty.
func optional(at func(*place) *string) setter {
	return into(func(v value) (string, error) {
		if v.kind == unstable.String && v.text == "" {
			return "", nil
		}
		return v.str()
	}, at)
}

// oneOf takes one of some words.
func oneOf(at func(*place) *string, words ...string) setter { return oneOfYet(at, "", words...) }

// oneOfYet is oneOf where one more word belongs to a later version.
func oneOfYet(at func(*place) *string, later string, words ...string) setter {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	write := "write " + strings.Join(quoted, " or ")
	return into(func(v value) (string, error) {
		switch {
		case v.kind != unstable.String:
			return "", fmt.Errorf("want a string, got %v; %s", v, write)
		case later != "" && v.text == later:
			return "", fmt.Errorf("%v is not in this version; %s", v, write)
		case !slices.Contains(words, v.text):
			return "", fmt.Errorf("%v is no choice; %s", v, write)
		}
		return v.text, nil
	}, at)
}

// names reads a string or a list of strings: names of machines.
func (v value) names() ([]string, error) {
	if v.kind != unstable.Array {
		s, err := v.str()
		if err != nil {
			return nil, fmt.Errorf("want a name or a list of names: %w", err)
		}
		return []string{s}, nil
	}
	names, err := v.strings()
	switch {
	case err != nil:
		return nil, err
	case len(names) == 0:
		return nil, errors.New("the list is empty; name a machine or remove the key")
	case len(names) > catalog.MaxTargets:
		return nil, fmt.Errorf("%d machines; list at most %d", len(names), catalog.MaxTargets)
	}
	return names, nil
}

func self(p *place, v value) error {
	const none = "none"
	names, err := v.names()
	if err != nil {
		return err
	}
	if len(names) == 1 && names[0] == none && v.kind == unstable.String {
		p.c.Checkpoint.SelfNone = true
		return nil
	}
	for _, n := range names {
		if strings.EqualFold(n, none) {
			return fmt.Errorf(`%s would be a machine of that name here; for no machine write self = "none"`, verdict.Object(n))
		}
	}
	p.c.Checkpoint.Self = names
	return nil
}

// documents reads names of files below a session's directory.
func documents(at func(*place) *[]string) setter {
	const most = 64
	return into(func(v value) ([]string, error) {
		names, err := v.strings()
		if err != nil {
			return nil, err
		}
		if len(names) > most {
			return nil, fmt.Errorf("%d documents; list at most %d", len(names), most)
		}
		for _, n := range names {
			if !filepath.IsLocal(n) || filepath.Clean(n) != n {
				return nil, fmt.Errorf("%s is no plain path below the session's directory; write such as \"docs/AGENTS.md\"", verdict.Object(n))
			}
		}
		return names, nil
	}, at)
}

// piExtensions reads files, relative to guard.toml, and names of Pi's own
// extensions. What Pi would fetch from elsewhere is neither.
func piExtensions(p *place, v value) error {
	names, err := v.strings()
	if err != nil {
		return err
	}
	for i, n := range names {
		own, is := strings.CutPrefix(n, "builtin:")
		switch {
		case is && strings.Trim(own, "abcdefghijklmnopqrstuvwxyz-.") == "" && own != "":
		case strings.Contains(n, ":") || n == "":
			return fmt.Errorf(`%s is no file and none of Pi's own extensions; write such as "/opt/pi/team.js" or "builtin:mcp"`, verdict.Object(n))
		case !filepath.IsAbs(n):
			names[i] = filepath.Join(p.dir, n)
		}
	}
	p.c.Launch.PiExtensions = names
	return nil
}

// searchPath reads the PATH of policy hooks. A relative directory in it would be
// another in each session.
func searchPath(p *place, v value) error {
	s, err := v.str()
	if err != nil {
		return err
	}
	for dir := range strings.SplitSeq(s, ":") {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf(`%s is no absolute directory; write such as "/usr/bin:/bin"`, verdict.Object(dir))
		}
	}
	p.c.Hooks.Path = s
	return nil
}

// file reads a path, relative to guard.toml, and makes it absolute.
func file(at func(*place) *string) setter {
	return func(p *place, v value) error {
		s, err := v.str()
		if err != nil {
			return err
		}
		if !filepath.IsAbs(s) {
			s = filepath.Join(p.dir, s)
		}
		*at(p) = filepath.Clean(s)
		return nil
	}
}

// credentialName reads the name of a file in a directory of the service manager's.
func credentialName(p *place, v value) error {
	s, err := v.str()
	if err != nil {
		return err
	}
	if s == "." || s == ".." || len(s) > 255 || strings.Contains(s, "/") || !graphic(s) {
		return fmt.Errorf(`%v is no name of a credential; write the NAME of LoadCredential=NAME:FILE in the unit`, v)
	}
	p.c.ZVM.Credential = s
	return nil
}

func class(p *place, v value) error {
	switch s, _ := v.str(); s {
	case catalog.Mutating.String():
		p.tool.Class = catalog.Mutating
	case catalog.ReadOnly.String():
		p.tool.Class = catalog.ReadOnly
	default:
		return fmt.Errorf(`%v is no class; write "mutating" or "read_only"`, v)
	}
	return nil
}

// states are the names that Zerto gives to the states of a protection group.
var states = []string{
	"Initializing", "MeetingSLA", "NotMeetingSLA", "RpoNotMeetingSLA", "HistoryNotMeetingSLA",
	"FailingOver", "Moving", "Deleting", "Recovered",
}

func statuses(p *place, v value) error {
	list, err := v.strings()
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New(`the list is empty, so no checkpoint would count; write ["MeetingSLA"]`)
	}
	for _, s := range list {
		if !slices.Contains(states, s) {
			return fmt.Errorf("%s is no state of a protection group; the states are %s", verdict.Object(s), strings.Join(states, ", "))
		}
	}
	p.c.Checkpoint.AcceptStatus = list
	return nil
}

func zvmURL(p *place, v value) error {
	s, err := v.str()
	if err != nil {
		return err
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || !goodHost(u) || u.User != nil || strings.ContainsAny(s, "?#") || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf(`%v is no address of a ZVM; write "https://HOST" or "https://HOST:PORT", and nothing more`, v)
	}
	p.c.ZVM.URL = u.Scheme + "://" + u.Host
	return nil
}

// goodHost wants a host, and a port that exists if there is a colon.
func goodHost(u *url.URL) bool {
	if u.Port() == "" {
		return u.Hostname() != "" && !strings.HasSuffix(u.Host, ":")
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return u.Hostname() != "" && err == nil && port > 0
}

func zvmPin(p *place, v value) error {
	s, err := v.str()
	if err != nil {
		return err
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != sha256.Size {
		return fmt.Errorf("%v is no SHA-256 in base64; write the 44 characters that openssl prints for the server's public key", v)
	}
	p.c.ZVM.SPKISHA256 = s
	return nil
}
