package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/safepath"
)

const goodZVM = "[zvm]\nurl = \"https://z\"\nca_file = \"/ca\"\nclient_id = \"c\"\nclient_secret_file = \"/s\"\naccept_same_uid = true\n"

func TestZVMNeedsWholePairs(t *testing.T) {
	tests := []struct {
		name, drop, add string
		line            int
		key             string
		want            string
	}{
		{"no url", "url", "", 1, "zvm.url", "missing"},
		{"no trust", "ca_file", "", 1, "zvm.ca_file", "missing"},
		{"both trusts", "", `spki_sha256 = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="`, 7, "zvm.spki_sha256", "line 3"},
		{"no client", "client_id", "", 4, "zvm.client_id", "client_secret_file"},
		{"no secret", "client_secret_file", "", 4, "zvm.client_secret_file", "client_id"},
		{"a user too", "", `username = "u"`, 1, "zvm", "keep"},
		{"half of each", "client_id", `username = "u"`, 1, "zvm", "keep"},
		{"a credential beside the file", "", `credential = "zvm"`, 7, "zvm.credential", "keep one"},
		{"a credential for nobody", "client_", `credential = "zvm"`, 1, "zvm.client_id", "credential"},
		{"a credential for both", "client_secret_file", "credential = \"zvm\"\nusername = \"u\"", 1, "zvm", "keep"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var text strings.Builder
			for line := range strings.Lines(goodZVM) {
				if tt.drop == "" || !strings.HasPrefix(line, tt.drop) {
					text.WriteString(line)
				}
			}
			text.WriteString(tt.add)
			_, err := decode(path, paths.User, []byte(text.String()))
			wantFault(t, err, tt.line, tt.key, tt.want)
		})
	}
	_, err := decode(path, paths.User, []byte("[zvm]\nurl = \"https://z\"\nca_file = \"/ca\"\naccept_same_uid = true\n"))
	wantFault(t, err, 1, "zvm.client_id", "username with password_file")
	_, err = decode(path, paths.User, []byte("[zvm]\nurl = \"https://z\"\nca_file = \"/ca\"\naccept_same_uid = true\npassword_file = \"/p\"\n"))
	wantFault(t, err, 5, "zvm.username", "password_file")
	_, err = decode(path, paths.User, []byte("[zvm]\nurl = \"https://z\"\nca_file = \"/ca\"\naccept_same_uid = true\nusername = \"u\"\n"))
	wantFault(t, err, 5, "zvm.password_file", "username")
}

func TestZVMInUserModeNeedsConsent(t *testing.T) {
	const remedy = "write in [zvm]: accept_same_uid = true"
	without := strings.Replace(goodZVM, "accept_same_uid = true\n", "", 1)
	_, err := decode(path, paths.User, []byte(without))
	wantFault(t, err, 1, "zvm.accept_same_uid", remedy)
	_, err = decode(path, paths.User, []byte(without+"accept_same_uid = false\n"))
	wantFault(t, err, 6, "zvm.accept_same_uid", remedy)
	_, err = decode(path, "", []byte(without)) // no mode is no system mode
	wantFault(t, err, 1, "zvm.accept_same_uid", remedy)
	for mode, text := range map[string]string{paths.User: goodZVM, paths.System: without} {
		if c, err := decode(path, mode, []byte(text)); err != nil || c.ZVM == nil {
			t.Errorf("%s mode: %v", mode, err)
		}
	}
}

func TestZVMURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://zvm.example":      "https://zvm.example",
		"https://zvm.example:443/": "https://zvm.example:443",
		"https://[::1]:9669":       "https://[::1]:9669",
		"HTTPS://zvm.example":      "https://zvm.example",
		"http://zvm.example":       "",
		"zvm.example":              "",
		"https://":                 "",
		"https://:443":             "",
		"https://zvm:":             "",
		"https://zvm:0":            "",
		"https://zvm:65536":        "",
		"https://u:p@zvm":          "",
		"https://zvm/v1":           "",
		"https://zvm?x":            "",
		"https://zvm/#x":           "",
		"https://zvm\n":            "",
		"unix:///zvm":              "",
	} {
		text := strings.Replace(goodZVM, `"https://z"`, Quote(in), 1)
		c, err := decode(path, paths.User, []byte(text))
		if want == "" {
			wantFault(t, err, 2, "zvm.url", "no address")
		} else if err != nil || c.ZVM.URL != want {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestSecret(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "secret")
	write := func(text string, mode fs.FileMode) {
		t.Helper()
		_ = os.Remove(file)
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
	}
	for _, z := range []ZVM{{ClientSecretFile: file}, {PasswordFile: file}} {
		for in, want := range map[string]string{
			"s3cret\n": "s3cret", "s3cret": "s3cret", "s3cret\r\n": "s3cret", " with blanks ": " with blanks ", "pässwort\n": "pässwort",
		} {
			write(in, 0o600)
			if got, err := z.Secret(uid()); err != nil || got != want {
				t.Errorf("%q: %q, %v", in, got, err)
			}
		}
		for _, in := range []string{"", "\n", "s3cret\n\n", "s3cret\nmore\n", "\ts3cret", "s3cret\x00", strings.Repeat("s3cret", 1000)} {
			write(in, 0o600)
			got, err := z.Secret(uid())
			if err == nil || got != "" || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "_file") {
				t.Errorf("%.20q: %q, %v", in, got, err)
			}
		}
		write("s3cret", 0o640)
		if got, err := z.Secret(uid()); got != "" || !errors.Is(err, safepath.ErrUnsafe) || !strings.Contains(err.Error(), "chmod 0600") {
			t.Errorf("mode 0640: %q, %v", got, err)
		}
	}
	if got, err := (ZVM{}).Secret(uid()); got != "" || err == nil {
		t.Errorf("no file: %q, %v", got, err)
	}
}

func TestCredentialIsAPlace(t *testing.T) {
	for who, file := range map[string]string{"client_id": "client_secret_file", "username": "password_file"} {
		text := strings.NewReplacer("client_id", who, `client_secret_file = "/s"`, `credential = "zvm"`).Replace(goodZVM)
		c, err := decode(path, paths.System, []byte(text))
		if err != nil || c.ZVM.Credential != "zvm" {
			t.Errorf("%s without %s: %v", who, file, err)
		}
	}
	for _, name := range []string{"", ".", "..", "a/b", "/etc/shadow", "a b", "a\nb", "\x00", "ü", strings.Repeat("x", 256)} {
		text := strings.Replace(goodZVM, `client_secret_file = "/s"`, "credential = "+Quote(name), 1)
		if c, err := decode(path, paths.System, []byte(text)); err == nil {
			t.Errorf("took credential %q: %+v", name, c.ZVM)
		}
	}
}

// A credential is what the service manager says is ours: in its directory, from
// root or ourselves, for nobody else.
func TestCredential(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o550); err != nil { // as systemd makes it
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	z := ZVM{Credential: "zvm"}
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	if got, err := z.Secret(uid()); got != "" || err == nil || !strings.Contains(err.Error(), "LoadCredential=zvm:FILE") {
		t.Errorf("without a directory: %q, %v", got, err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	if got, err := z.Secret(uid()); got != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the credential: %q, %v", got, err)
	}
	put := func(text string, mode fs.FileMode) {
		t.Helper()
		file := filepath.Join(dir, "zvm")
		if err := errors.Join(os.Chmod(dir, 0o700), os.RemoveAll(file), os.WriteFile(file, []byte(text), 0o600), os.Chmod(file, mode), os.Chmod(dir, 0o550)); err != nil {
			t.Fatal(err)
		}
	}
	for mode, good := range map[fs.FileMode]bool{0o400: true, 0o600: true, 0o440: true, 0o444: false, 0o460: false, 0o604: false} {
		put("s3cret\n", mode)
		got, err := z.Secret(uid())
		if good && (err != nil || got != "s3cret") || !good && (got != "" || !errors.Is(err, safepath.ErrUnsafe)) {
			t.Errorf("mode %o: %q, %v", mode, got, err)
		}
	}
	for _, text := range []string{"\n", "", "a\nb\n", strings.Repeat("s3cret", 1000)} {
		put(text, 0o400)
		if got, err := z.Secret(uid()); got != "" || err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%.10q: %q, %v", text, got, err)
		}
	}
	if err := errors.Join(os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	if got, err := z.Secret(uid()); got != "" || !errors.Is(err, safepath.ErrUnsafe) {
		t.Errorf("in a directory that others may write: %q, %v", got, err)
	}
}
