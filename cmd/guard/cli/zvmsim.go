package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"leaseguard.internal/internal/zvmsim"
)

// maxEstate bounds an estate file.
const maxEstate = 4 << 20

func (c Command) zvmSim() *cobra.Command {
	var flags zvmsim.Flags
	var listen, dir, estate string
	var logging bool
	cmd := &cobra.Command{
		Use:   "zvm-sim --dir DIR",
		Short: "serve a simulated ZVM, to try and to test guard without Zerto",
		Long: `Zvm-sim makes DIR with a certificate and secrets, prints one JSON line with url,
ca_file, client_id, client_secret, username and password when it is ready, and
serves until its stdin closes or a signal comes. What it simulates, its fault
flags and its admin endpoint are in docs/simulator.md.`,
		Example: `  guard zvm-sim --dir sim </dev/tty
  guard zvm-sim --dir sim --listen 127.0.0.1:9669 --speed slow --fault 'VPG-LOCAL=no_tag'`,
		Args: noArgs,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return usagef("--dir is missing: the directory for the simulator's certificate and secrets")
			}
			behaviour, err := flags.Parse()
			if err != nil {
				return usagef("%w", err)
			}
			opt := zvmsim.Options{Listen: listen, Dir: dir, Behaviour: &behaviour}
			if opt.Estate, err = readEstate(estate); err != nil {
				return err
			}
			if logging {
				opt.Log = c.Stderr
			}
			return c.simulate(cmd.Context(), opt)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "", "directory for ca.pem and the secrets; made if missing")
	f.StringVar(&listen, "listen", "127.0.0.1:0", "host:port; port 0 takes a free one")
	f.StringVar(&estate, "estate", "", "JSON file with sites, VPGs and machines, in place of the built-in estate")
	f.BoolVar(&logging, "log", false, "one line per request on stderr")
	f.StringVar(&flags.Speed, "speed", "default", "default, slow or fast")
	f.StringArrayVar(&flags.Latency, "latency", nil, "delays: token=200ms,insert=100ms..300ms,visible=1s")
	f.StringArrayVar(&flags.Faults, "fault", nil, "faults of a VPG: VPG=no_tag or VPG=status:2,tag_on:OTHER; '*' is all")
	f.StringArrayVar(&flags.Variants, "variant", nil, "how an unsupported VPG behaves: VPG=a (no tag), b (task fails), c (POST refused)")
	f.StringArrayVar(&flags.Settings, "setting", nil, "of the server: token_life=5s,camel_case,filters=ignore (all: docs/simulator.md)")
	f.StringArrayVar(&flags.Answers, "answer", nil, `an answer for chosen requests: {"op":"task","status":401,"times":1}`)
	return cmd
}

// readEstate reads an estate file; without a path it returns nil, which is the
// built-in estate.
func readEstate(path string) (*zvmsim.Estate, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path) // #nosec G304 -- the user's own choice
	if err != nil {
		return nil, fmt.Errorf("opening the estate: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxEstate+1))
	if err != nil {
		return nil, fmt.Errorf("reading the estate: %w", err)
	}
	if len(text) > maxEstate {
		return nil, fmt.Errorf("reading estate %q: over %d bytes", path, maxEstate)
	}
	estate, err := zvmsim.ParseEstate(text)
	if err != nil {
		return nil, fmt.Errorf("reading estate %q: %w", path, err)
	}
	return estate, nil
}

// simulate serves until stdin ends or a signal comes.
func (c Command) simulate(ctx context.Context, opt zvmsim.Options) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	s, err := zvmsim.Start(opt)
	if errors.Is(err, zvmsim.ErrNoVPG) {
		return usagef("--fault or --variant: %w", err)
	}
	if err != nil {
		return err
	}
	line, err := json.Marshal(s.Info())
	if err == nil {
		_, err = fmt.Fprintf(c.Stdout, "%s\n", line)
	}
	if err == nil {
		go func() {
			_, _ = io.Copy(io.Discard, c.Stdin)
			if ctx.Err() == nil {
				fmt.Fprintln(c.Stderr, "guard: stdin has closed: ended")
			}
			stop()
		}()
		<-ctx.Done()
	}
	if closeErr := s.Close(); err == nil {
		err = closeErr
	}
	return err
}
