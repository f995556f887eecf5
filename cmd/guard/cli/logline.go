package cli

import (
	"fmt"
	"strings"
	"time"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/verdict"
)

// maxLogReason bounds what a log line repeats of a reason.
const maxLogReason = 200

// logLine is one record for people:
//
//	15:04:05 deny    lease_unverified     3f9a1c "Bash": a sentence
//
// The audit holds the rest; everything a peer chose is quoted or cleaned.
func (c Command) logLine(r audit.Record) string {
	word, col := logWord(r)
	line := fmt.Sprintf("%s %s %-22s %-6s ", clockTime(r.Time), c.paint(col, fmt.Sprintf("%-7s", word)), verdict.Clean(r.Code), shortID(r.Session))
	about := strings.Join(c.logAbout(r), " ")
	why := logReason(r)
	if about != "" && why != "" {
		about += ": "
	}
	return strings.TrimRight(line+about+why, " ")
}

// newDay is a line with the date, unless t is on the day that the lines before
// it are on.
func (c Command) newDay(day *string, t time.Time) string {
	if dayOf(t) == *day {
		return ""
	}
	*day = dayOf(t)
	return c.paint(faint, "-- "+*day) + "\n"
}

// dayOf names a local day and the zone of its times.
func dayOf(t time.Time) string { return t.Local().Format("Monday 2006-01-02 (MST)") }

// logAbout is what the record is about: the tool and what it would change.
func (c Command) logAbout(r audit.Record) []string {
	var about []string
	if r.Tool != "" {
		about = append(about, verdict.Object(r.Tool))
	}
	if r.State != "" && r.Event == audit.EventLease {
		about = append(about, c.paint(stateColour(r.State), verdict.Clean(r.State)))
	}
	if len(r.Checkpoint) == 0 && len(r.Targets) > 0 {
		about = append(about, "on "+objects(r.Targets))
	}
	for _, cp := range r.Checkpoint {
		text := fmt.Sprintf("checkpoint %s of %s, id %s", clockTime(cp.Time), verdict.Object(cp.VM), verdict.Object(cp.ID))
		if cp.Reused {
			text += " (reused)"
		}
		about = append(about, text)
	}
	if r.Code == string(verdict.PassphraseWrong) || r.Code == string(verdict.NotOperator) {
		about = append(about, fmt.Sprintf("by pid %d", r.CallerPID))
	}
	if r.Event == audit.EventSession && r.Code == "ended" {
		about = append(about, "--resume "+verdict.Clean(r.Session)) // whole: guard launch takes it
	}
	if r.Count > 1 {
		about = append(about, fmt.Sprintf("(%d times)", r.Count))
	}
	return about
}

// logWord is the kind of the record: the verdict, or what the event is about.
func logWord(r audit.Record) (string, colour) {
	switch {
	case r.Event == audit.EventAlarm:
		return "ALARM", red
	case r.Event != audit.EventVerdict:
		return verdict.Clean(string(r.Event)), faint
	case r.Verdict == verdict.Pass.String() || r.Verdict == verdict.Ask.String():
		return r.Verdict, verdictColour(r.Verdict)
	}
	return "deny", red
}

func verdictColour(v string) colour {
	switch v {
	case verdict.Pass.String():
		return green
	case verdict.Ask.String():
		return yellow
	}
	return red
}

// logReason is a reason's cause: what comes before it stands in the line already,
// and the remedy after it was for the model.
func logReason(r audit.Record) string {
	why := strings.TrimPrefix(verdict.Clean(r.Reason), "guard: "+r.Code+": ")
	why, _, _ = strings.Cut(why, ". Next: ")
	if _, cause, found := strings.Cut(why, verdict.Object(r.Tool)+": "); found {
		why = cause
	}
	return verdict.Cut(why, maxLogReason)
}

func objects(names []string) string {
	quoted := make([]string, 0, len(names))
	for _, n := range names {
		quoted = append(quoted, verdict.Object(n))
	}
	return strings.Join(quoted, ", ")
}

func shortID(id string) string { return verdict.Clean(id[:min(len(id), 6)]) }
