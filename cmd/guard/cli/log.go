package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/paths"
)

// logQuery is what guard log shows.
type logQuery struct {
	follow, json                        bool
	newest                              uint64 // only so many of the newest that match; 0 is all
	session, tool, code, verdict, event string
	since                               time.Duration

	from  time.Time // since, as a time of day
	after uint64    // newest, as the number of the record before them
}

func (c Command) log() *cobra.Command {
	var q logQuery
	cmd := &cobra.Command{
		Use:   "log",
		Short: "what happened: one line per verdict and lease event",
		Long: `Log reads the audit's files; no broker is needed. Filters can be combined; each
compares exactly, --session also the beginning of an id. Times are local; a line
with the date stands where the day isn't today's. With --json every line is the
record as it stands in the file.`,
		Example: `  guard log -f
  guard log --session 3f9a --verdict deny --since 1h
  guard log --json --code checkpoint_confirmed`,
		Args: noArgs,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			if err := q.check(); err != nil {
				return err
			}
			p, err := c.paths()
			if err != nil {
				return err
			}
			if err := c.mayRead(cmd.Context(), p); err != nil {
				return err
			}
			if q.since > 0 {
				q.from = clock.System{}.Wall().Add(-q.since)
			}
			if q.follow && !cmd.Flags().Changed("lines") {
				q.newest = 10
			}
			return auditClosed(p, c.showLog(cmd.Context(), p.AuditDir, &q))
		}),
	}
	f := cmd.Flags()
	f.BoolVarP(&q.follow, "follow", "f", false, "go on with records as they come")
	f.Uint64VarP(&q.newest, "lines", "n", 0, "show the newest N that match (default all; 10 with -f)")
	f.StringVar(&q.session, "session", "", "session id, or its beginning")
	f.StringVar(&q.tool, "tool", "", "tool name")
	f.StringVar(&q.code, "code", "", "code, such as lease_unverified")
	f.StringVar(&q.verdict, "verdict", "", choice(verdicts))
	f.StringVar(&q.event, "event", "", choice(events))
	f.DurationVar(&q.since, "since", 0, "not older than, such as 90m")
	addJSON(cmd, &q.json)
	_ = cmd.RegisterFlagCompletionFunc("session", c.completeSession) // it is there
	complete(cmd, "verdict", verdicts)
	complete(cmd, "event", events)
	return cmd
}

// auditClosed says who may read the records of a machine in system mode.
func auditClosed(p paths.Paths, err error) error {
	if p.Mode != paths.System || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w; it is for root and the group %s, operators or not: have root run: usermod -aG %s USER; then log in again", err, paths.AuditGroup, paths.AuditGroup)
}

// What --verdict and --event can be.
var (
	verdicts = []string{"pass", "ask", "deny"}
	events   = []string{"verdict", "host", "lease", "session", "alarm", "broker"}
)

func choice(of []string) string {
	return strings.Join(of[:len(of)-1], ", ") + " or " + of[len(of)-1]
}

// check refuses filters that no record can match.
func (q *logQuery) check() error {
	switch {
	case q.verdict != "" && !slices.Contains(verdicts, q.verdict):
		return usagef("--verdict %q: want %s", q.verdict, choice(verdicts))
	case q.event != "" && !slices.Contains(events, q.event):
		return usagef("--event %q: want %s", q.event, choice(events))
	case q.verdict != "" && q.event != "" && q.event != string(audit.EventVerdict):
		return usagef("--verdict %s with --event %s: only a verdict's record has a verdict", q.verdict, q.event)
	case q.since < 0:
		return usagef("--since %s: want a time above 0, such as 90m", q.since)
	}
	return nil
}

func (c Command) showLog(ctx context.Context, dir string, q *logQuery) error {
	if err := q.cut(dir); err != nil {
		return err
	}
	shown, day := 0, dayOf(clock.System{}.Wall())
	show := func(r audit.Record, raw []byte) error {
		if !q.wants(r) {
			return nil
		}
		line := raw
		if !q.json {
			line = []byte(c.newDay(&day, r.Time) + c.logLine(r))
		}
		shown++
		_, err := c.Stdout.Write(append(line[:len(line):len(line)], '\n'))
		return err
	}
	if q.follow {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		return follow(ctx, dir, show)
	}
	err := audit.Read(dir, show)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(c.Stderr, "guard: no records yet in %q\n", dir)
		return nil
	}
	if err == nil && shown == 0 {
		fmt.Fprintln(c.Stderr, "guard: no records match")
	}
	return err
}

// cut finds the record before the newest ones that are wanted.
func (q *logQuery) cut(dir string) error {
	if q.newest == 0 {
		return nil
	}
	var fit []uint64
	err := audit.Read(dir, func(r audit.Record, _ []byte) error {
		if q.wants(r) {
			fit = append(fit, r.Seq)
		}
		return nil
	})
	if n := uint64(len(fit)); n > q.newest {
		q.after = fit[n-q.newest] - 1
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// follow goes on until a signal comes; a directory that isn't there yet may
// still be made.
func follow(ctx context.Context, dir string, show func(audit.Record, []byte) error) error {
	for {
		err := audit.Follow(ctx, dir, show)
		if errors.Is(err, fs.ErrNotExist) {
			err = clock.Sleep(ctx, time.Second)
		}
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (q *logQuery) wants(r audit.Record) bool {
	fits := func(want, got string) bool { return want == "" || want == got }
	return r.Seq > q.after && !r.Time.Before(q.from) &&
		strings.HasPrefix(r.Session, q.session) && fits(q.tool, r.Tool) && fits(q.code, r.Code) &&
		fits(q.verdict, r.Verdict) && fits(q.event, string(r.Event))
}
