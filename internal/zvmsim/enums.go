package zvmsim

import (
	"strconv"
	"strings"
)

// Names of the API's enumerations; the index is the number on the wire. Where
// the sources dispute an order (status 3 and 4), this is the newer one.
var (
	statusNames = []string{
		"Initializing", "MeetingSLA", "NotMeetingSLA", "RpoNotMeetingSLA", "HistoryNotMeetingSLA",
		"FailingOver", "Moving", "Deleting", "Recovered",
	}
	subStatusNames = []string{
		"None", "InitialSync", "Creating", "VolumeInitialSync", "Sync", "RecoveryPossible", "DeltaSync",
		"NeedsConfiguration", "Error", "EmptyProtectionGroup", "DisconnectedFromPeerNoRecoveryPoints",
		"FullSync", "VolumeDeltaSync", "VolumeFullSync", "FailingOverCommitting", "FailingOverBeforeCommit",
		"FailingOverRollingBack", "Promoting", "MovingCommitting", "MovingBeforeCommit", "MovingRollingBack",
		"Deleting", "PendingRemove", "BitmapSync", "DisconnectedFromPeer", "ReplicationPausedUserInitiated",
		"ReplicationPausedSystemInitiated", "RecoveryStorageProfileError",
	}
	entityNames   = []string{"VCVpg", "VCvApp", "VCDvApp", "Aws", "HyperV", "Azure"}
	priorityNames = []string{"Low", "Medium", "High"}
)

const priorityMedium = 1

// nameList serves one of those lists.
func nameList(names []string) func(*Server, *call) reply {
	return func(*Server, *call) reply { return ok(jsonText(names)) }
}

// is compares a filter's value with an enum: number or name, in any case.
func (e enum) is(filter string) bool {
	return filter == strconv.Itoa(e.n) || e.n >= 0 && e.n < len(e.names) && strings.EqualFold(filter, e.names[e.n])
}
