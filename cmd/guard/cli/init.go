package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
)

// initFlags are the answers of guard init as flags.
type initFlags struct {
	zvm              config.ZVM
	self             []string
	allowRoot, force bool
}

func (c Command) init() *cobra.Command {
	var in initFlags
	cmd := &cobra.Command{
		Use:   "init",
		Short: "write a commented guard.toml",
		Long: `Init writes guard.toml for this user, with every key at its default and what you
answer. On a terminal and without flags it asks; elsewhere only flags count. It
checks what it wrote as the broker would before it takes its place, and never
overwrites one that is there without --force.

Without a ZVM no checkpoint can be taken, and changes that need one are denied.`,
		Example: `  guard init
  guard init --zvm-url https://zvm.example --zvm-ca-file ca.pem \
    --zvm-client-id guard --zvm-client-secret-file zvm.secret \
    --accept-same-uid --self app-01
  guard init --self none --force`,
		Args: noArgs,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			p, err := c.paths()
			if err != nil {
				return err
			}
			if err := c.mayOperate(cmd.Context(), p); err != nil {
				return err
			}
			if p.Mode == paths.System {
				return fmt.Errorf("this machine is in system mode: its configuration is %q, and root writes it", p.Config)
			}
			if _, err := os.Lstat(p.Config); err == nil && !in.force {
				return exists(p.Config)
			}
			if cmd.Flags().NFlag() == 0 && isTerminal(c.Stdin) {
				if err := c.ask(&in); err != nil {
					return err
				}
			}
			return c.writeConfig(cmd.Context(), p, in)
		}),
	}
	f := cmd.Flags()
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
	f.BoolVar(&in.force, "force", false, "overwrite guard.toml")
	return cmd
}

func exists(path string) error {
	return fmt.Errorf("writing %q: it exists; edit it, or overwrite it with: guard init --force", path)
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

// writeConfig puts the file in place only when it has been read back without a
// fault.
func (c Command) writeConfig(ctx context.Context, p paths.Paths, in initFlags) error {
	a, err := in.answers()
	if err != nil {
		return err
	}
	if err := paths.EnsureDir(filepath.Dir(p.Config), uid()); err != nil {
		return err
	}
	draft, err := writeDraft(p.Config, config.Template(a))
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(draft) }() // gone already where it was renamed
	cfg, err := config.Load(draft, p.Mode, uid())
	if err != nil {
		return usagef("these answers make no valid guard.toml, and none was written: %w", err)
	}
	place := os.Link // which refuses to overwrite
	if in.force {
		place = os.Rename
	}
	if err := place(draft, p.Config); errors.Is(err, fs.ErrExist) {
		return exists(p.Config)
	} else if err != nil {
		return fmt.Errorf("writing %q: %w", p.Config, err)
	}
	return c.written(ctx, p, cfg)
}

func writeDraft(path string, text []byte) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".guard.toml-*") // mode 0600
	if err != nil {
		return "", fmt.Errorf("writing guard.toml: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(f.Name()) // nothing is left to say but the error
		return "", fmt.Errorf("writing guard.toml: %w", err)
	}
	return f.Name(), nil
}

// written says what was written, what it still lacks, and what comes next.
func (c Command) written(ctx context.Context, p paths.Paths, cfg *config.Config) error {
	fmt.Fprintf(c.Stdout, "wrote %s\n", verdict.Object(p.Config))
	switch {
	case cfg.ZVM == nil && cfg.Checkpoint.SelfNone:
		c.warn([]string{"no [zvm]: only the host's own tools can change anything, unprotected (self = \"none\")"})
	case cfg.ZVM == nil:
		c.warn([]string{"no [zvm] and no self = \"none\": every change will be denied"})
	default:
		if _, err := cfg.ZVM.Secret(uid()); err != nil {
			c.warn([]string{err.Error()})
		}
	}
	next := "guard launch exec -- COMMAND"
	if up, err := client.Running(ctx, p); err == nil && up {
		next = "guard broker restart"
	}
	fmt.Fprintf(c.Stdout, "Next: %s\n", next)
	return nil
}
