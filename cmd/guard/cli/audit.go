package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"leaseguard.internal/broker/store"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

func (c Command) audit() *cobra.Command {
	cmd := group(&cobra.Command{
		Use: "audit", Short: "check the audit",
		Example: "  guard audit verify\n  guard audit verify --json",
	})
	cmd.AddCommand(c.auditVerify())
	return cmd
}

func (c Command) auditVerify() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "check the audit's hash chain and its stored head",
		Long: `Verify walks the whole chain and compares it with the stored head: it finds any
edit, gap or reordering, and any cut older than the head. It asks the broker for
the head; when none runs it opens the store read-only; with neither it checks the
chain alone, says "head: not checked" and exits 3. Exit 1: a fault was found.`,
		Example: "  guard audit verify\n  guard audit verify --json",
		Args:    noArgs,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			p, err := c.paths()
			if err != nil {
				return err
			}
			h, err := c.storedHead(cmd.Context(), p)
			if err != nil {
				return err
			}
			report, err := audit.Verify(p.AuditDir, h.stored)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("verifying the audit: no records yet in %q; the broker makes the first when it starts", p.AuditDir)
			}
			if err != nil {
				return auditClosed(p, fmt.Errorf("verifying the audit: %w", err))
			}
			if h.stored != nil && !report.HeadChecked && report.Fault == nil {
				h.why = fmt.Sprintf("record %d of the %s is older than what was kept", h.stored.Seq, h.from)
			}
			return c.printReport(report, h, p, asJSON)
		}),
	}
	addJSON(cmd, &asJSON)
	return cmd
}

// head is the stored head and where it comes from. Why says why there is none.
type head struct {
	stored *audit.Head
	from   string // broker, store or none
	why    string
}

// storedHead asks the broker, then the store. Only a broker that refuses us is
// an error: that there is no head is a finding of its own.
func (c Command) storedHead(ctx context.Context, p paths.Paths) (head, error) {
	up, err := client.Running(ctx, p)
	if err != nil {
		return head{}, err
	}
	if up {
		res, err := client.Dial(p).Do(ctx, wire.Control{Verb: wire.VerbAudit}, nil)
		if p.Mode == paths.System && client.Refused(err, verdict.NotOperator) {
			return head{from: "none", why: "the broker tells it to operators alone"}, c.mayRead(ctx, p)
		}
		if err != nil {
			return head{}, err
		}
		if res.Audit == nil {
			return head{}, fmt.Errorf("%w: no head", client.ErrAnswer)
		}
		if res.Audit.Seq == 0 { // records count from 1
			return head{from: "none", why: "the broker has saved none yet; try again in a second"}, nil
		}
		return head{stored: &audit.Head{Seq: res.Audit.Seq, Hash: res.Audit.Hash}, from: "broker"}, nil
	}
	if err := c.mayOperate(ctx, p); err != nil {
		return head{}, err
	}
	s, err := store.OpenReadOnly(p.DB, p.BrokerUID)
	if err != nil {
		return head{from: "none", why: verdict.Clean(err.Error())}, nil
	}
	defer func() { _ = s.Close() }() // it was only read
	stored, found, err := s.Head()
	switch {
	case err != nil:
		return head{from: "none", why: verdict.Clean(err.Error())}, nil
	case !found || stored.Seq == 0:
		return head{from: "none", why: "the store holds none yet"}, nil
	}
	return head{stored: &stored, from: "store"}, nil
}

// printReport also turns what was found into the exit code.
func (c Command) printReport(r audit.Report, h head, p paths.Paths, asJSON bool) error {
	if asJSON {
		if err := c.printJSON(struct {
			audit.Report
			Good     bool   `json:"good"`
			HeadFrom string `json:"head_from"`
			HeadWhy  string `json:"head_why"`
		}{r, r.Fault == nil && r.HeadChecked, h.from, h.why}); err != nil {
			return err
		}
	} else {
		c.printChain(r, h, p)
	}
	switch {
	case r.Fault != nil:
		return &failure{ExitRefused, errSilent}
	case !r.HeadChecked:
		return &failure{ExitUnfinished, errSilent}
	}
	return nil
}

func (c Command) printChain(r audit.Report, h head, p paths.Paths) {
	if r.Fault == nil {
		fmt.Fprintf(c.Stdout, "chain: %s, %s in %s\n", c.paint(green, "good"), count(r.Records, "record"), count(r.Segments, "segment"))
	} else {
		fmt.Fprintf(c.Stdout, "chain: %s: %s\n", c.paint(red, "broken"), verdict.Clean(r.Fault.Error()))
	}
	switch {
	case r.HeadChecked:
		fmt.Fprintf(c.Stdout, "head: checked against the %s, record %d\n", h.from, h.stored.Seq)
	case h.why != "":
		fmt.Fprintf(c.Stdout, "head: not checked: %s\n", h.why)
	}
	if r.Unfinished > 0 {
		fmt.Fprintf(c.Stdout, "note: %d bytes of an unfinished record at the end\n", r.Unfinished)
	}
	if r.Fault != nil {
		fmt.Fprintf(c.Stdout, "Next: keep copies of %s and %s, and find out who changed them.\n"+
			"To begin a new chain: guard broker stop; move both away; guard broker start\n", verdict.Object(p.AuditDir), verdict.Object(p.DB))
	}
}
