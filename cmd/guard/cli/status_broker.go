package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

func (c Command) printBroker(w io.Writer, b wire.BrokerStatus) {
	rows := [][]cell{
		{{"broker", faint}, {text: fmt.Sprintf("pid %d, version %s, %s mode, up since %s", b.PID, verdict.Clean(b.Version), verdict.Clean(b.Mode), dayTime(b.Started))}},
		{{"assurance", faint}, {text: fmt.Sprintf("identity %s, operator %s, cgroup %s", verdict.Clean(b.Assurance.Identity), operatorText(b.Assurance.Operator), cgroupText(b))}},
		{{"zvm", faint}, {text: verdict.Clean(b.ZVM)}},
		c.configRow(b),
		{{"sockets", faint}, {text: verdict.Object(b.RunDir)}},
	}
	for _, fault := range []string{b.StoreError, b.AuditError} {
		if fault != "" {
			rows = append(rows, []cell{{"fault", red}, {text: verdict.Clean(fault) + ": nothing can be approved. Next: make room or repair, then: " + restart(b.Mode)}})
		}
	}
	if b.AuditFault != "" {
		rows = append(rows, []cell{{"fault", red}, {text: verdict.Clean(b.AuditFault) + lostText(b) + ". Next: guard audit verify"}})
	}
	if b.JournalLost > 0 {
		rows = append(rows, []cell{{"journal", faint}, {text: "it lacks " + count(b.JournalLost, "event") + ", which the audit has: guard log"}})
	}
	for _, aside := range b.StoreAsides {
		rows = append(rows, []cell{{"fault", red}, {text: asideText(aside, b)}})
	}
	c.table(w, rows)
}

// asideText says what a damaged store has taken with it.
func asideText(aside string, b wire.BrokerStatus) string {
	return "a damaged store was set aside as " + verdict.Object(aside) + ": tokens and ended sessions that it kept are gone" +
		passphraseText(b) + ". Next: find out what damaged it, move it away, then: " + restart(b.Mode)
}

// passphraseText says what else may be gone with a store.
func passphraseText(b wire.BrokerStatus) string {
	if b.Mode == paths.User && b.Assurance.Operator == "cooperative" {
		return "; if a passphrase was set (guard log --code passphrase_set), set it again: guard init --passphrase"
	}
	return ""
}

// lostText says it where the store has gone without leaving anything.
func lostText(b wire.BrokerStatus) string {
	if len(b.StoreAsides) > 0 || !strings.Contains(b.AuditFault, "the store was lost") {
		return ""
	}
	return passphraseText(b)
}

// restart is how a broker of that mode begins anew.
func restart(mode string) string {
	if mode != paths.System {
		return "guard broker restart"
	}
	if !paths.Managed() {
		return "end guard-broker by SIGTERM and start it again"
	}
	return "systemctl restart guard-broker"
}

// reload is how it takes over a changed guard.toml.
func reload(mode string) string {
	switch {
	case mode != paths.System:
		return restart(mode)
	case !paths.Managed():
		return "send guard-broker SIGHUP"
	}
	return "systemctl reload guard-broker"
}

// configRow is guard.toml as it is in force, or why it isn't.
func (c Command) configRow(b wire.BrokerStatus) []cell {
	if b.ConfigError == "" {
		return []cell{{"config", faint}, {text: c.configText(b)}}
	}
	return []cell{{"config", red}, {text: "an older " + verdict.Object(b.Config) + " is in force, since the new one is refused: " + verdict.Clean(b.ConfigError) + ". Next: correct it, then: " + reload(b.Mode)}}
}

// configText is the guard.toml that the broker loaded, and whether that is still
// what stands there.
func (c Command) configText(b wire.BrokerStatus) string {
	next := ". Next: " + reload(b.Mode)
	p, err := c.paths()
	if err != nil {
		return orText(b.Config, "none: defaults")
	}
	at, err := os.Stat(p.Config)
	switch {
	case b.Config == "" && err != nil:
		return "none: defaults. Next: guard init"
	case b.Config == "":
		return verdict.Object(p.Config) + ", not loaded yet" + next
	case b.Config != p.Config:
		return verdict.Object(b.Config) + ", and not " + verdict.Object(p.Config) + " of this shell's environment"
	case err != nil:
		return verdict.Object(b.Config) + ", which is not there any more" + next
	case at.ModTime().After(b.ConfigRead):
		return verdict.Object(b.Config) + ", changed since it was loaded" + next
	}
	return verdict.Object(b.Config)
}

// operatorText says what the way of telling operators apart is worth.
func operatorText(operator string) string {
	worth := map[string]string{ // #nosec G101 -- words, no secrets
		"separate-uid": "a user who has a session, or had one in this boot, is no operator",
		"passphrase":   "what raises authority asks for it; a program of the same uid can still read or replace the broker's files",
		"cooperative":  "stops mistakes, not an attacker of the same uid; guard init --passphrase does more",
	}[operator]
	if worth == "" {
		return verdict.Clean(operator)
	}
	return operator + " (" + worth + ")"
}

// cgroupText says whether sessions get cgroups of their own, and what these are
// worth.
func cgroupText(b wire.BrokerStatus) string {
	if b.Assurance.Cgroup == "scope" && b.Mode == paths.User {
		return "scope (helps to find what a session left running; no boundary, since its user can leave it)"
	}
	return verdict.Clean(b.Assurance.Cgroup)
}
