package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPolicyServer(t *testing.T) {
	const url = "url = \"https://p.example/v1/sessions/{session}/policies/evaluate\"\n"
	c, err := decode(path, "user", []byte("[policy_server]\n"+url+"headers = { \"X-Team\" = \"a b\", x = \"1\" }\ntoken_file = \"t\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := &PolicyServer{
		URL: "https://p.example/v1/sessions/{session}/policies/evaluate", Headers: map[string]string{"X-Team": "a b", "x": "1"},
		TokenFile: "/etc/guard/t", ConnectTimeout: 5 * time.Second, Budget: 30 * time.Second,
	}
	if d := cmp.Diff(want, c.PolicyServer); d != "" {
		t.Error(d)
	}
	if Default().PolicyServer != nil {
		t.Error("there is a policy server without its table")
	}
}

// What isn't https on this very host, or carries a credential where others read it,
// is refused with its line.
func TestPolicyServerRefused(t *testing.T) {
	at := func(url string) string { return "url = \"" + url + "\"\n" }
	good := at("https://p.example/")
	tests := []struct{ name, keys, want string }{
		{"nothing", "", "missing"},
		{"clear text", at("http://p.example/"), "neither https"},
		{"clear text to a name that something resolves", at("http://localhost/"), "neither https"},
		{"another scheme", at("ftp://127.0.0.1/"), "neither https"},
		{"no host", at("https:///x"), "no address"},
		{"a user", at("https://u:p@p.example/"), "no address"},
		{"a fragment", at("https://p.example/#x"), "no address"},
		{"blanks", at("https://p.example/a b"), "no address"},
		{"session in the host", at("https://{session}.example/"), "stands in the path"},
		{"session in the query", at("https://p.example/?s={session}"), "stands in the path"},
		{"another word", at("https://p.example/{id}"), "only word in braces"},
		{"both tokens", good + "token_file = \"a\"\ntoken_command = [\"/b\"]\n", "keep one"},
		{"headers as a list", good + "headers = [\"a\"]\n", "table in braces"},
		{"dotted header", good + "headers = { a.b = \"c\" }\n", "no name of a header"},
		{"two spellings", good + "headers = { a = \"c\", A = \"d\" }\n", "one header"},
		{"a cookie", good + "headers = { Cookie = \"c\" }\n", "credential"},
		{"guard's own", good + "headers = { Host = \"c\" }\n", "set by guard"},
		{"a line end", good + "headers = { a = \"c\\nd: e\" }\n", "plain ASCII"},
		{"a number", good + "headers = { a = 1 }\n", "want a string"},
		{"no program", good + "token_command = []\n", "empty"},
		{"a string", good + "token_command = \"/b\"\n", "want a list"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if c, err := decode(path, "user", []byte("[policy_server]\n"+tt.keys)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v, %v; want an error with %q", c, err, tt.want)
			}
		})
	}
	for _, s := range []string{"http://127.0.0.1:8080/x", "http://[::1]/x", "https://p.example:8443/a?b=c"} {
		if _, err := decode(path, "user", []byte("[policy_server]\n"+at(s))); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestPolicyToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	s := PolicyServer{TokenFile: file}
	for _, tt := range []struct {
		text string
		mode os.FileMode
		ok   bool
	}{{"tok-1\n", 0o600, true}, {"tok-1\n", 0o644, false}, {"", 0o600, false}, {"a\nb\n", 0o600, false}} {
		_ = os.Remove(file)
		if err := os.WriteFile(file, []byte(tt.text), tt.mode); err != nil {
			t.Fatal(err)
		}
		got, err := s.Token(uint32(os.Getuid()))
		if (err == nil) != tt.ok || tt.ok && got != "tok-1" {
			t.Errorf("%q with mode %o: %q, %v", tt.text, tt.mode, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "tok-1") {
			t.Errorf("the error holds the token: %v", err)
		}
	}
}
