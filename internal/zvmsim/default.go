package zvmsim

// DefaultEstate is the estate that a simulator has when none is given. Other
// programs and the documents rely on its names.
func DefaultEstate() *Estate {
	notMeeting := 2
	e := &Estate{
		Site: Site{Name: "HQ", Type: "VCenter"},
		Peers: []Site{
			{Name: "DR", Type: "VCenter"},
			{Name: "DR-2", Type: "VCenter"},
			{Name: "AWS-EU", Type: "AWS"},
			{Name: "AZURE-EU", Type: "Azure"},
		},
		VPGs: []VPG{
			{Name: "VPG-LOCAL", JournalMinutes: 1440},
			{Name: "VPG-AWS", ProtectedSite: "AWS-EU", RecoverySite: "HQ"},
			{Name: "VPG-AZURE", ProtectedSite: "AZURE-EU", RecoverySite: "HQ"},
			{Name: "VPG-A"},
			{Name: "VPG-B", RecoverySite: "DR-2"},
			{Name: "VPG-TWIN-1"},
			{Name: "VPG-TWIN-2", RecoverySite: "DR-2"},
			{Name: "VPG-PAUSED", Status: &notMeeting, SubStatus: 25},
		},
		VMs: []VM{
			{Name: "app-01", VPGs: []string{"VPG-LOCAL"}},
			{Name: "db-01", VPGs: []string{"VPG-LOCAL"}},
			{Name: "win-aws-01", VPGs: []string{"VPG-AWS"}},
			{Name: "az-01", VPGs: []string{"VPG-AZURE"}},
			{Name: "multi-01", VPGs: []string{"VPG-A", "VPG-B"}},
			{Name: "twin", VPGs: []string{"VPG-TWIN-1"}},
			{Name: "twin", VPGs: []string{"VPG-TWIN-2"}},
			{Name: "paused-01", VPGs: []string{"VPG-PAUSED"}},
		},
	}
	if err := e.complete(); err != nil {
		panic("zvmsim: the built-in estate is wrong: " + err.Error())
	}
	return e
}
