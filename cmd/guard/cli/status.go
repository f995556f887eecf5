package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

func (c Command) status() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "sessions, leases with time left, checkpoints, assurance, and what to do next",
		Long: `Status shows the broker, how well it knows its peers, and every session with its
lease. For each session that can't change anything it says which command helps.
Inside a session it shows that session alone.`,
		Example: "  guard status\n  guard status --json",
		Args:    noArgs,
		RunE: run(func(cmd *cobra.Command, _ []string) error {
			o, err := c.operator(cmd.Context())
			if err != nil {
				return err
			}
			st, err := o.status()
			if err != nil {
				return err
			}
			if asJSON {
				if st.Sessions == nil {
					st.Sessions = []wire.Session{}
				}
				return c.printJSON(st)
			}
			c.printStatus(c.Stdout, st)
			return nil
		}),
	}
	addJSON(cmd, &asJSON)
	return cmd
}

func (c Command) printStatus(w io.Writer, st *wire.Status) {
	c.printBroker(w, st.Broker)
	fmt.Fprintln(w)
	if len(st.Sessions) == 0 {
		fmt.Fprintln(w, "no sessions. Next: guard launch claude, or: guard launch exec -- COMMAND")
		return
	}
	short := shortIDs(st.Sessions)
	rows := [][]cell{header("SESSION", "RUNTIME", "STATE", "LEFT", "GATE", "PID", "CALLS", "DENIED", "COMMAND")}
	for i, s := range st.Sessions {
		rows = append(rows, c.sessionRow(short[i], s))
	}
	c.table(w, rows)
	fmt.Fprintln(w)
	for i, s := range st.Sessions {
		c.printNotes(w, short[i], s, st.Broker)
	}
}

func (c Command) sessionRow(id string, s wire.Session) []cell {
	gate := cell{text: "seen"}
	if !s.GateSeen {
		gate = cell{"unseen", yellow}
	}
	return []cell{
		{text: id}, {text: verdict.Clean(s.Runtime)}, {verdict.Clean(s.State), stateColour(s.State)}, {text: left(s.ExpiresInS)}, gate,
		{text: strconv.Itoa(s.AnchorPID)}, {text: strconv.FormatUint(s.Calls, 10)}, {text: strconv.FormatUint(s.Denied, 10)},
		{text: verdict.Cut(verdict.Clean(s.Command), 60)},
	}
}

// printNotes says what stands in the session's way and which command helps.
func (c Command) printNotes(w io.Writer, id string, s wire.Session, b wire.BrokerStatus) {
	if why, next := remedy(id, s); next != "" {
		if b.StoreError != "" || b.AuditError != "" {
			next = "the fault above, which stops every approval; then " + next
		}
		if s.OnlySelf {
			next += ", from outside of the session"
		}
		fmt.Fprintf(w, "%s  %s. Next: %s\n", id, why, next)
	}
	if !s.Enforced {
		fmt.Fprintf(w, "%s  %s\n", id, c.paint(red, "nothing is enforced against it: it is root's, or has capabilities that root has"))
	}
	if s.Cgroup != "absent" {
		fmt.Fprintf(w, "%s  cgroup %s\n", id, verdict.Clean(s.Cgroup))
	}
	if d := s.LastDenial; d != nil {
		fmt.Fprintf(w, "%s  last denial %s: %s, %s\n", id, dayTime(d.Time), verdict.Object(d.Tool), verdict.Clean(d.Code))
	}
	if cp := s.LastCheckpoint; cp != nil {
		fmt.Fprintf(w, "%s  last checkpoint %s\n", id, checkpointText(*cp))
	}
}

// remedy is empty for a session that needs nothing.
func remedy(id string, s wire.Session) (why, next string) {
	why = s.State
	if s.Reason != "" {
		why += ", " + verdict.Clean(s.Reason)
	}
	switch {
	case s.State == "VERIFIED":
		return "", ""
	case !s.Launched:
		return "its runtime has not started yet", "wait a moment, then guard status"
	case s.Alarm != "":
		return why + ", locked by the alarm " + verdict.Clean(s.Alarm), "guard log --event alarm, then guard approve " + id + " --clear-alarm"
	case s.Host == "waiting":
		return "its host has taken down what asks the gate, and has not set it up again", "end the session and launch it again"
	case !s.GateSeen:
		return why + ", and no event has come through its gate", "one tool call of it, a read will do, then guard approve " + id
	case s.State == "PENDING_VERIFICATION":
		return why, "guard promote " + id + " (token on stdin), or guard approve " + id
	}
	return why, "guard approve " + id
}

// shortIDs cuts ids to the shortest length, at least 6, that tells them apart.
func shortIDs(sessions []wire.Session) []string {
	for n := 6; ; n++ {
		short, seen, longest := make([]string, 0, len(sessions)), map[string]bool{}, 0
		for _, s := range sessions {
			id := s.ID[:min(n, len(s.ID))]
			short, seen[id], longest = append(short, id), true, max(longest, len(s.ID))
		}
		if len(seen) == len(sessions) || n >= longest {
			return short
		}
	}
}

func stateColour(state string) colour {
	switch state {
	case "VERIFIED":
		return green
	case "PENDING_VERIFICATION":
		return yellow
	}
	return red
}

func checkpointText(cp wire.CheckpointInfo) string {
	text := fmt.Sprintf("%s of %s in %s: tag %s, id %s", dayTime(cp.Time),
		verdict.Object(cp.VM), verdict.Object(cp.VPG), verdict.Object(cp.Tag), verdict.Object(cp.ID))
	if cp.Reused {
		text += " (reused)"
	}
	return text
}

func header(names ...string) []cell {
	row := make([]cell, 0, len(names))
	for _, n := range names {
		row = append(row, cell{n, faint})
	}
	return row
}

func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return verdict.Clean(text)
}
