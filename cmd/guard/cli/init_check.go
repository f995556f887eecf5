package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/zerto"
)

// flagOf names the flag that answers a key of guard.toml, as people typed it.
var flagOf = map[string]string{ // #nosec G101 -- names, no secrets
	"zvm.url": "--zvm-url", "zvm.ca_file": "--zvm-ca-file", "zvm.spki_sha256": "--zvm-spki-sha256", "zvm.client_id": "--zvm-client-id",
	"zvm.client_secret_file": "--zvm-client-secret-file", "zvm.username": "--zvm-username", "zvm.password_file": "--zvm-password-file",
	"checkpoint.self": "--self",
}

// check makes the text of guard.toml from the answers, and refuses what the
// broker wouldn't start with: faults of the answers, then of the files that
// they name.
func (in initFlags) check(p paths.Paths) (*config.Config, []byte, error) {
	if err := in.whole(); err != nil {
		return nil, nil, err
	}
	a, err := in.answers()
	if err != nil {
		return nil, nil, err
	}
	text := config.Template(a)
	cfg, err := config.Parse(p.Config, p.Mode, text)
	if err != nil {
		return nil, nil, &failure{ExitUsage, named(err)}
	}
	if a.ZVM == nil {
		return cfg, text, nil
	}
	var found faults
	if err := checkCA(a.ZVM.CAFile); a.ZVM.CAFile != "" && err != nil {
		found = append(found, fmt.Errorf("--zvm-ca-file: %w", err))
	}
	if _, err := a.ZVM.Secret(uid()); err != nil {
		flag := flagOf["zvm.client_secret_file"]
		if a.ZVM.PasswordFile != "" {
			flag = flagOf["zvm.password_file"]
		}
		found = append(found, fmt.Errorf("%s: %w", flag, err))
	}
	if len(found) > 0 {
		return nil, nil, &failure{ExitUsage, found}
	}
	return cfg, text, nil
}

// whole wants every flag that a ZVM needs, and none of another kind beside it.
func (in initFlags) whole() error {
	z := in.zvm
	client, user := z.ClientID != "" && z.ClientSecretFile != "", z.Username != "" && z.PasswordFile != ""
	half := !client && z.ClientID+z.ClientSecretFile != "" || !user && z.Username+z.PasswordFile != ""
	switch {
	case len(in.self) > 1 && slices.Contains(in.self, "none"):
		return usagef("--self none stands alone: it says that this host is no machine of Zerto's")
	case slices.Contains(in.self, ""):
		return usagef("--self is empty: give the name of a VM, or none")
	case z == (config.ZVM{}):
		return nil
	case z.URL == "":
		return usagef("--zvm-url is missing beside the other flags of the ZVM")
	case (z.CAFile == "") == (z.SPKISHA256 == ""):
		return usagef("give --zvm-ca-file or --zvm-spki-sha256, one of the two: by it the ZVM is told from another server")
	case half || client == user:
		return usagef("give --zvm-client-id with --zvm-client-secret-file, or --zvm-username with --zvm-password-file")
	case !z.AcceptSameUID && !in.system:
		return usagef("--accept-same-uid is missing: the agent has your uid and can read that secret; give the flag if you accept that")
	}
	return nil
}

// answers turns flags into what the template needs. Paths are made absolute:
// they were typed relative to here, and the file would take them relative to
// itself.
func (in initFlags) answers() (config.Answers, error) {
	a := config.Answers{AllowRootSessions: in.allowRoot, Self: in.self}
	if len(in.self) == 1 && in.self[0] == "none" {
		a.Self, a.SelfNone = nil, true
	}
	if in.zvm == (config.ZVM{}) {
		return a, nil
	}
	z := in.zvm
	for _, path := range []*string{&z.CAFile, &z.ClientSecretFile, &z.PasswordFile} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return a, fmt.Errorf("finding %q: %w", *path, err)
		}
		*path = abs
	}
	a.ZVM = &z
	return a, nil
}

// named names flags in place of the lines of a file that nobody has seen.
func named(err error) error {
	var found faults
	for _, e := range config.Faults(err) {
		flag := flagOf[e.Key]
		if flag == "" {
			flag = e.Key
		}
		found = append(found, errors.New(flag+": "+e.Problem))
	}
	if found == nil {
		return err
	}
	return found
}

// checkCA reads a certificate authority's file as the broker would.
func checkCA(path string) error {
	return zerto.CheckTrust(zerto.Config{CAFile: path, UID: uid()})
}
