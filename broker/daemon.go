package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"leaseguard.internal/broker/checkpoint"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/harden"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/version"
	"leaseguard.internal/internal/zerto"
)

// Exit codes of guard-broker.
const (
	ExitDone  = 0
	ExitUsage = 2
	ExitFault = 3
)

const usage = `guard-broker owns the leases of leaseguard. People don't run it: guard launch and
every operator command start it when none runs.

usage: guard-broker [--version | --help]

It takes its paths from XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_RUNTIME_DIR and HOME
and is configured by guard.toml (see docs/configuration.md). It ends on SIGTERM,
SIGINT or: guard broker stop

examples:
  guard broker start      start it as guard does
  guard broker restart    take over a changed guard.toml
`

// Main is guard-broker: it runs until it is told to stop.
func Main(args []string, env func(string) string, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 1 && args[0] == "--version":
		_, _ = fmt.Fprintln(stdout, "guard-broker", version.Version)
		return ExitDone
	case len(args) == 1 && (args[0] == "--help" || args[0] == "-h"):
		_, _ = io.WriteString(stdout, usage)
		return ExitDone
	case len(args) > 0:
		_, _ = fmt.Fprintf(stderr, "guard-broker: unknown argument %q; see: guard-broker --help\n", args[0])
		return ExitUsage
	}
	log := slog.New(&calmHandler{Handler: slog.NewTextHandler(stderr, nil), now: clock.System{}.Now})
	if err := run(env, log); err != nil {
		_, _ = fmt.Fprintf(stderr, "guard-broker: %v\n", err)
		return ExitFault
	}
	return ExitDone
}

func run(env func(string) string, log *slog.Logger) (err error) {
	if err := harden.Process(); err != nil {
		return err
	}
	// A damaged store can fault where bbolt maps it; that ends the broker, and
	// with it all authority, but says what happened.
	debug.SetPanicOnFault(true)
	uid := uint32(os.Getuid()) // #nosec G115 -- the kernel's uids are 32 bits
	p, err := paths.Resolve(env, uid)
	if err != nil {
		return err
	}
	cfg, err := config.Load(p.Config, p.Mode, uid)
	if err != nil {
		return err
	}
	opt := Options{Paths: p, Config: cfg, UID: uid, Clock: clock.System{}, Log: log, Version: version.Version}
	if cfg.ZVM != nil {
		service, closeAll, err := checkpoints(cfg, uid, opt.Clock, log)
		if err != nil {
			return err
		}
		defer closeAll()
		opt.Checkpoints = service
	}
	b, err := Start(opt)
	if err != nil {
		return err
	}
	signal.Ignore(unix.SIGHUP, unix.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	log.Info("ready", "run", p.RunDir, "state", p.StateDir, "pid", os.Getpid())
	if err := b.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("stopping: %w", err)
	}
	return nil
}

func checkpoints(cfg *config.Config, uid uint32, c clock.Clock, log *slog.Logger) (*checkpoint.Service, func(), error) {
	secret, err := cfg.ZVM.Secret(uid)
	if err != nil {
		return nil, nil, err
	}
	z := zerto.Config{URL: cfg.ZVM.URL, CAFile: cfg.ZVM.CAFile, SPKISHA256: cfg.ZVM.SPKISHA256, UID: uid, ClientID: cfg.ZVM.ClientID, Username: cfg.ZVM.Username}
	if z.Username != "" {
		z.Password = secret
	} else {
		z.Secret = secret
	}
	api, err := zerto.New(z, c)
	if err != nil {
		return nil, nil, err
	}
	s := checkpoint.New(api, c, checkpoint.Options{AcceptStatus: cfg.Checkpoint.AcceptStatus, Timeout: cfg.Checkpoint.Timeout})
	// The first token is fetched ahead, so that no call waits for it; a wrong
	// secret is found, and said, before anybody needs it.
	ctx, cancel := context.WithCancel(context.Background())
	warmed := make(chan struct{})
	go func() {
		defer close(warmed)
		if err := api.Warm(ctx); err != nil && ctx.Err() == nil {
			log.Warn("logging in at the ZVM; until this works every change is denied", "error", err)
		}
	}()
	return s, func() { cancel(); <-warmed; s.Close(); api.Close() }, nil
}
