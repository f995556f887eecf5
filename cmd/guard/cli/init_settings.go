package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/verdict"
)

// Files of the administrator's in system mode.
const (
	systemConfig = "/etc/guard/guard.toml"
	systemSecret = "/etc/guard/zvm.secret" // #nosec G101 -- a name, no secret
	systemCA     = "/etc/guard/zvm-ca.pem"
	credential   = "zvm" // as guard-broker.service names the secret
)

// settingSteps write guard.toml and copies of the files that it needs. Nothing
// is asked, and nothing written, when one is there and no answer is given.
func (c Command) settingSteps(in initFlags, answered bool) ([]step, error) {
	_, err := os.Lstat(systemConfig)
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for %q: %w", systemConfig, err)
	}
	if there && !answered {
		return nil, nil
	}
	if !answered && isTerminal(c.Stdin) {
		if err := c.ask(&in); err != nil {
			return nil, err
		}
	}
	steps, text, err := c.checkSystem(in)
	if err != nil {
		return nil, err
	}
	if there && !in.force {
		old, err := os.ReadFile(systemConfig)
		if err != nil || string(old) != string(text) {
			return nil, errors.Join(err, exists(systemConfig, "guard init --system --force"))
		}
		return steps, nil
	}
	write := c.fileStep(systemConfig, 0o644, text)
	if there {
		place := write.do
		write.done = func() (bool, error) { return false, nil }
		write.do = func() error { return errors.Join(c.keepOld(systemConfig), place()) }
	}
	return append(steps, write), nil
}

// checkSystem makes guard.toml's text, and the steps that put copies of secret
// and certificate where the broker's unit and user find them.
func (c Command) checkSystem(in initFlags) (steps []step, text []byte, err error) {
	if err := in.whole(); err != nil {
		return nil, nil, err
	}
	a, err := in.answers()
	if err != nil {
		return nil, nil, err
	}
	var found faults
	if z := a.ZVM; z != nil {
		if z.CAFile != "" {
			step, err := c.caStep(z.CAFile)
			found, steps = note(found, err), append(steps, step)
			z.CAFile = systemCA
		}
		step, err := c.secretStep(*z)
		found, steps = note(found, err), append(steps, step)
		z.ClientSecretFile, z.PasswordFile, z.Credential = "", "", credential
	}
	text = config.Template(a)
	cfg, err := config.Parse(systemConfig, paths.System, text)
	if err != nil {
		found = append(found, named(err))
	}
	if len(found) > 0 {
		return nil, nil, &failure{ExitUsage, found}
	}
	c.lacks(cfg)
	return steps, text, nil
}

func note(found faults, err error) faults {
	if err != nil {
		return append(found, err)
	}
	return found
}

func (c Command) caStep(path string) (step, error) {
	if err := checkCA(path); err != nil {
		return step{}, fmt.Errorf("--zvm-ca-file: %w", err)
	}
	pem, err := safepath.ReadFile(path, uid(), 1<<20)
	if err != nil {
		return step{}, fmt.Errorf("--zvm-ca-file: %w", err)
	}
	return c.fileStep(systemCA, 0o644, pem), nil
}

// secretStep copies the secret to where systemd takes it from. Root alone reads
// it there; the broker gets it as a credential.
func (c Command) secretStep(z config.ZVM) (step, error) {
	flag := flagOf["zvm.client_secret_file"]
	if z.PasswordFile != "" {
		flag = flagOf["zvm.password_file"]
	}
	secret, err := z.Secret(uid())
	if err != nil {
		return step{}, fmt.Errorf("%s: %w", flag, err)
	}
	s := c.fileStep(systemSecret, 0o600, []byte(secret+"\n"))
	s.what = fmt.Sprintf("file %s, mode 0600: the ZVM's secret", verdict.Object(systemSecret))
	return s, nil
}
