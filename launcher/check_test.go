package launcher

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
	host "leaseguard.internal/launcher/runtime"
)

// TestRootStartsNoForeignClient: root asks no program for its version that
// somebody else may have changed.
func TestRootStartsNoForeignClient(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it is about root; CI runs this as root")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "claude")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n: >\"$0.ran\"\necho '2.1.332 (Claude Code)'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := &claude{name: "claude", client: &host.Client{Path: path}}
	if v, err := c.version(t.Context()); err != nil || v.text != "2.1.332" {
		t.Fatalf("root's own: %+v, %v", v, err)
	}
	if err := os.Remove(path + ".ran"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if v, err := c.version(t.Context()); v.text != "" || err == nil || !strings.Contains(err.Error(), "wiring_unproved") {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := os.Stat(path + ".ran"); err == nil {
		t.Error("it ran")
	}
}

// TestCheckAbsent: a runtime that isn't there is told from one that can't be
// launched.
func TestCheckAbsent(t *testing.T) {
	dir := t.TempDir()
	p := paths.Paths{Mode: paths.User, Config: filepath.Join(dir, "guard.toml"), BrokerUID: uint32(os.Getuid())}
	check := func(name string) Checked {
		return Check(t.Context(), name, AgentLaunch{Launch: Launch{Paths: p, Env: []string{"HOME=" + dir, "PATH=relative:" + dir}}})
	}
	for _, name := range append(Runtimes(), "nothing") {
		if c := check(name); !c.Absent || c.Path != "" || c.Digest != "" {
			t.Errorf("%s where there is none: %+v", name, c)
		}
	}
	for _, name := range []string{"claude", "pi"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if c := check(name); c.Absent || c.Err == nil || c.Path != "" {
			t.Errorf("a script in the place of %s: %+v", name, c)
		}
	}
	if !slices.Contains(Runtimes(), "claude") {
		t.Errorf("runtimes %q", Runtimes())
	}
}

// TestCheckWritesNothing: the directory of claudex isn't made, nor is the gate
// put into a settings file that is there.
func TestCheckWritesNothing(t *testing.T) {
	dir := t.TempDir()
	l := AgentLaunch{look: true, Launch: Launch{
		Paths: paths.Paths{Mode: paths.User, Config: filepath.Join(dir, "guard.toml"), BrokerUID: uint32(os.Getuid())},
		Env:   []string{"HOME=" + dir, "PATH=" + dir}, Warn: func(string) {},
	}}
	place := filepath.Join(dir, claudexDir)
	isolate := func() error {
		c := &claude{common: common{AgentLaunch: l}, name: "claudex"}
		return c.isolate()
	}
	if err := isolate(); !errors.Is(err, errUnused) {
		t.Errorf("without a directory: %v", err)
	}
	if _, err := os.Stat(place); err == nil {
		t.Fatal("it was made")
	}
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(place, "settings.json")
	if err := os.WriteFile(settings, []byte(`{"model":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, noted := &claude{common: common{AgentLaunch: l}, name: "claudex"}, 0
	c.Warn = func(string) { noted++ }
	c.user.SettingsFile, c.config = settings, config.Default()
	if err := c.settle(); err != nil || noted != 1 || !strings.Contains(string(c.user.Settings), "PreToolUse") {
		t.Errorf("%v, %d notes, settings %s", err, noted, c.user.Settings)
	}
	if now, err := os.ReadFile(settings); err != nil || string(now) != `{"model":"x"}` {
		t.Errorf("the file is %s, %v", now, err)
	}
}
