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

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/harden"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/sdunit"
	"leaseguard.internal/internal/version"
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
and is configured by guard.toml (see docs/configuration.md, which a package puts
below /usr/share/doc/leaseguard), which it reads again on SIGHUP. It ends on SIGTERM,
SIGINT or: guard broker stop

In system mode systemd starts it: systemctl start guard-broker.socket guard-operator.socket

examples:
  guard broker start             start it as guard does
  guard broker restart           begin anew; every lease ends
  systemctl reload guard-broker  take over a changed guard.toml, in system mode
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
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, unix.SIGHUP)
	signal.Ignore(unix.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
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
	if uid != p.BrokerUID {
		return fmt.Errorf("starting as uid %d: in system mode the broker runs as %s (uid %d); start it with: systemctl start guard-broker.socket guard-operator.socket; without systemd: %s",
			uid, paths.SystemUser, p.BrokerUID, paths.Manual("install.md"))
	}
	manager, err := sdunit.Open(p.BrokerSocket, p.OperatorSocket)
	if err != nil {
		return err
	}
	defer manager.Close()
	l := loader{paths: p, uid: uid, clock: clock.NewSteady(clock.System{}), log: log}
	first, err := l.load()
	if err != nil {
		return err
	}
	b, err := Start(Options{
		Paths: p, UID: uid, Clock: l.clock, Log: log, Version: version.Version,
		Config: first.Config, Checkpoints: first.Checkpoints, Policies: first.Policies, Close: first.Close,
		Reload: l.load, Hangup: hangup, Manager: manager, Journal: sdunit.NewJournal(p.Mode == paths.System),
	})
	if err != nil {
		first.close()
		return err
	}
	if err := b.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("running: %w", err)
	}
	return nil
}
