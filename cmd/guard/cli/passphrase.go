package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/passphrase"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// askPassphrase asks for the passphrase that is set.
func (c Command) askPassphrase(ctx context.Context) (wire.Secret, error) {
	secret, err := askSecret(ctx, "passphrase of guard's operator: ")
	switch {
	case errors.Is(err, errNoTerminal):
		return "", needed(err.Error(), "run the command on a terminal: it is taken from nowhere else")
	case err == nil && secret == "":
		return "", needed("none was typed", "run the command again")
	}
	return secret, err
}

func needed(cause, next string) error {
	return &wire.Error{
		Code:    string(verdict.PassphraseNeeded),
		Message: verdict.Reason(verdict.PassphraseNeeded, "proving", "the operator", cause, next),
	}
}

// passphraseFlags are flags of guard init that stand alone.
func passphraseFlags(f *pflag.FlagSet, in *initFlags) {
	f.BoolVar(&in.passphrase, "passphrase", false, "set or change the passphrase that approvals need, and nothing else")
	f.BoolVar(&in.noPassphrase, "no-passphrase", false, "remove the passphrase, and nothing else")
}

func (c Command) initPassphrase(cmd *cobra.Command, in initFlags) error {
	if cmd.Flags().NFlag() > 1 {
		return usagef("--passphrase and --no-passphrase each stand alone; write guard.toml first")
	}
	p, err := c.operable(cmd.Context(), false)
	if err != nil {
		return err
	}
	return c.changePassphrase(cmd.Context(), p, in.noPassphrase)
}

// changePassphrase sets, changes or removes the passphrase. The broker keeps it;
// the one that is set comes first.
func (c Command) changePassphrase(ctx context.Context, p paths.Paths, remove bool) error {
	if p.Mode == paths.System && !remove {
		return errors.New("this machine is in system mode: operators are told by their uid, and need no passphrase")
	}
	o, err := c.operator(ctx)
	if err != nil {
		return err
	}
	st, err := o.status()
	if err != nil {
		return err
	}
	ctl := wire.Control{Verb: wire.VerbPassphrase}
	isSet := st.Broker.Assurance.Operator == "passphrase"
	if isSet {
		if ctl.Passphrase, err = c.askPassphrase(ctx); err != nil {
			return err
		}
	}
	if !remove {
		if ctl.NewPassphrase, err = c.newPassphrase(ctx); err != nil {
			return err
		}
	}
	if _, err := o.Do(ctx, ctl, nil); err != nil {
		return err
	}
	switch {
	case !remove:
		fmt.Fprintln(c.Stdout, "passphrase set: approvals ask for it from now on; revoking and stopping don't")
	case isSet:
		fmt.Fprintln(c.Stdout, "passphrase removed: status calls operators cooperative again")
	default:
		fmt.Fprintln(c.Stdout, "no passphrase is set")
	}
	return nil
}

// tries is how often a new passphrase may be typed badly.
const tries = 3

// newPassphrase asks for a new one twice.
func (c Command) newPassphrase(ctx context.Context) (wire.Secret, error) {
	for range tries {
		secret, err := askSecret(ctx, fmt.Sprintf("new passphrase (at least %d characters): ", passphrase.MinRunes))
		if errors.Is(err, errNoTerminal) {
			return "", needed(err.Error(), "run the command on a terminal: it is taken from nowhere else")
		}
		if err != nil {
			return "", err
		}
		if err := passphrase.Acceptable(string(secret)); err != nil {
			fmt.Fprintf(c.Stderr, "guard: %v\n", err)
			continue
		}
		again, err := askSecret(ctx, "the same again: ")
		if err != nil {
			return "", err
		}
		if again == secret {
			return secret, nil
		}
		fmt.Fprintln(c.Stderr, "guard: the two are not the same")
	}
	return "", errors.New("no passphrase was chosen; nothing was changed")
}

// mayRead refuses to show records to a process of a session. Outside of one it is
// the files' own mode that decides: in system mode the audit has readers who are
// no operators.
func (c Command) mayRead(ctx context.Context, p paths.Paths) error {
	if p.Mode != paths.System {
		return c.mayOperate(ctx, p)
	}
	up, err := client.Running(ctx, p)
	if err != nil || !up {
		return errors.Join(err, c.outsideByEnv())
	}
	_, err = client.Inside(p).Do(ctx, wire.Control{Verb: wire.VerbStatus}, nil)
	switch {
	case err == nil:
		return &wire.Error{Code: string(verdict.NotOperator), Message: verdict.Reason(verdict.NotOperator,
			"reading", "the audit", "this is inside a session", "run it from a terminal outside any session")}
	case client.Refused(err, verdict.NotRegistered):
		return nil
	}
	return err
}
