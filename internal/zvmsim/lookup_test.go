package zvmsim

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func (a answer) codeText() string { return strconv.Itoa(a.code) }

// names lists "VM@VPG" of a /v1/vms answer.
func (m *sim) names(t *testing.T, query string) string {
	t.Helper()
	var rows []struct {
		VM  string `json:"VmName"`
		VPG string `json:"VpgName"`
	}
	a := m.get("/v1/vms" + query)
	if a.code != 200 {
		return a.codeText()
	}
	a.decode(t, &rows)
	list := make([]string, len(rows))
	for i, r := range rows {
		list[i] = r.VM + "@" + r.VPG
	}
	return strings.Join(list, " ")
}

func (m *sim) change(f func(*Settings)) {
	m.t.Helper()
	set := m.Behaviour().Settings
	f(&set)
	if err := m.SetSettings(set); err != nil {
		m.t.Fatal(err)
	}
}

const allVMs = "app-01@VPG-LOCAL db-01@VPG-LOCAL win-aws-01@VPG-AWS az-01@VPG-AZURE multi-01@VPG-A multi-01@VPG-B " +
	"twin@VPG-TWIN-1 twin@VPG-TWIN-2 paused-01@VPG-PAUSED"

func TestVMFilters(t *testing.T) {
	m := begin(t, nil)
	id := guid("server", "HQ") + ".vm-101"
	for _, c := range []struct{ name, query, want string }{
		{"none", "", allVMs},
		{"name", "?vmName=app-01", "app-01@VPG-LOCAL"},
		{"name in another case", "?vmName=APP-01", "app-01@VPG-LOCAL"},
		{"key in another case", "?VMNAME=app-01", "app-01@VPG-LOCAL"},
		{"a part of a name", "?vmName=app", ""},
		{"unknown name", "?vmName=nobody", ""},
		{"in two VPGs", "?vmName=multi-01", "multi-01@VPG-A multi-01@VPG-B"},
		{"in two VPGs, one asked for", "?vmName=multi-01&vpgName=vpg-b", "multi-01@VPG-B"},
		{"two of one name", "?vmName=twin", "twin@VPG-TWIN-1 twin@VPG-TWIN-2"},
		{"identifier", "?vmIdentifier=" + id, "app-01@VPG-LOCAL"},
		{"unknown identifier", "?vmIdentifier=" + id + "9", ""},
		{"malformed identifier", "?vmIdentifier=app-01", "400"},
		{"protected type by number", "?protectedSiteType=3", "win-aws-01@VPG-AWS"},
		{"protected type by name", "?protectedSiteType=azure", "az-01@VPG-AZURE"},
		{"status by name", "?status=notmeetingsla", "paused-01@VPG-PAUSED"},
		{"sub-status by number", "?subStatus=25", "paused-01@VPG-PAUSED"},
		{"protected site", "?protectedSiteIdentifier=" + guid("site", "AWS-EU"), "win-aws-01@VPG-AWS"},
		{"recovery site", "?recoverySiteIdentifier=" + guid("site", "DR-2"), "multi-01@VPG-B twin@VPG-TWIN-2"},
		{"priority", "?priority=high", ""},
		{"organization", "?organizationName=x", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := m.names(t, c.query); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestFilterModes(t *testing.T) {
	m := begin(t, nil)
	for _, c := range []struct {
		name, query, want string
		change            func(*Settings)
	}{
		{"substring", "?vmName=01&vpgName=local", "app-01@VPG-LOCAL db-01@VPG-LOCAL", func(s *Settings) { s.Filters = "substring" }},
		{"ignored", "?vmName=app-01", allVMs, func(s *Settings) { s.Filters = "ignore" }},
		{"unknown VM is 400", "?vmName=nobody", "400", func(s *Settings) { s.UnknownVM400 = true }},
		{"known VM isn't", "?vmName=twin", "twin@VPG-TWIN-1 twin@VPG-TWIN-2", func(s *Settings) { s.UnknownVM400 = true }},
		{"old builds say 500", "?vmIdentifier=app-01", "500", func(s *Settings) { s.OldBuild = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer m.Reset()
			m.change(c.change)
			if got := m.names(t, c.query); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestOneVMAndOneVPG(t *testing.T) {
	m := begin(t, nil)
	single, multi := guid("server", "HQ")+".vm-101", guid("server", "HQ")+".vm-105"
	for _, c := range []struct{ name, path, want string }{
		{"in one VPG", "/v1/vms/" + single, `200 "VmName":"app-01"`},
		{"other case", "/V1/VMs/" + strings.ToUpper(single), `200 "VmName":"app-01"`},
		{"in two VPGs", "/v1/vms/" + multi, "400 vpgIdentifier is required"},
		{"in two VPGs, one named", "/v1/vms/" + multi + "?vpgIdentifier=" + guid("vpg", "VPG-B"), `200 "VpgName":"VPG-B"`},
		{"unknown VM", "/v1/vms/" + single + "0", "404 "},
		{"malformed VM", "/v1/vms/app-01", "400 Message"},
		{"VPG", m.vpg("VPG-A"), `200 "VpgName":"VPG-A"`},
		{"VPG list by name", "/v1/vpgs?name=vpg-a", `200 "VpgName":"VPG-A"`},
		{"unknown VPG", m.vpg("nothing"), "404 "},
		{"malformed VPG", "/v1/vpgs/VPG-A", "400 Message"},
		{"statuses", "/v1/vpgs/statuses", `200 ["Initializing","MeetingSLA"`},
		{"sub-statuses", "/v1/vpgs/subStatuses", `200 "BitmapSync"`},
		{"entity types", "/v1/vpgs/entitytypes", `200 "Aws"`},
		{"priorities", "/v1/vpgs/priorities", `200 ["Low","Medium","High"]`},
		{"own site", "/v1/localsite", `200 "SiteType":"VCenter"`},
		{"peers", "/v1/peersites?peerName=AWS-EU", `200 "SiteType":"AWS"`},
		{"peer name is case-sensitive", "/v1/peersites?peerName=aws-eu", "200 []"},
		{"peer", "/v1/peersites/" + guid("site", "AZURE-EU"), `200 "SiteType":"Azure"`},
		{"unknown peer", "/v1/peersites/" + guid("site", "x"), "404 "},
		{"malformed peer", "/v1/peersites/x", "400 "},
		{"time", "/v1/serverDateTime/serverDateTimeUtc", `200 "2026-03-01T12:00:00.400Z"`},
		{"time argument", "/v1/serverDateTime/dateTimeArgument?dateTime=2026-03-01T10:00", `200 "2026-03-01T10:00:00.000Z"`},
		{"bad time argument", "/v1/serverDateTime/dateTimeArgument?dateTime=soon", "400 "},
		{"unknown path", "/v1/alerts", "404 Message"},
		{"Windows session", "/v1/session/add", "404 Message"},
		{"malformed query", "/v1/vms?a=%zz", "400 "},
	} {
		t.Run(c.name, func(t *testing.T) { m.want(t, m.get(c.path), c.want) })
	}
	m.want(t, m.post("/v1/vms", "{}"), "405 ")
}

func TestShapeOfAVM(t *testing.T) {
	m := begin(t, nil)
	id, vpg, query := guid("server", "HQ")+".vm-103", guid("vpg", "VPG-AWS"), "?"+url.Values{"vmName": {"win-aws-01"}}.Encode()
	has := func(t *testing.T, parts ...string) {
		t.Helper()
		a := m.get("/v1/vms" + query)
		for _, p := range parts {
			if !strings.Contains(a.text, p) {
				t.Errorf("%q isn't in %s", p, a.text)
			}
		}
	}
	t.Run("as the wire has it", func(t *testing.T) {
		has(t, `"VmIdentifier":"`+id+`"`, `"Status":1,"SubStatus":0`, `"Entities":{"Protected":3,"Recovery":0,`,
			`"ProtectedSite":{"identifier":"`+guid("site", "AWS-EU"), `"type":"PeerSiteApi"}`,
			`"Link":{"identifier":"`+id+`?VpgIdentifier=`+vpg+`"`, `"IOPs":`)
	})
	t.Run("as the specification has it", func(t *testing.T) {
		defer m.Reset()
		m.change(func(s *Settings) { s.CamelCase, s.EnumNames = true, true })
		has(t, `"vmIdentifier":"`+id+`"`, `"status":"MeetingSLA","subStatus":"None"`, `"entities":{"protected":"Aws","recovery":"VCVpg",`,
			`"link":{"identifier":"`+id+`?VpgIdentifier=`, `"ioPs":`)
	})
	t.Run("old build", func(t *testing.T) {
		defer m.Reset()
		m.change(func(s *Settings) { s.OldBuild = true })
		has(t, `"Link":{`, `"Link_{0}":{`)
	})
}

// TestShownStatus holds that each form of a status can be shown while the
// journal goes on as before.
func TestShownStatus(t *testing.T) {
	m := begin(t, nil)
	for _, c := range []struct{ fault, want string }{
		{"status:2", `"Status":2,`},
		{"status:MeetingSLA", `"Status":"MeetingSLA",`},
		{`status:"1"`, `"Status":"1",`},
		{"status:null", `"Status":null,`},
		{"status:99,sub_status:23", `"Status":99,"SubStatus":23,`},
		{"omit_status", `"VpgName":"VPG-A","SubStatus":0`},
	} {
		t.Run(c.fault, func(t *testing.T) {
			b, err := Flags{Faults: []string{"VPG-A=" + c.fault}}.Parse()
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Set("VPG-A", b.Faults["VPG-A"]); err != nil {
				t.Fatal(err)
			}
			m.want(t, m.get(m.vpg("VPG-A")), "200 "+c.want)
			m.want(t, m.get("/v1/vms?vpgName=VPG-A"), "200 "+c.want)
			if !strings.Contains(m.get(m.vpg("VPG-B")).text, `"Status":1,`) {
				t.Error("another VPG shows it too")
			}
		})
	}
}

func TestInCloud(t *testing.T) {
	m := begin(t, func(o *Options) { o.Behaviour.Settings.InCloud = true })
	m.want(t, m.get("/v1/vms"), "404 <html>")
	m.want(t, m.get("/zic/api/v1/vpgs"), "200 []")
	a := m.post("/zic/api/v1/vpgs/x/checkpoints", "{}")
	if diff := cmp.Diff(answer{202, ""}, a, cmp.AllowUnexported(answer{})); diff != "" {
		t.Error(diff)
	}
}
