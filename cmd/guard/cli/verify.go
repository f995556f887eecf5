package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/wire"
)

func (c Command) verify() *cobra.Command {
	var ttl time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify SESSION",
		Short: "begin a verification by hand: prints the promotion token",
		Long: `Verify revokes the session's lease and any token that is pending, reads its
context documents, and prints the token of the new cycle on stdout, alone on its
line. The token works once, for 60 s, for this generation of this session.`,
		Example:           "  guard verify 3f9a | guard promote 3f9a",
		Args:              oneSession,
		ValidArgsFunction: c.completeSession,
		RunE: run(func(cmd *cobra.Command, args []string) error {
			ctl := wire.Control{Verb: wire.VerbVerify}
			if err := setTTL(cmd, &ctl, ttl); err != nil {
				return err
			}
			g, err := c.grant(cmd.Context(), args[0], ctl)
			if err != nil {
				return err
			}
			if asJSON {
				return c.printJSON(g)
			}
			fmt.Fprintf(c.Stderr, "%s is %s (generation %d, cycle %d); the token is void in %s. Next: guard promote %s\n",
				g.Session, g.State, g.Generation, g.Cycle, left(g.TokenInS), g.Session)
			_, err = fmt.Fprintln(c.Stdout, g.Token)
			return err
		}),
	}
	addTTL(cmd, &ttl)
	addJSON(cmd, &asJSON)
	return cmd
}

func (c Command) promote() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "promote SESSION",
		Short: "use a promotion token, read from stdin",
		Long: `Promote reads the token of guard verify from stdin, so that it stands in no
argument and no environment, and makes the session VERIFIED. The context
documents are read again: a change since guard verify refuses the promotion. A
failed attempt burns the token.`,
		Example:           "  guard verify 3f9a | guard promote 3f9a",
		Args:              oneSession,
		ValidArgsFunction: c.completeSession,
		RunE: run(func(cmd *cobra.Command, args []string) error {
			token, err := c.readToken()
			if err != nil {
				return err
			}
			g, err := c.grant(cmd.Context(), args[0], wire.Control{Verb: wire.VerbPromote, Token: token})
			if err != nil {
				return err
			}
			return c.granted(g, asJSON)
		}),
	}
	addJSON(cmd, &asJSON)
	return cmd
}

// maxToken is more than any token has.
const maxToken = 256

// readToken reads one line. What it holds is never repeated in an error.
func (c Command) readToken() (string, error) {
	if isTerminal(c.Stdin) {
		fmt.Fprintln(c.Stderr, "token, then Enter and Ctrl-D:")
	}
	text, err := io.ReadAll(io.LimitReader(c.Stdin, maxToken+1))
	if err != nil {
		return "", fmt.Errorf("reading the token from stdin: %w", err)
	}
	token := strings.TrimSuffix(string(text), "\n")
	switch {
	case token == "":
		return "", usagef("no token on stdin; use: guard verify SESSION | guard promote SESSION")
	case len(text) > maxToken || strings.ContainsAny(token, "\n\x00"):
		return "", usagef("stdin holds more than one token; give the one line that guard verify printed")
	}
	return token, nil
}
