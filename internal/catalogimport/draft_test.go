package catalogimport

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/config"
)

var own = []Builtin{
	{"claude", "Read", NeedsNothing}, {"claude", "WebFetch", NeedsLease}, {"claude", "Bash", NeedsCheckpoint}, {"codex", "Bash", NeedsCheckpoint},
}

const vsphere = `{"jsonrpc":"2.0","id":1,"result":{"new":1,"tools":[
	{"name":"off","description":"Powers off.","inputSchema":{"type":"object","properties":{"vm_name":{"type":"string"},"force":{"type":"boolean"}}},"annotations":{"readOnlyHint":false,"title":"x"}},
	{"name":"list_vms","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
	{"name":"list_and_wipe","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}},
	{"name":"a b","inputSchema":{"type":"object"}},
	{"name":"plain","inputSchema":{"type":"object"}}
]}}`

func source(t *testing.T, name, server, text string) *Source {
	t.Helper()
	s, err := Read(name, server, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// drafted are the entries of a draft, which has to be a guard.toml.
func drafted(t *testing.T, d *Draft) map[string]catalog.Entry {
	t.Helper()
	cfg, err := config.Parse("/x/guard.toml", "user", d.TOML())
	if err != nil {
		t.Fatalf("the draft is no guard.toml: %v\n%s", err, d.TOML())
	}
	entries := map[string]catalog.Entry{}
	for _, e := range cfg.Tools {
		e.Line = 0
		entries[e.Match] = e
	}
	if len(entries) != len(d.Entries) {
		t.Fatalf("%d entries drafted, %d read:\n%s", len(d.Entries), len(entries), d.TOML())
	}
	return entries
}

func entry(match string, class catalog.Class, arg string) catalog.Entry {
	return catalog.Entry{Match: match, Class: class, VMArg: arg, VMKind: catalog.ByName}
}

// TestHintsAreNoClass: what servers say of themselves opens nothing.
func TestHintsAreNoClass(t *testing.T) {
	d := New([]*Source{source(t, "tools.json", "v", vsphere)}, nil, own)
	entries := drafted(t, d)
	for _, match := range []string{"mcp__v__off", "mcp__v__list_vms", "mcp__v__list_and_wipe", "mcp__v__plain"} {
		if diff := cmp.Diff(entry(match, catalog.Mutating, ""), entries[match]); diff != "" {
			t.Errorf("%s: %s", match, diff)
		}
	}
	text := string(d.TOML())
	for _, want := range []string{
		"# Its server says that it only reads (readOnlyHint = true). That is no proof",
		"match = \"mcp__v__list_vms\"\nclass = \"mutating\"\n# class = \"read_only\"\n",
		"match = \"mcp__v__off\"\nclass = \"mutating\"\n# vm_arg = \"vm_name\"\n",
		"# Its server describes it as \"Powers off.\".",
		"# - \"a b\" of \"v\": hosts write such a name",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestGuardConfiguration(t *testing.T) {
	const text = `{
		"read_only_tools": ["list_*", "mcp__files__stat", "Read", "Bash", "WebFetch", "both", "a*b"],
		"tools": {"off": {"vm_arg": "vm_nam", "wait": 3}, "both": {"vm_arg": "vm"}, "Bash": {"vm_arg": "host"}, "none": null, "two": {"vm_arg": ["a", "b"]}, "odd": {"vm_arg": "a..b"}},
		"url": "https://z"
	}`
	d := New([]*Source{source(t, "tools.json", "v", vsphere), source(t, "rewind.json", "v", text)}, nil, own)
	want := map[string]catalog.Entry{}
	for _, e := range []catalog.Entry{
		entry("mcp__v__list_*", catalog.ReadOnly, ""), entry("mcp__files__stat", catalog.ReadOnly, ""),
		entry("mcp__v__list_and_wipe", catalog.Mutating, ""), // its server warns
		entry("mcp__v__off", catalog.Mutating, "vm_nam"),
		entry("mcp__v__both", catalog.Mutating, "vm"), // read-only and with a machine
		entry("mcp__v__plain", catalog.Mutating, ""),
	} {
		want[e.Match] = e
	}
	if diff := cmp.Diff(want, drafted(t, d)); diff != "" {
		t.Error(diff)
	}
	said := string(d.TOML())
	for _, part := range []string{
		`It takes in "mcp__v__list_vms".`, `its input has no "vm_nam".`, "# vm_arg = \"vm_name\"", `"Read": a host's own tool`,
		`"WebFetch": a host's own tool`, `never read_only`, `"mcp__v__a*b": match: `, `"wait" of the tool "off"`, `the key "url"`,
		`vm_arg of the tool "two"`, `"a..b" is no path`, `Without it, "mcp__v__list_*" would take it in as read_only.`,
	} {
		if !strings.Contains(said, part) {
			t.Errorf("no %q in\n%s", part, said)
		}
	}
}

func TestGuardShapes(t *testing.T) {
	want := map[string]catalog.Entry{"mcp__v__off": entry("mcp__v__off", catalog.Mutating, "vm.name")}
	for name, text := range map[string]string{
		"map":     `{"tools":{"mcp__v__off":{"vm_arg":"vm.name"}}}`,
		"list":    `{"read_only_tools":[],"tools":[{"name":"mcp__v__off","vm_arg":"vm.name"}]}`,
		"by tool": `{"vm_arg":{"mcp__v__off":"vm.name"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, drafted(t, New([]*Source{source(t, "r", "", text)}, nil, own))); diff != "" {
				t.Error(diff)
			}
		})
	}
	d := New([]*Source{source(t, "r.json", "", `{"read_only_tools":["list_vms"]}`)}, nil, own)
	if len(d.Entries) != 0 || len(d.Left) != 1 || !strings.Contains(d.Left[0], "give the file as NAME=r.json") {
		t.Errorf("a name without a server: %+v", d)
	}
}

func TestDraftBesideACatalog(t *testing.T) {
	have := []catalog.Entry{{Match: "mcp__v__*", Class: catalog.Mutating, Line: 3}, {Match: "mcp__v__off", Class: catalog.ReadOnly, Line: 7}}
	d := New([]*Source{source(t, "tools.json", "v", vsphere)}, have, own)
	if slices.ContainsFunc(d.Entries, func(e Drafted) bool { return e.Match == "mcp__v__off" }) {
		t.Error("what is listed is drafted once more, which guard.toml would refuse")
	}
	said := string(d.TOML())
	for _, want := range []string{`"mcp__v__off": guard.toml lists it already, as read_only, at line 7`, `guard.toml covers it by "mcp__v__*", mutating, at line 3; this entry would beat that.`} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
}

func TestOneNameForTwoTools(t *testing.T) {
	const a, b = `{"tools":[{"name":"b__c"}]}`, `{"tools":[{"name":"c"}]}`
	d := New([]*Source{source(t, "a", "a", a), source(t, "b", "a__b", b)}, nil, nil)
	if len(d.Entries) != 1 || !strings.Contains(strings.Join(d.Entries[0].Why, " "), `Two tools have this name: the other is "b__c" of "a".`) {
		t.Errorf("%+v", d)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, tt := range []struct{ name, server, text, want string }{
		{"no JSON", "", "read_only_tools:\n  - list_vms\n", "both in JSON"},
		{"neither", "v", `{"x":1}`, "neither a tool list"},
		{"no server", "", `{"tools":[]}`, "give it as NAME=FILE"},
		{"odd server", "a b", `{"tools":[]}`, "no name of a server"},
		{"an error", "v", `{"jsonrpc":"2.0","error":{"code":1}}`, "is an error"},
		{"key in another case", "v", `{"Tools":[]}`, "only after case folding"},
		{"key twice", "v", `{"tools":[],"tools":[]}`, "twice"},
		{"twice inside", "v", `{"tools":[{"name":"a","name":"b"}]}`, "twice"},
		{"no list", "v", `{"tools":"x"}`, "no list of tools"},
		{"hint of another type", "v", `{"tools":[{"name":"a","annotations":{"readOnlyHint":"true"}}]}`, "no list of tools"},
		{"no name", "v", `{"tools":[{"title":"a"}]}`, "tool 1 of the list has no name"},
		{"read-only by number", "", `{"read_only_tools":[1]}`, "want strings"},
		{"tool is a string", "", `{"tools":{"a":"vm"}}`, `tool "a"`},
		{"many tools", "v", `{"tools":[` + strings.Repeat(`{"name":"a"},`, MaxTools) + `{"name":"a"}]}`, "at most 10000"},
		{"deep", "v", `{"tools":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, "levels deep"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if s, err := Read("f.json", tt.server, []byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "reading \"f.json\": ") && tt.server != "a b" {
				t.Errorf("%+v, %v; want %q", s, err, tt.want)
			}
		})
	}
}

// FuzzDraft: whatever files say, the draft is a guard.toml with the entries that
// were drafted and nothing else, and no server's word makes a tool read-only.
func FuzzDraft(f *testing.F) {
	f.Add([]byte(vsphere), []byte(`{"read_only_tools":["x*","\n[[tool]]"],"tools":{"a\u2028b":{"vm_arg":"a[0].b"}}}`))
	f.Add([]byte(`{"tools":[{"name":"a","description":"\n[[tool]]\nmatch = \"x\""}]}`), []byte(`{"vm_arg":{"\"]\n":"x"}}`))
	f.Fuzz(func(t *testing.T, list, guard []byte) {
		var sources []*Source
		if s, err := Read("l\n", "v", list); err == nil {
			for match, e := range drafted(t, New([]*Source{s}, nil, own)) {
				if s.Guard == nil && (e.Class != catalog.Mutating || e.VMArg != "" || !strings.HasPrefix(match, "mcp__v__")) {
					t.Fatalf("the list gave %+v", e)
				}
			}
			sources = append(sources, s)
		}
		if s, err := Read("g", "", guard); err == nil {
			sources = append(sources, s)
		}
		drafted(t, New(sources, nil, own))
	})
}

// TestSuggestionsStandOnce: who uncomments all of them has no key twice.
func TestSuggestionsStandOnce(t *testing.T) {
	d := New([]*Source{
		source(t, "rewind.json", "v", `{"read_only_tools": ["list"], "tools": {"list": {"vm_arg": "vm"}}}`),
		source(t, "tools.json", "v", `{"tools": [{"name": "list", "annotations": {"readOnlyHint": true}, "inputSchema": {"type": "object"}}]}`),
	}, nil, own)
	if n := strings.Count(string(d.TOML()), "# "+readOnlyLine+"\n"); n != 1 {
		t.Errorf("%d times in\n%s", n, d.TOML())
	}
}
