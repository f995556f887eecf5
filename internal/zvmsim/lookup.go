package zvmsim

import (
	"net/http"
	"strings"
)

// listVMs serves GET /v1/vms: one row per machine and VPG.
func (s *Server) listVMs(c *call) reply {
	if id := c.query["vmidentifier"]; id != "" && !vmForm.MatchString(id) {
		return s.malformed("failed parsing %q as a valid VM identifier", id)
	}
	rows := []obj{}
	named := false
	for _, g := range s.groups {
		for _, vm := range g.vms {
			named = named || strings.EqualFold(vm.Name, c.query["vmname"])
			if s.vmPasses(c.query, g, vm) {
				rows = append(rows, s.vmObject(g, vm))
			}
		}
	}
	if name := c.query["vmname"]; s.now.Settings.UnknownVM400 && name != "" && !named {
		return s.malformed("VM %q is unknown", name)
	}
	return ok(rows)
}

// oneVM serves GET /v1/vms/ID, which needs vpgIdentifier for a machine in
// several VPGs.
func (s *Server) oneVM(c *call) reply {
	if !vmForm.MatchString(c.arg) {
		return s.malformed("failed parsing %q as a valid VM identifier", c.arg)
	}
	rows := []obj{}
	for _, g := range s.groups {
		for _, vm := range g.vms {
			want := c.query["vpgidentifier"]
			if strings.EqualFold(vm.ID, c.arg) && (want == "" || strings.EqualFold(want, g.spec.ID)) {
				rows = append(rows, s.vmObject(g, vm))
			}
		}
	}
	switch len(rows) {
	case 0:
		return message(http.StatusNotFound, "VM %q was not found", c.arg)
	case 1:
		return ok(rows[0])
	default:
		return s.malformed("VM %q is protected in several VPGs: vpgIdentifier is required", c.arg)
	}
}

// listVPGs serves GET /v1/vpgs.
func (s *Server) listVPGs(c *call) reply {
	rows := []obj{}
	for _, g := range s.groups {
		if s.textPasses(c.query["name"], g.spec.Name) && s.groupPasses(c.query, g) {
			rows = append(rows, s.vpgObject(g, c))
		}
	}
	return ok(rows)
}

// oneVPG serves GET /v1/vpgs/ID.
func (s *Server) oneVPG(c *call) reply {
	if rep, bad := s.noGroup(c); bad {
		return rep
	}
	return ok(s.vpgObject(c.group, c))
}

// noGroup answers for a VPG identifier that fits nothing.
func (s *Server) noGroup(c *call) (reply, bool) {
	switch {
	case !guidForm.MatchString(c.arg):
		return s.malformed("failed parsing %q as a valid VPG identifier", c.arg), true
	case c.group == nil:
		return message(http.StatusNotFound, "VPG with identifier %s was not found", c.arg), true
	default:
		return reply{}, false
	}
}

func (s *Server) vmPasses(q values, g *group, vm *VM) bool {
	return s.textPasses(q["vmname"], vm.Name) && s.textPasses(q["vpgname"], g.spec.Name) &&
		(s.ignored() || q["vmidentifier"] == "" || strings.EqualFold(q["vmidentifier"], vm.ID)) &&
		s.groupPasses(q, g)
}

// groupPasses applies the filters that machines and VPGs share.
func (s *Server) groupPasses(q values, g *group) bool {
	if s.ignored() {
		return true
	}
	enums := map[string]enum{
		"status":            {*g.spec.Status, statusNames},
		"substatus":         {g.spec.SubStatus, subStatusNames},
		"protectedsitetype": s.protected(g), "sourcetype": s.protected(g),
		"recoverysitetype": s.recovery(g), "targettype": s.recovery(g),
		"priority": {priorityMedium, priorityNames},
	}
	for key, e := range enums {
		if want := q[key]; want != "" && !e.is(want) {
			return false
		}
	}
	from, to := s.estate.site(g.spec.ProtectedSite), s.estate.site(g.spec.RecoverySite)
	texts := map[string]string{
		"protectedsiteidentifier": from.ID, "sourcesite": from.Name,
		"recoverysiteidentifier": to.ID, "targetsite": to.Name,
		"organizationname": "", "zorgidentifier": "", "serviceprofileidentifier": "",
	}
	for key, have := range texts {
		if want := q[key]; want != "" && !strings.EqualFold(want, have) {
			return false
		}
	}
	return !strings.EqualFold(q["backupenabled"], "true")
}

func (s *Server) ignored() bool { return s.now.Settings.Filters == "ignore" }

// textPasses applies a filter by name, which is never case-sensitive.
func (s *Server) textPasses(want, have string) bool {
	switch {
	case want == "" || s.ignored():
		return true
	case s.now.Settings.Filters == "substring":
		return strings.Contains(strings.ToLower(have), strings.ToLower(want))
	default:
		return strings.EqualFold(want, have)
	}
}

func (s *Server) protected(g *group) enum { return enum{*g.spec.Protected, entityNames} }

func (s *Server) recovery(g *group) enum {
	return enum{entities[s.estate.site(g.spec.RecoverySite).Type], entityNames}
}
