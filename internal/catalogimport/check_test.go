package catalogimport

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leaseguard.internal/internal/catalog"
)

const listV = `{"tools":[
	{"name":"off","inputSchema":{"type":"object","properties":{"vm_name":{"type":"string"}}}},
	{"name":"list","annotations":{"readOnlyHint":true}},
	{"name":"wipe","annotations":{"destructiveHint":true}}
]}`

func TestCheck(t *testing.T) {
	ro, mut := catalog.ReadOnly, catalog.Mutating
	all := catalog.Entry{Match: "mcp__v__*", Class: mut, Line: 1}
	tests := []struct {
		name    string
		entries []catalog.Entry
		lists   map[string]string // by server
		want    []string          // kind, tool or entry, and a part of the text
		left    []string
	}{
		{"all fits", []catalog.Entry{{Match: "mcp__v__off", Class: mut, VMArg: "vm_name"}, {Match: "mcp__v__l*", Class: ro}, {Match: "mcp__v__wipe", Class: mut}}, map[string]string{"v": listV}, nil, nil},
		{"unlisted", []catalog.Entry{{Match: "mcp__v__off", Class: mut}}, map[string]string{"v": listV},
			[]string{"unlisted mcp__v__list guard catalog import v=FILE", "unlisted mcp__v__wipe checkpoint.unlisted"}, nil},
		{"stale", []catalog.Entry{all, {Match: "mcp__v__gone", Class: ro, Line: 2}, {Match: "mcp__v__gone_*", Class: ro, Line: 3}}, map[string]string{"v": listV},
			[]string{"stale mcp__v__gone has no tool", "stale mcp__v__gone_* has no tool"}, nil},
		{"shadowed", []catalog.Entry{all, {Match: "mcp__v__of*", Class: mut, Line: 2}, {Match: "mcp__v__off", Class: mut, Line: 3}}, map[string]string{"v": listV},
			[]string{"stale mcp__v__of* a better entry has each"}, nil},
		{"other servers stay unchecked", []catalog.Entry{all, {Match: "mcp__w__x", Class: ro, Line: 2}}, map[string]string{"v": listV}, nil, []string{"mcp__w__x"}},
		{"without a list", []catalog.Entry{all}, nil, nil, []string{"mcp__v__*"}},
		{"a list that goes on makes nothing stale", []catalog.Entry{all, {Match: "mcp__v__gone", Class: ro, Line: 2}}, map[string]string{"v": `{"tools":[],"nextCursor":"x"}`},
			[]string{"incomplete  goes on where the file ends"}, []string{"mcp__v__*", "mcp__v__gone"}},
		{"prefix for two servers", []catalog.Entry{{Match: "mcp__v*", Class: mut, Line: 1}}, map[string]string{"v": `{"tools":[{"name":"a"}]}`, "vw": `{"tools":[{"name":"a"}]}`},
			[]string{"ambiguous mcp__v* several servers (v, vw)"}, nil},
		{"one name for two tools", []catalog.Entry{{Match: "mcp__a__b__c", Class: mut, Line: 1}}, map[string]string{"a": `{"tools":[{"name":"b__c"}]}`, "a__b": `{"tools":[{"name":"c"}]}`},
			[]string{`ambiguous mcp__a__b__c "b__c" of server "a" and "c" of server "a__b"`}, nil},
		{"a name that hosts change", []catalog.Entry{all}, map[string]string{"v": `{"tools":[{"name":"a b"}]}`}, []string{"ambiguous mcp__v__a b ways of their own"}, nil},
		{"vm_arg", []catalog.Entry{{Match: "mcp__v__off", Class: mut, VMArg: "vm", Line: 1}, {Match: "mcp__v__*", Class: mut, Line: 2}}, map[string]string{"v": listV},
			[]string{`vm_arg mcp__v__off its input has no "vm"`}, nil},
		{"read_only against the server's word", []catalog.Entry{{Match: "mcp__v__*", Class: ro, Line: 1}}, map[string]string{"v": listV},
			[]string{"class mcp__v__wipe destructiveHint = true"}, nil},
		{"a host's own", []catalog.Entry{
			{Match: "Read", Class: ro, Line: 1}, {Match: "Bash", Class: mut, Line: 2}, {Match: "WebFetch", Class: ro, Line: 3},
			{Match: "Web*", Class: mut, Line: 4},
		}, nil, []string{"builtin Read remove it", "builtin Bash Bash (claude), Bash (codex)", "builtin WebFetch remove it", "builtin Web* takes in tools of hosts"}, nil},
		{"a host's own, on purpose", []catalog.Entry{{Match: "Bash", Class: mut, VMArg: "host", Line: 1}, {Match: "WebFetch", Class: mut, VMArg: "vm", Line: 2}}, nil, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var lists []*Source
			for _, server := range []string{"a", "a__b", "v", "vw"} {
				if text, ok := tt.lists[server]; ok {
					lists = append(lists, source(t, server+".json", server, text))
				}
			}
			r, err := Check(tt.entries, lists, own)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Findings) != len(tt.want) {
				t.Fatalf("findings %+v, want %q", r.Findings, tt.want)
			}
			for i, f := range r.Findings {
				of := f.Tool
				if of == "" {
					of = f.Entry
				}
				head := string(f.Kind) + " " + of + " "
				if text, ok := strings.CutPrefix(tt.want[i], head); !ok || !strings.Contains(f.Text, text) {
					t.Errorf("finding %d: %+v, want %q", i, f, tt.want[i])
				}
			}
			if d := cmp.Diff(append([]string{}, tt.left...), r.Unchecked); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCheckRefusesAnUnsoundCatalog(t *testing.T) {
	if r, err := Check([]catalog.Entry{{Match: "Bash", Class: catalog.ReadOnly}}, nil, own); err == nil {
		t.Errorf("%+v", r)
	}
}

func TestMissing(t *testing.T) {
	for _, tt := range []struct{ name, schema, path, want string }{
		{"string", `{"properties":{"vm":{"type":"string"}}}`, "vm", ""},
		{"or null", `{"properties":{"vm":{"type":["string","null"]}}}`, "vm", ""},
		{"list", `{"properties":{"vm":{"type":"array","items":{"type":"string"}}}}`, "vm", ""},
		{"list of anything", `{"properties":{"vm":{"type":"array"}}}`, "vm", ""},
		{"element", `{"properties":{"v":{"type":"array","items":{"type":"object","properties":{"n":{"type":"string"}}}}}}`, "v[0].n", ""},
		{"no type", `{"properties":{"vm":{}}}`, "vm", ""},
		{"any", `{"properties":{"vm":true}}`, "vm.name", ""},
		{"elsewhere", `{"properties":{"vm":{"$ref":"#/$defs/vm"}}}`, "vm.name", ""},
		{"one of", `{"oneOf":[{}],"properties":{}}`, "vm", ""},
		{"free form", `{"type":"object"}`, "vm", ""},
		{"no schema", ``, "vm", ""},
		{"no object", `[]`, "vm", ""},

		{"absent", `{"properties":{"vms":{"type":"string"}}}`, "vm", `its input has no "vm"`},
		{"other case", `{"properties":{"VM":{"type":"string"}}}`, "vm", `its input has no "vm"`},
		{"no properties", `{"type":"object","additionalProperties":false}`, "vm", `its input has no "vm"`},
		{"below", `{"properties":{"spec":{"properties":{"x":{}}}}}`, "spec.vm", `"spec" has no "vm"`},
		{"number", `{"properties":{"vm":{"type":"integer"}}}`, "vm", `"vm" is neither a string nor a list of strings`},
		{"object", `{"properties":{"vm":{"type":"object"}}}`, "vm", `"vm" is neither`},
		{"numbers", `{"properties":{"vm":{"type":"array","items":{"type":"number"}}}}`, "vm", `"vm" is a list of something else`},
		{"below a string", `{"properties":{"vm":{"type":"string"}}}`, "vm.name", `"vm" is no object`},
		{"index of a string", `{"properties":{"vm":{"type":"string"}}}`, "vm[0]", `"vm" is no list`},
		{"no path", `{}`, "a..b", "is no path"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := missing([]byte(tt.schema), tt.path); got != tt.want && (tt.want == "" || !strings.HasPrefix(got, tt.want) && !strings.Contains(got, tt.want)) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
