package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/verdict"
)

// PolicyServer is [policy_server]: a server that judges each call too. At most
// one of TokenFile and TokenCommand is set; paths are absolute.
type PolicyServer struct {
	URL            string // https, or http of a loopback address; may hold SessionMark in its path
	Headers        map[string]string
	TokenFile      string
	TokenCommand   []string // a program by its absolute path, and its arguments
	ConnectTimeout time.Duration
	Budget         time.Duration
}

// SessionMark stands in the URL for the id of the session that is judged.
const SessionMark = "{session}"

// Token reads TokenFile: at the start, and anew each time that the server refuses
// what it held. An error never holds any of it.
func (s PolicyServer) Token(uid uint32) (string, error) {
	const key = "policy_server.token_file"
	b, err := safepath.ReadSecret(s.TokenFile, uid, maxSecret)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w; the file holds the token alone, mode 0600", key, err)
	}
	return oneLine(b, key, s.TokenFile)
}

func policyURL(p *place, v value) error {
	s, err := v.str()
	if err != nil {
		return err
	}
	u, err := url.Parse(strings.ReplaceAll(s, SessionMark, "0"))
	if err != nil || !goodHost(u) || u.User != nil || strings.ContainsAny(s, "#") || !graphic(s) {
		return fmt.Errorf(`%v is no address of a policy server; write such as "https://HOST/v1/sessions/{session}/policies/evaluate", without user, password or #`, v)
	}
	bare, _, _ := strings.Cut(s, "?")
	_, path, _ := strings.Cut(strings.TrimPrefix(bare, u.Scheme+"://"), "/")
	if strings.Count(path, SessionMark) != strings.Count(s, SessionMark) || strings.ContainsAny(strings.ReplaceAll(path, SessionMark, ""), "{}") {
		return fmt.Errorf("%v: {session} is the only word in braces, and stands in the path", v)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return fmt.Errorf("%v is neither https nor on this host: what is judged, and the credential, would go out in the clear; write https://", v)
	}
	p.c.PolicyServer.URL = s
	return nil
}

// loopback says whether a host of a URL is this one, whatever resolves names.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

func graphic(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// ownHeaders are set by guard or by the connection.
var ownHeaders = []string{"content-type", "content-length", "transfer-encoding", "connection", "host", "accept", "accept-encoding", "te", "trailer", "upgrade", "expect"}

// headers reads an inline table of strings. Credentials have a place where nobody
// else can read them.
func headers(p *place, v value) error {
	if v.kind != unstable.InlineTable {
		return fmt.Errorf(`want a table in braces, got %v; write it as { "X-Team" = "db" }`, v)
	}
	const most, longest = 32, 1024
	all := map[string]string{}
	for i, name := range v.keys {
		text, err := v.list[i].str()
		lower := strings.ToLower(name)
		switch {
		case len(v.list) > most:
			return fmt.Errorf("%d headers; list at most %d", len(v.list), most)
		case err != nil:
			return fmt.Errorf("header %s: %w", verdict.Object(name), err)
		case name == "" || len(name) > 100 || !graphic(name) || strings.ContainsAny(name, `"(),/:;<=>?@[\]{}`):
			return fmt.Errorf("%s is no name of a header; write such as \"X-Team\", in quotes", verdict.Object(name))
		case lower == "authorization" || lower == "proxy-authorization" || lower == "cookie":
			return fmt.Errorf("%s is a credential, which this file is not for; use token_file or token_command", verdict.Object(name))
		case slices.Contains(ownHeaders, lower):
			return fmt.Errorf("%s is set by guard itself; remove it", verdict.Object(name))
		case len(text) > longest || !graphic(strings.ReplaceAll(text, " ", "")):
			return fmt.Errorf("the value of %s is longer than %d bytes or not plain ASCII; correct it", verdict.Object(name), longest)
		}
		for other := range all {
			if strings.EqualFold(other, name) {
				return fmt.Errorf("%s and %s are one header; remove one", verdict.Object(other), verdict.Object(name))
			}
		}
		all[name] = text
	}
	p.c.PolicyServer.Headers = all
	return nil
}

// tokenCommand reads a program and its arguments; no shell and no PATH looks for it.
func tokenCommand(p *place, v value) error {
	if v.kind != unstable.Array {
		return fmt.Errorf(`want a list of strings, got %v; write it as ["/path/of/program", "argument"]`, v)
	}
	var argv []string
	for _, e := range v.list {
		s, err := e.str()
		if err != nil {
			return fmt.Errorf("in the list: %w", err)
		}
		argv = append(argv, s)
	}
	switch {
	case len(argv) == 0:
		return errors.New("the list is empty; name a program or remove the key")
	case len(argv) > 64:
		return fmt.Errorf("%d arguments; list at most 64", len(argv))
	case !filepath.IsAbs(argv[0]):
		return fmt.Errorf("%s is no absolute path; write the whole path of the program", verdict.Object(argv[0]))
	}
	p.c.PolicyServer.TokenCommand = argv
	return nil
}

// checkPolicyServer asks what concerns several keys of [policy_server].
func (d *document) checkPolicyServer(s *PolicyServer) {
	if s == nil {
		return
	}
	t := d.table(policyServer)
	if s.URL == "" {
		d.fault(t.line, "policy_server.url", `missing; add to [policy_server]: url = "https://HOST/PATH"`)
	}
	if s.TokenFile != "" && len(s.TokenCommand) > 0 {
		d.fault(t.lineOf("token_command"), "policy_server.token_command", "token_file is at line %d too; keep one of them", t.lineOf("token_file"))
	}
}
