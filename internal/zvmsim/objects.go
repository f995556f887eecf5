package zvmsim

import (
	"time"
)

// rpo is what healthy replication shows, in seconds.
const rpo = 5

// vmObject is a VmApi. VmIdentifier and VpgIdentifier are in no specification,
// yet servers send them.
func (s *Server) vmObject(g *group, vm *VM) obj {
	status, sub := s.shownStatus(g)
	return obj{
		{"VmIdentifier", vm.ID},
		{"VmName", vm.Name},
		{"VpgIdentifier", g.spec.ID},
		{"VpgName", g.spec.Name},
		{"Status", status},
		{"SubStatus", sub},
		{"ActualRPO", rpo},
		{"Priority", enum{priorityMedium, priorityNames}},
		{"IsVmExists", true},
		{"OrganizationName", ""},
		{"Entities", s.entities(g)},
		{"ProtectedSite", s.siteLink(g.spec.ProtectedSite)},
		{"RecoverySite", s.siteLink(g.spec.RecoverySite)},
		{"ProtectedSiteName", g.spec.ProtectedSite},
		{"RecoverySiteName", g.spec.RecoverySite},
		{"ProvisionedStorageInMB", 40960},
		{"UsedStorageInMB", 20480},
		{"IOPs", 12},
		{"ThroughputInMB", 0.5},
		{"EnabledActions", obj{{"IsFlrEnabled", true}}},
		{"Link", s.link(vm.ID+"?VpgIdentifier="+g.spec.ID, "/v1/vms/"+vm.ID, "VmApi")},
	}
}

// vpgObject is a VpgApi.
func (s *Server) vpgObject(g *group, c *call) obj {
	status, sub := s.shownStatus(g)
	history, test := 0, any(nil)
	if s.faults(g).Testing {
		test = obj{{"Stage", "Testing"}}
	}
	var earliest any
	if len(g.points) > 0 {
		history = int(c.now.Sub(g.points[0].born) / time.Minute)
		earliest = g.points[0].object()
	}
	return obj{
		{"VpgIdentifier", g.spec.ID},
		{"VpgName", g.spec.Name},
		{"Status", status},
		{"SubStatus", sub},
		{"AlertStatus", 0},
		{"Entities", s.entities(g)},
		{"ProtectedSite", s.siteLink(g.spec.ProtectedSite)},
		{"RecoverySite", s.siteLink(g.spec.RecoverySite)},
		{"ProtectedSiteName", g.spec.ProtectedSite},
		{"RecoverySiteName", g.spec.RecoverySite},
		{"SourceSite", g.spec.ProtectedSite},
		{"TargetSite", g.spec.RecoverySite},
		{"OrganizationName", ""},
		{"VmsCount", len(g.vms)},
		{"ActualRPO", rpo},
		{"ConfiguredRpoSeconds", 300},
		{"Priority", enum{priorityMedium, priorityNames}},
		{"ProgressPercentage", 0},
		{"BackupEnabled", false},
		{"ActiveProcessesApi", obj{{"RunningFailOverTestApi", test}}},
		{"HistoryStatusApi", obj{
			{"ActualHistoryInMinutes", history},
			{"ConfiguredHistoryInMinutes", g.spec.JournalMinutes},
			{"EarliestCheckpoint", earliest},
		}},
		{"IOPs", 12},
		{"ThroughputInMB", 0.5},
		{"ProvisionedStorageInMB", 40960 * len(g.vms)},
		{"UsedStorageInMB", 20480 * len(g.vms)},
		{"Link", s.link(g.spec.ID, "/v1/vpgs/"+g.spec.ID, "VpgApi")},
	}
}

// shownStatus is what the VPG says of itself, or what its faults make it say.
func (s *Server) shownStatus(g *group) (status, sub any) {
	f := s.faults(g)
	status, sub = enum{*g.spec.Status, statusNames}, enum{g.spec.SubStatus, subStatusNames}
	if f.Status != nil {
		status = f.Status
	}
	if f.OmitStatus {
		status = absent{}
	}
	if f.SubStatus != nil {
		sub = f.SubStatus
	}
	return status, sub
}

func (s *Server) entities(g *group) obj {
	from, to := s.protected(g), s.recovery(g)
	return obj{{"Protected", from}, {"Recovery", to}, {"Source", from}, {"Target", to}}
}

func (s *Server) siteLink(name string) link {
	site := s.estate.site(name)
	if site == &s.estate.Site {
		return s.link(site.ID, "/v1/localsite", "LocalSiteApi")
	}
	return s.link(site.ID, "/v1/peersites/"+site.ID, "PeerSiteApi")
}

func (s *Server) link(id, path, kind string) link {
	return link{{"identifier", id}, {"href", s.info.URL + path}, {"rel", nil}, {"type", kind}}
}

// faults returns what holds for a VPG: its own, else those of "*".
func (s *Server) faults(g *group) Faults {
	if f, own := s.now.Faults[g.spec.Name]; own {
		return f
	}
	return s.now.Faults[everyVPG]
}

// latency returns a time's range for a VPG: its own, else the server's.
func (s *Server) latency(g *group, key string) Range {
	if g != nil {
		if r, own := s.faults(g).Latency[key]; own {
			return r
		}
	}
	return s.now.Latency[key]
}
