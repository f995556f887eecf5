package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/verdict"
)

// maxSecret is the most bytes of a secret's file.
const maxSecret = 4096

// ZVM is [zvm]: the Zerto Virtual Manager that takes checkpoints. Paths are
// absolute. Exactly one of CAFile and SPKISHA256 is set, exactly one of ClientID
// and Username, and one place of its secret: ClientSecretFile or PasswordFile, by
// which of the two it is, or Credential.
type ZVM struct {
	URL              string // https://HOST or https://HOST:PORT
	CAFile           string
	SPKISHA256       string // base64
	ClientID         string
	ClientSecretFile string
	Credential       string // of systemd
	Username         string
	PasswordFile     string
	AcceptSameUID    bool
}

// Secret reads the client's secret or the user's password, whichever is
// configured. The broker reads it at its start and at each reload. An error never
// holds any of it.
func (z ZVM) Secret(uid uint32) (string, error) {
	if z.Credential != "" {
		return z.credential(uid)
	}
	key, path := "zvm.client_secret_file", z.ClientSecretFile
	if path == "" {
		key, path = "zvm.password_file", z.PasswordFile
	}
	if path == "" {
		return "", errors.New("reading the ZVM's secret: neither zvm.client_secret_file nor zvm.password_file nor zvm.credential is set; add one to guard.toml")
	}
	b, err := safepath.ReadSecret(path, uid, maxSecret)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w; the file holds the secret alone, mode 0600", key, err)
	}
	return oneLine(b, key, path)
}

// credential reads the secret from where systemd has put it for this service: no
// file of it is readable for the broker's user otherwise.
func (z ZVM) credential(uid uint32) (string, error) {
	const key = "zvm.credential"
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("reading %s %q: systemd gave this process no credentials; start it by its unit, with LoadCredential=%s:FILE", key, z.Credential, z.Credential)
	}
	path := filepath.Join(dir, z.Credential)
	b, err := safepath.ReadCredential(path, uid, maxSecret)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w; the unit needs LoadCredential=%s:FILE", key, err, z.Credential)
	}
	return oneLine(b, key, path)
}

// oneLine takes a secret out of its file.
func oneLine(b []byte, key, path string) (string, error) {
	secret := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if secret == "" || verdict.Clean(secret) != secret {
		return "", fmt.Errorf("reading %s %q: want one line of text, found none, several or control characters; write the secret alone into it", key, path)
	}
	return secret, nil
}

// checkZVM asks what concerns several keys of [zvm].
func (d *document) checkZVM(z *ZVM, mode string) {
	if z == nil {
		return
	}
	t := d.table("zvm")
	if z.URL == "" {
		d.fault(t.line, "zvm.url", `missing; add to [zvm]: url = "https://HOST"`)
	}
	switch {
	case z.CAFile == "" && z.SPKISHA256 == "":
		d.fault(t.line, "zvm.ca_file", "missing, so the ZVM couldn't be told from another server; add to [zvm]: ca_file or spki_sha256")
	case z.CAFile != "" && z.SPKISHA256 != "":
		d.fault(t.lineOf("spki_sha256"), "zvm.spki_sha256", "ca_file is at line %d too; keep one of them", t.lineOf("ca_file"))
	}
	d.checkCredential(z, t)
	if mode != paths.System && !z.AcceptSameUID {
		d.fault(t.lineOf("accept_same_uid"), "zvm.accept_same_uid",
			"refused in user mode: the agent has your uid and can read this secret; if you accept that, write in [zvm]: accept_same_uid = true")
	}
}

// checkCredential wants one whole pair, and nothing of the other.
func (d *document) checkCredential(z *ZVM, t *table) {
	const one = "client_id with client_secret_file, or username with password_file, or one of both with credential"
	client := z.ClientID != "" || z.ClientSecretFile != ""
	user := z.Username != "" || z.PasswordFile != ""
	missing := func(key, other string) {
		d.fault(t.lineOf(other), "zvm."+key, "missing beside %s; add it to [zvm]", other)
	}
	switch {
	case client && user:
		d.fault(t.line, "zvm", "keys of a client and of a user; keep %s", one)
	case z.Credential != "" && (z.ClientSecretFile != "" || z.PasswordFile != ""):
		d.fault(t.lineOf("credential"), "zvm.credential", "a file is given too; keep one of them")
	case !client && !user:
		d.fault(t.line, "zvm.client_id", "missing; add to [zvm]: %s", one)
	case client && z.ClientID == "":
		missing("client_id", "client_secret_file")
	case z.Credential != "":
	case client && z.ClientSecretFile == "":
		missing("client_secret_file", "client_id")
	case user && z.Username == "":
		missing("username", "password_file")
	case user && z.PasswordFile == "":
		missing("password_file", "username")
	}
}

// table returns the first table of a name; an empty one when there is none.
func (d *document) table(name string) *table {
	for _, t := range d.tables {
		if t.name == name {
			return t
		}
	}
	return &table{name: name}
}
