package packaging

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
)

var update = flag.Bool("update", false, "write guard.toml.example anew")

func TestExampleIsWhatInitWrites(t *testing.T) {
	want := config.Template(config.Answers{})
	if *update {
		if err := os.WriteFile("guard.toml.example", want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("guard.toml.example")
	if d := cmp.Diff(string(want), string(got)); err != nil || d != "" {
		t.Errorf("guard.toml.example isn't the template; run the test with -update: %v\n%s", err, d)
	}
}

func TestUnitsNameTheirPrograms(t *testing.T) {
	for _, name := range Units() {
		if !bytes.Equal(Unit(name, "/usr/bin"), read("systemd", name)) {
			t.Errorf("%s changes where the programs are in the packages' place", name)
		}
	}
	moved := string(Unit(BrokerService, "/usr/local/bin/"))
	if !strings.Contains(moved, "\nExecStart=/usr/local/bin/guard-broker\n") || strings.Contains(moved, packagedPrograms) {
		t.Errorf("moved to /usr/local/bin:\n%s", moved)
	}
}

func TestDirectories(t *testing.T) {
	want := []Directory{
		{"/etc/guard", 0o755, "root", "root"},
		{"/run/guard", 0o755, "root", "root"},
		{"/var/lib/guard", 0o755, "guard", "guard"},
		{"/var/lib/guard/audit", 0o2750, "guard", "guard-audit"},
	}
	if d := cmp.Diff(want, ParseDirectories()); d != "" {
		t.Error(d)
	}
}

// The accounts stand in three places: sysusers.d, the packages' own script for
// machines without it, and the programs that look them up.
func TestAccountsAreTheSameEverywhere(t *testing.T) {
	script, err := os.ReadFile("scripts/preinstall")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^([ug]) (\S+) -`)
	var users, groups []string
	for _, m := range line.FindAllStringSubmatch(string(Accounts()), -1) {
		if m[1] == "u" {
			users = append(users, m[2])
		} else {
			groups = append(groups, m[2])
		}
	}
	if d := cmp.Diff([]string{paths.SystemUser}, users); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{paths.GateGroup, paths.OperatorGroup, paths.AuditGroup}, groups); d != "" {
		t.Error(d)
	}
	if want := "for group in " + strings.Join(groups, " ") + "; do"; !strings.Contains(string(script), want) {
		t.Errorf("scripts/preinstall lacks %q", want)
	}
}

// A file in one of these places would take effect by being installed: guard.toml
// switches system mode on, and the polkit rule is worth root.
// What messages, units and guard.toml name has to be on a machine that has the
// package alone.
func TestPackagesHaveTheManuals(t *testing.T) {
	list, err := os.ReadFile("nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cli", "configuration", "hosts", "install", "operations", "policy", "protocol"} {
		if line := "{ src: docs/" + name + ".md, dst: /usr/share/doc/leaseguard/" + name + ".md, "; !strings.Contains(string(list), line) {
			t.Errorf("nfpm.yaml lacks docs/%s.md", name)
		}
	}
}

// TestPackagesHaveManPagesAndCompletions: each page that is there has a folder, and
// each shell its file.
func TestPackagesHaveManPagesAndCompletions(t *testing.T) {
	list, err := os.ReadFile("nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := os.ReadDir("man")
	if err != nil || len(pages) == 0 {
		t.Fatalf("found %d pages: %v", len(pages), err)
	}
	want := map[string]bool{
		"src: bin/completion/bash, dst: /usr/share/bash-completion/completions/guard,":           true,
		"src: bin/completion/fish, dst: /usr/share/fish/vendor_completions.d/guard.fish,":        true,
		"src: bin/completion/zsh, dst: /usr/share/zsh/vendor-completions/_guard, packager: deb,": true,
		"src: bin/completion/zsh, dst: /usr/share/zsh/site-functions/_guard, packager: rpm,":     true,
	}
	for _, page := range pages {
		section := page.Name()[strings.LastIndexByte(page.Name(), '.')+1:]
		want["src: packaging/man/*."+section+", dst: /usr/share/man/man"+section+"/,"] = true
	}
	for line := range want {
		if !strings.Contains(string(list), line) {
			t.Errorf("nfpm.yaml lacks %q", line)
		}
	}
}

func TestPackagesHaveNoSwitch(t *testing.T) {
	list, err := os.ReadFile("nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	targets := regexp.MustCompile(`dst: ([^,}]+)`).FindAllStringSubmatch(string(list), -1)
	if len(targets) < 10 {
		t.Fatalf("found only %d targets in nfpm.yaml", len(targets))
	}
	for _, m := range targets {
		target := strings.TrimSpace(m[1])
		if strings.HasSuffix(target, "guard.toml") || strings.Contains(target, "polkit") ||
			strings.HasSuffix(target, ".rules") && !strings.HasPrefix(target, "/usr/share/doc/") {
			t.Errorf("the packages install %q", target)
		}
	}
}
