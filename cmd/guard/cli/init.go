package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
)

// initFlags are the answers of guard init as flags.
type initFlags struct {
	zvm              config.ZVM
	self             []string
	allowRoot, force bool
	system, dry      bool

	passphrase, noPassphrase bool // nothing but these
	offered                  bool // a person wants a passphrase too
}

func (c Command) init() *cobra.Command {
	var in initFlags
	cmd := &cobra.Command{
		Use:     "init",
		Short:   "write a commented guard.toml",
		Long:    initLong,
		Example: initExample,
		Args:    noArgs,
		RunE:    run(func(cmd *cobra.Command, _ []string) error { return c.setUp(cmd, in) }),
	}
	in.addTo(cmd.Flags())
	return cmd
}

const initLong = `Init writes guard.toml for this user, with every key at its default and what you
answer. On a terminal and without flags it asks; elsewhere only flags count. It
checks the answers and the files that they name as the broker would, before
anything is written. One that is there is replaced only with --force, and kept
as guard.toml.old.

Without a ZVM no checkpoint can be taken, and changes that need one are denied.

With --passphrase it sets or changes the passphrase that whatever raises
authority then asks for, on the terminal: without one, any process of yours
outside of sessions counts as an operator. --no-passphrase removes it. Both ask
for the one that is set.

With --system, as root, it puts the machine into system mode: one broker of its
own user for everybody. It makes the user and groups, directories and units that
a package has not made, copies the ZVM's secret to where only root reads it, has
systemd listen, and puts the gate's hooks among the administrator's settings of
Claude Code. What is there already stays, so it can be run again.`

const initExample = `  guard init
  guard init --zvm-url https://zvm.example --zvm-ca-file ca.pem \
    --zvm-client-id guard --zvm-client-secret-file zvm.secret \
    --accept-same-uid --self app-01
  guard init --self none --force
  guard init --passphrase
  guard init --system --dry-run --self app-01
  guard init --system --self app-01`

func (c Command) setUp(cmd *cobra.Command, in initFlags) error {
	given := answers(cmd.Flags())
	if in.passphrase || in.noPassphrase {
		return c.initPassphrase(cmd, in)
	}
	if in.system {
		return c.initSystem(cmd.Context(), in, given)
	}
	if in.dry {
		return usagef("--dry-run goes with --system")
	}
	p, err := c.operable(cmd.Context(), false)
	if err != nil {
		return err
	}
	if p.Mode == paths.System {
		return fmt.Errorf("this machine is in system mode: its configuration is %q, and root writes it: guard init --system", p.Config)
	}
	if _, err := os.Lstat(p.Config); err == nil && !in.force {
		return exists(p.Config, "guard init --force")
	}
	switch {
	case !given && isTerminal(c.Stdin):
		if err := c.ask(&in); err != nil {
			return err
		}
	case !given && in.force:
		return usagef("--force alone would replace guard.toml by the defaults; give its answers too, such as --self none")
	}
	if err := c.writeConfig(cmd.Context(), p, in); err != nil || !in.offered {
		return err
	}
	return c.changePassphrase(cmd.Context(), p, false)
}

func (in *initFlags) addTo(f *pflag.FlagSet) {
	f.StringVar(&in.zvm.URL, "zvm-url", "", "https://HOST[:PORT] of the ZVM")
	f.StringVar(&in.zvm.CAFile, "zvm-ca-file", "", "file with the ZVM's certificate authority")
	f.StringVar(&in.zvm.SPKISHA256, "zvm-spki-sha256", "", "pin of the ZVM's key in base64, in place of a CA file")
	f.StringVar(&in.zvm.ClientID, "zvm-client-id", "", "client of the ZVM's identity server")
	f.StringVar(&in.zvm.ClientSecretFile, "zvm-client-secret-file", "", "file with the client's secret, mode 0600")
	f.StringVar(&in.zvm.Username, "zvm-username", "", "user, in place of a client")
	f.StringVar(&in.zvm.PasswordFile, "zvm-password-file", "", "file with the user's password, mode 0600")
	f.BoolVar(&in.zvm.AcceptSameUID, "accept-same-uid", false, "you know that the agent, with your uid, can read that secret")
	f.StringArrayVar(&in.self, "self", nil, "VM that this host is (may be given several times), or none")
	f.BoolVar(&in.allowRoot, "allow-root-sessions", false, "let root launch sessions, against which nothing is enforced")
	f.BoolVar(&in.system, "system", false, "set up system mode: one broker of its own user for this machine; root")
	f.BoolVar(&in.dry, "dry-run", false, "with --system: say what would be made, and make nothing")
	passphraseFlags(f, in)
	f.BoolVar(&in.force, "force", false, "replace guard.toml; the old one is kept as guard.toml.old")
}

// answers says whether a flag answers one of init's questions.
func answers(flags *pflag.FlagSet) bool {
	given := false
	flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "force", "system", "dry-run":
		default:
			given = true
		}
	})
	return given
}

func exists(path, again string) error {
	return fmt.Errorf("writing %q: it exists; edit it, or replace it, with --force beside the other flags: %s", path, again)
}
