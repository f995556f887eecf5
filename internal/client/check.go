package client

import (
	"errors"
	"fmt"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
	"leaseguard.internal/internal/zerto"
)

// ConfigError is a configuration that the broker would not start with. Its text
// has one line for each fault. It is also the refusal config_invalid.
type ConfigError struct{ Err error }

// Error returns the faults, one a line.
func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap returns the faults as they were found.
func (e *ConfigError) Unwrap() error { return e.Err }

// As makes it a refusal for who asks for one.
func (e *ConfigError) As(target any) bool {
	refusal, ok := target.(**wire.Error)
	if ok {
		*refusal = &wire.Error{Code: string(verdict.ConfigInvalid), Message: e.Error()}
	}
	return ok
}

// CheckConfig reads guard.toml and the files that it names as the broker would:
// one that starts in the background could only write its complaint to a log.
func CheckConfig(p paths.Paths) error {
	cfg, err := config.Load(p.Config, p.Mode, p.BrokerUID)
	if err == nil && cfg.ZVM != nil {
		z := zerto.Config{CAFile: cfg.ZVM.CAFile, SPKISHA256: cfg.ZVM.SPKISHA256, UID: p.BrokerUID}
		_, secret := cfg.ZVM.Secret(z.UID)
		err = errors.Join(zerto.CheckTrust(z), secret)
	}
	if cfg != nil && cfg.PolicyServer != nil && cfg.PolicyServer.TokenFile != "" {
		_, token := cfg.PolicyServer.Token(p.BrokerUID)
		err = errors.Join(err, token)
	}
	if err != nil {
		return &ConfigError{err}
	}
	return nil
}

// unstarted says why nobody answers in system mode, where the service manager
// holds the sockets and the broker's last words are in its journal: whoever asks
// can read guard.toml, though not what it names.
func unstarted(p paths.Paths, err error) error {
	if p.Mode != paths.System {
		return err
	}
	if _, fault := config.Load(p.Config, p.Mode, p.BrokerUID); fault != nil {
		return &ConfigError{fmt.Errorf("no broker runs in system mode, since it can't start with this:\n%w\ncorrect it, then: %s", fault, paths.StartService())}
	}
	return fmt.Errorf("%w; %s", err, paths.StartService())
}
