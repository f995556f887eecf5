package zerto

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
)

// Enum is a value of one of the ZVM's enumerations. The ZVM sends a number or a
// name; both become the name. Name is empty for everything else: an unknown
// number, a number in quotes, null, a missing key. Unknown is never healthy.
type Enum struct {
	Name string
	Raw  string // as it came, "" when the key was missing
}

// Missing reports whether the ZVM said nothing: no key, or null.
func (e Enum) Missing() bool { return e.Raw == "" || e.Raw == "null" }

// String names the value for people.
func (e Enum) String() string {
	switch {
	case e.Name == "Aws":
		return "AWS" // as people write it
	case e.Name != "":
		return e.Name
	case e.Missing():
		return "missing"
	default:
		return "unknown (" + verdict.Object(e.Raw) + ")"
	}
}

// Names of a VPG's status, by number. Sources disagree about the order of 3 and
// 4; this is the one of the API's own guide.
var statusNames = []string{
	"Initializing", "MeetingSLA", "NotMeetingSLA", "RpoNotMeetingSLA", "HistoryNotMeetingSLA",
	"FailingOver", "Moving", "Deleting", "Recovered",
}

// Names of a VPG's sub-status up to the number where sources begin to disagree.
var subStatusNames = []string{
	"None", "InitialSync", "Creating", "VolumeInitialSync", "Sync", "RecoveryPossible", "DeltaSync",
	"NeedsConfiguration", "Error", "EmptyProtectionGroup", "DisconnectedFromPeerNoRecoveryPoints",
	"FullSync", "VolumeDeltaSync", "VolumeFullSync", "FailingOverCommitting", "FailingOverBeforeCommit",
	"FailingOverRollingBack", "Promoting", "MovingCommitting", "MovingBeforeCommit", "MovingRollingBack",
	"Deleting", "PendingRemove", "BitmapSync", "DisconnectedFromPeer", "ReplicationPausedUserInitiated",
	"ReplicationPausedSystemInitiated", "RecoveryStorageProfileError",
}

// Names of what protects a machine.
var entityNames = []string{"VCVpg", "VCvApp", "VCDvApp", "Aws", "HyperV", "Azure"}

// Other names of the same entity in older releases.
var entityAliases = map[string]string{"AWS": "Aws", "PublicCloud": "Aws"}

// Names of a task's state.
var taskNames = []string{
	"FirstUnusedValue", "InProgress", "WaitingForUserInput", "Paused", "Failed", "Stopped", "Completed", "Cancelling",
}

// enum reads one of names. No type is an error: what can't be read is unknown,
// and that denies with the value in the reason.
func enum(p *Enum, names []string, aliases map[string]string) setter {
	return func(v jsontext.Value) error {
		p.Raw = verdict.Cut(string(v), 60)
		if n, err := strconv.Atoi(string(v)); err == nil && n >= 0 && n < len(names) {
			p.Name = names[n]
		}
		if v.Kind() != '"' {
			return nil
		}
		s, err := unquote(v)
		if err != nil {
			return err
		}
		if name, ok := aliases[s]; ok {
			s = name
		}
		if slices.Contains(names, s) {
			p.Name = s
		}
		return nil
	}
}
