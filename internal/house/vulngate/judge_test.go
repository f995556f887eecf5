package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const config = `{"config":{"go_version":"go1.26.8","db":"file:///x"}}`

func std(function string) string {
	return `{"finding":{"osv":"GO-1","fixed_version":"v1.26.9","trace":[{"module":"stdlib","version":"v1.26.8","package":"net/http","function":"` + function + `"}]}}`
}

func TestVulnGate(t *testing.T) {
	today := time.Date(2026, 12, 1, 23, 0, 0, 0, time.UTC)
	const dependency = `{"finding":{"osv":"GO-2","trace":[{"module":"example.org/m","version":"v1.0.0","package":"example.org/m/p"}]}}`
	cases := []struct {
		name  string
		allow string
		in    string
		want  int
		says  string
	}{
		{"nothing found", "", config, 0, "go1.26.8"},
		{"standard library, not listed", "", config + std("Serve"), 1, "GO-1 net/http.Serve"},
		{"standard library, listed", "GO-1 2026-12-31 later", config + std("Serve"), 0, "allowed until 2026-12-31"},
		{"listed until today", "GO-1 2026-12-01 later", config + std("Serve"), 0, "allowed"},
		{"listed until yesterday", "GO-1 2026-11-30 later", config + std("Serve"), 1, "ended on 2026-11-30"},
		{"expired entry without a finding", "GO-1 2026-11-30 later", config, 1, "ended on"},
		{"entry without a finding", "GO-1 2026-12-31 later", config, 0, "drop the entry"},
		{"standard library, not called", "", config + std(""), 0, ""},
		{"dependency", "", config + dependency, 1, "update the module"},
		{"dependency can't be listed", "GO-2 2026-12-31 no", config + dependency, 1, "update the module"},
		{"finding without a trace", "GO-3 2026-12-31 no", config + `{"finding":{"osv":"GO-3"}}`, 1, "GO-3"},
		{"no output at all", "", "", 3, "did not run to its end"},
		{"cut output", "", config + `{"finding":{"osv":"GO-1"`, 3, "reading govulncheck"},
		{"allow-list without a reason", "GO-1 2026-12-31", config, 3, "want id, day and reason"},
		{"allow-list without a day", "GO-1 soon later", config, 3, "is not of the form"},
		{"allow-list with an id twice", "GO-1 2026-12-31 a\nGO-1 2027-12-31 b", config, 3, "listed twice"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "allow.txt")
			if err := os.WriteFile(file, []byte("# comment\n\n"+c.allow+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			got := run([]string{"-allow", file}, strings.NewReader(c.in), &out, &out, today)
			if got != c.want || !strings.Contains(out.String(), c.says) {
				t.Errorf("exit %d, want %d with %q:\n%s", got, c.want, c.says, out.String())
			}
		})
	}
}

func TestVulnGateUsage(t *testing.T) {
	var out bytes.Buffer
	for _, args := range [][]string{nil, {"-allow"}, {"-allow", "x", "y"}, {"-what"}} {
		if got := run(args, strings.NewReader(config), &out, &out, time.Time{}); got != 2 {
			t.Errorf("%q: exit %d, want 2", args, got)
		}
	}
	if got := run([]string{"-allow", filepath.Join(t.TempDir(), "absent")}, strings.NewReader(config), &out, &out, time.Time{}); got != 3 {
		t.Errorf("absent list: exit %d, want 3", got)
	}
}
