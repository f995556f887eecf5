package runtime

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRemoteSettingsRefuse(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		ok   bool
	}{
		"empty object": {"{}\n", true},
		"hooks off":    {`{"disableAllHooks":true}`, false},
		"anything":     {`{"model":"x"}`, false},
		"no JSON":      {"", false},
		"much of it":   {"{}" + strings.Repeat(" ", 100) + "x", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			u := User{SettingsFile: filepath.Join(dir, "settings.json")}
			if err := u.CheckRemote(); err != nil {
				t.Fatalf("without the file: %v", err)
			}
			if err := os.WriteFile(filepath.Join(dir, remoteSettings), []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := u.CheckRemote(); (err == nil) != tt.ok {
				t.Errorf("%q: %v", tt.text, err)
			}
		})
	}
	dir := t.TempDir()
	if err := os.Symlink("/dev/null", filepath.Join(dir, remoteSettings)); err != nil {
		t.Fatal(err)
	}
	if err := (User{SettingsFile: filepath.Join(dir, "settings.json")}).CheckRemote(); err == nil {
		t.Error("a link to nothing that can be read was taken for no settings")
	}
}
