package cli

import (
	"fmt"
	"os"
	"strconv"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/proc"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/version"
	"leaseguard.internal/internal/wire"
)

// assurance says what the broker is, what it lacks, and how well it knows who
// asks it.
func (d *doctor) assurance() {
	if d.status == nil {
		return
	}
	b := d.status.Broker
	if b.Version == version.Version {
		d.ok("broker", fmt.Sprintf("pid %d, up since %s", b.PID, dayTime(b.Started)))
	} else {
		d.warned("broker", fmt.Sprintf("pid %d is version %s, and this guard is %s", b.PID, verdict.Clean(b.Version), version.Version), restart(b.Mode))
	}
	for _, fault := range []string{b.StoreError, b.AuditError} {
		if fault != "" {
			d.fail("broker", verdict.Clean(fault)+": nothing can be approved", "make room or repair, then: "+restart(b.Mode))
		}
	}
	if b.AuditFault != "" {
		d.fail("audit", verdict.Clean(b.AuditFault), "guard audit verify")
	}
	for _, aside := range b.StoreAsides {
		d.warned("broker", "a damaged store was set aside as "+verdict.Object(aside)+passphraseText(b), "find out what damaged it, move it away, then: "+restart(b.Mode))
	}
	d.levels(b)
}

// levels are what identity, operators and cgroups are worth.
func (d *doctor) levels(b wire.BrokerStatus) {
	if b.Assurance.Identity == "pidfs" {
		d.ok("identity", "pidfs: processes are told by their inodes")
	} else {
		d.warned("identity", verdict.Clean(b.Assurance.Identity)+": this kernel has no inodes for processes, so that start times stand in for them", "run a kernel from 6.9 on")
	}
	switch text := operatorText(b.Assurance.Operator); b.Assurance.Operator {
	case "separate-uid", "passphrase":
		d.ok("operator", text)
	case "cooperative":
		d.warned("operator", "cooperative: stops mistakes, not an attacker of the same uid", "guard init --passphrase; or, for a boundary, as root: guard init --system")
	default:
		d.fail("operator", text, restart(b.Mode))
	}
	if b.Assurance.Cgroup == "absent" && b.Mode == paths.System && paths.Managed() {
		d.warned("cgroup", "absent: lineage alone says what belongs to a session", "let the broker make scopes: "+paths.Manual("install.md"))
	} else if b.Assurance.Cgroup == "absent" {
		d.ok("cgroup", "absent: the line of parents alone says what belongs to a session")
	} else {
		d.ok("cgroup", cgroupText(b))
	}
}

// maxZombies is how many a session may leave unreaped before they count as a
// fault: the runtime takes its orphans in, and some never wait for them.
const maxZombies = 1000

// sessions looks at each that runs.
func (d *doctor) sessions() {
	if d.status == nil {
		return
	}
	if len(d.status.Sessions) == 0 {
		d.ok("sessions", "none runs")
		return
	}
	zombies := zombiesOf("/proc")
	for i, id := range shortIDs(d.status.Sessions) {
		d.session(id, d.status.Sessions[i], zombies[d.status.Sessions[i].AnchorPID])
	}
}

func (d *doctor) session(id string, s wire.Session, zombies int) {
	who := fmt.Sprintf("%s (%s, pid %d) ", verdict.Clean(id), verdict.Clean(s.Runtime), s.AnchorPID)
	said := len(d.out.Checks)
	if s.Alarm != "" {
		d.fail("sessions", who+"is locked by the alarm "+verdict.Clean(s.Alarm), "guard log --event alarm, then: guard approve "+verdict.Clean(id)+" --clear-alarm")
	}
	if !s.Enforced {
		d.warned("sessions", who+"is root's, or has powers that root has: nothing is enforced against it", "end it and launch it as an ordinary user")
	}
	if s.Launched && !s.GateSeen {
		d.warned("sessions", who+"has sent no event through its gate yet", "one tool call of it, a read will do; if that is not seen: end it and launch it again")
	}
	if zombies > maxZombies {
		d.warned("sessions", who+strconv.Itoa(zombies)+" of its children have ended and nobody has waited for them", "end the session before the machine has no process numbers left, and launch it again")
	}
	if len(d.out.Checks) == said {
		d.ok("sessions", who+verdict.Clean(s.State)+", "+verdict.Clean(s.Host))
	}
}

// zombiesOf counts, for each process, the children that have ended and that it
// hasn't waited for. What can't be read has ended meanwhile.
func zombiesOf(dir string) map[int]int {
	count := map[int]int{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return count
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		text, err := os.ReadFile(dir + "/" + e.Name() + "/stat") // #nosec G304 -- below /proc
		if err != nil {
			continue
		}
		if st, err := proc.ParseStat(text); err == nil && st.State == 'Z' {
			count[st.PPID]++
		}
	}
	return count
}
