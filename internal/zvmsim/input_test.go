package zvmsim

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDefaultEstate(t *testing.T) {
	e := DefaultEstate()
	for _, want := range []struct {
		vm, vpgs string
		entity   int
	}{
		{"app-01", "VPG-LOCAL", 0}, {"db-01", "VPG-LOCAL", 0}, {"win-aws-01", "VPG-AWS", 3}, {"az-01", "VPG-AZURE", 5},
		{"multi-01", "VPG-A VPG-B", 0}, {"twin", "VPG-TWIN-1", 0}, {"paused-01", "VPG-PAUSED", 0},
	} {
		found := false
		for _, vm := range e.VMs {
			if vm.Name != want.vm || strings.Join(vm.VPGs, " ") != want.vpgs {
				continue
			}
			for _, g := range e.VPGs {
				found = found || g.Name == vm.VPGs[0] && *g.Protected == want.entity
			}
		}
		if !found {
			t.Errorf("%s in %s isn't there", want.vm, want.vpgs)
		}
	}
	again := DefaultEstate()
	if diff := cmp.Diff(e, again); diff != "" {
		t.Errorf("identifiers change from run to run: %s", diff)
	}
	if err := again.complete(); err != nil || !cmp.Equal(e, again) {
		t.Errorf("completing twice changes it: %v", err)
	}
}

func TestParseEstate(t *testing.T) {
	long := strings.Repeat(" ", maxEstate)
	for _, c := range []struct{ name, text, err string }{
		{"least", `{}`, ""},
		{"a VPG and its VM", `{"vpgs":[{"name":"G"}],"vms":[{"name":"m","vpgs":["G"]}]}`, ""},
		{"two of one name in two VPGs", `{"vpgs":[{"name":"G"},{"name":"g"}],"vms":[{"name":"m","vpgs":["G"]},{"name":"m","vpgs":["g"]}]}`, ""},
		{"everything", `{"site":{"name":"A","type":"AWS","id":"11111111-1111-1111-1111-111111111111"},"peers":[{"name":"B","type":"SCVMM"}],
			"vpgs":[{"name":"G","id":"22222222-2222-2222-2222-222222222222","protected_site":"B","recovery_site":"A","protected":5,"status":2,"sub_status":24,"journal_minutes":5}],
			"vms":[{"name":"m","id":"33333333-3333-3333-3333-333333333333.vm-1","vpgs":["G"]}]}`, ""},
		{"no JSON", `x`, "reading estate"},
		{"unknown key", `{"vm":[]}`, "unknown key"},
		{"key in another case", `{"VMs":[]}`, "unknown key"},
		{"a key twice", `{"vms":[],"vms":[]}`, "reading estate"},
		{"something behind it", `{} {}`, "reading estate"},
		{"too long", `{}` + long, "at most"},
		{"site of no type", `{"site":{"name":"A","type":"vcenter"}}`, "want VCenter"},
		{"peer without a name", `{"peers":[{}]}`, "a site has no name"},
		{"two sites of one name", `{"site":{"name":"A"},"peers":[{"name":"A"}]}`, "give it another"},
		{"two VPGs of one name", `{"vpgs":[{"name":"G"},{"name":"G"}]}`, "give it another"},
		{"VPG of an unknown site", `{"vpgs":[{"name":"G","protected_site":"X"}]}`, "add it to peers"},
		{"journal too long", `{"vpgs":[{"name":"G","journal_minutes":99999}]}`, "journal_minutes"},
		{"VPG id", `{"vpgs":[{"name":"G","id":"x"}]}`, "want a GUID"},
		{"VM without a name", `{"vms":[{}]}`, "has no name"},
		{"VM in no VPG", `{"vms":[{"name":"m"}]}`, "want one to three"},
		{"VM of an unknown VPG", `{"vms":[{"name":"m","vpgs":["G"]}]}`, "add it to vpgs"},
		{"VM twice in one", `{"vpgs":[{"name":"G"}],"vms":[{"name":"m","vpgs":["G","G"]}]}`, "twice"},
		{"VM id", `{"vpgs":[{"name":"G"}],"vms":[{"name":"m","id":"vm-1","vpgs":["G"]}]}`, "server GUID"},
		{"two VMs of one id", `{"vpgs":[{"name":"G"}],"vms":[{"name":"m","vpgs":["G"]},{"name":"n","id":"` + DefaultEstate().VMs[0].ID + `","vpgs":["G"]}]}`, "give it another"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := ParseEstate([]byte(c.text))
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %+v, %v; want error %q", e, err, c.err)
			}
		})
	}
}

func TestParseFlags(t *testing.T) {
	for _, c := range []struct {
		name string
		f    Flags
		err  string
	}{
		{"none", Flags{}, ""},
		{"slow", Flags{Speed: "slow"}, ""},
		{"unknown speed", Flags{Speed: "warp"}, "want default, slow or fast"},
		{"latency without a value", Flags{Latency: []string{"token"}}, "want a number with a unit"},
		{"latency backwards", Flags{Latency: []string{"token=2s..1s"}}, "before its start"},
		{"unknown latency", Flags{Latency: []string{"tokens=1s"}}, "want one of"},
		{"fault without a VPG", Flags{Faults: []string{"no_tag"}}, "want VPG=fault"},
		{"unknown fault", Flags{Faults: []string{"G=no_tags"}}, "isn't known"},
		{"unknown fault with a value", Flags{Faults: []string{"G=x:1"}}, "isn't known"},
		{"code", Flags{Faults: []string{"G=refused,code:x"}}, "isn't a number"},
		{"variant", Flags{Variants: []string{"G=d"}}, "want VPG=a"},
		{"unknown setting", Flags{Settings: []string{"speed=1"}}, "want one of token_life, any_scope, "},
		{"setting of another type", Flags{Settings: []string{"camel_case=yes"}}, "malformed"},
		{"token life", Flags{Settings: []string{"token_life=1ms"}}, "out of range"},
		{"answer", Flags{Answers: []string{"task=401"}}, "--answer"},
		{"answer's op", Flags{Answers: []string{`{"op":"x"}`}}, "want one of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.f.Parse()
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %v, want %q", err, c.err)
			}
		})
	}
	got, err := Flags{
		Speed: "fast", Latency: []string{"token=200ms,insert=100ms..300ms", "visible=-1s"},
		Faults:   []string{"G=no_tag,status:2,tag_on:H", "G=sub_status:Sync,omit_status", "*=refused,code:503"},
		Variants: []string{"A=b"}, Settings: []string{"token_life=5s,camel_case,enum_names=true,filters=ignore"},
		Answers: []string{`{"op":"task","status":401,"times":1}`},
	}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	want, err := Preset("fast")
	if err != nil {
		t.Fatal(err)
	}
	want.Latency[OpToken], want.Latency[Visible] = Fixed(200*time.Millisecond), Fixed(-time.Second)
	want.Latency[OpInsert] = Range{100 * time.Millisecond, 300 * time.Millisecond}
	want.Settings = Settings{TokenLife: Span(5 * time.Second), CamelCase: true, EnumNames: true, Filters: "ignore"}
	want.Faults = map[string]Faults{
		"G": {Insert: InsertNoTag, Status: []byte("2"), SubStatus: []byte(`"Sync"`), TagOn: "H", OmitStatus: true},
		"*": {Insert: InsertRefused, Code: 503}, "A": {Insert: InsertFails},
	}
	want.Answers = []Answer{{Op: OpTask, Status: 401, Times: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzParseEstate(f *testing.F) {
	f.Add([]byte(`{"vpgs":[{"name":"G"}],"vms":[{"name":"m","vpgs":["G"]}]}`))
	f.Add([]byte(`{"site":{"type":"AWS"},"peers":[{"name":"B"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := ParseEstate(data)
		if err != nil {
			return
		}
		again, err := ParseEstate(jsonText(e))
		if err != nil || string(jsonText(e)) != string(jsonText(again)) {
			t.Errorf("it doesn't read its own output: %v\n%s", err, cmp.Diff(e, again))
		}
	})
}

// The names that --setting is told by are those of the settings' JSON.
func TestSettingKeys(t *testing.T) {
	var tags []string
	settings := reflect.TypeFor[Settings]()
	for i := range settings.NumField() {
		tags = append(tags, settings.Field(i).Tag.Get("json"))
	}
	if !slices.Equal(tags, settingKeys) {
		t.Errorf("settingKeys %v, want %v", settingKeys, tags)
	}
}

func FuzzFlags(f *testing.F) {
	f.Add("token=1s..2s", "G=no_tag,status:2", "camel_case", `{"op":"task"}`)
	f.Fuzz(func(t *testing.T, latency, fault, setting, answer string) {
		b, err := Flags{Latency: []string{latency}, Faults: []string{fault}, Settings: []string{setting}, Answers: []string{answer}}.Parse()
		if err == nil && b.check() != nil {
			t.Error("it accepts what a simulator refuses")
		}
	})
}

func FuzzRequestText(f *testing.F) {
	f.Add([]byte(`{"checkpointName":"t"}`), "2026-03-01T10:00:00Z", "/v1/vpgs/x/checkpoints")
	s := &Server{}
	f.Fuzz(func(_ *testing.T, body []byte, date, path string) {
		_, _ = tagOf(body)
		_, _ = s.parseDate(date)
		for _, r := range routes {
			match(r.path, path)
		}
	})
}
