//go:build hosts

package hosts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/fakemodel"
)

// probe is one tool call whose hooks are measured. want is the measurement in
// the form of measured.String; "" stands for the usual one.
type probe struct {
	name, tool, input string
	want              string
}

// What most calls come to: both hooks with the same bytes, which are what the
// model said; or no hook at all, because the client refused the call itself.
const (
	usual   = "Pre Post | bytes | same"
	unasked = " | - | -"
)

// id is the probe's tool_use id, by which its hooks are found.
func (p probe) id() string { return "toolu_" + strings.ReplaceAll(p.name, " ", "_") }

// step makes the call.
func (p probe) step() fakemodel.Step {
	return fakemodel.UseAll(fakemodel.Call{ID: p.id(), Name: p.tool, Input: p.input})
}

// measured is what the hooks of one call were given.
type measured struct {
	events   []string // in order, without the PreToolUse part of the name
	bytes    string   // how the inputs of Pre and Post compare
	added    string   // keys that the hook has and the model didn't send, and the reverse
	told     string
	pre, end *event
}

// measure gathers the hooks of a call.
func (w *world) measure(p probe) measured {
	w.t.Helper()
	m := measured{bytes: "-", added: "-", told: w.told(p.id())}
	for _, e := range w.hooks() {
		if e.ToolUse != p.id() {
			continue
		}
		m.events = append(m.events, strings.Replace(e.Name, "ToolUse", "", 1))
		switch e.Name {
		case "PreToolUse":
			m.pre = &e
		case "PostToolUse", "PostToolUseFailure":
			m.end = &e
		}
	}
	if m.pre != nil {
		m.added = keyChange(w.t, []byte(p.input), m.pre.Input)
	}
	if m.pre != nil && m.end != nil {
		switch {
		case slices.Equal(m.pre.Input, m.end.Input):
			m.bytes = "bytes"
		case jsonEqual(w.t, m.pre.Input, m.end.Input):
			m.bytes = "JSON"
		default:
			m.bytes = "differs " + keyChange(w.t, m.pre.Input, m.end.Input)
		}
	}
	return m
}

// told is what the model heard of a call.
func (w *world) told(id string) string {
	for _, r := range w.Model.Results() {
		if r.ID == id {
			return told(r)
		}
	}
	return ""
}

// String is the measurement in one line.
func (m measured) String() string {
	return fmt.Sprintf("%s | %s | %s", strings.Join(m.events, " "), m.bytes, m.added)
}

// keyChange names the top-level keys by which b differs from a.
func keyChange(t *testing.T, a, b []byte) string {
	t.Helper()
	var x, y map[string]jsontext.Value
	if json.Unmarshal(a, &x, lenient, jsontext.AllowDuplicateNames(true)) != nil {
		return "no JSON"
	}
	must(t, json.Unmarshal(b, &y, lenient))
	var out []string
	for k, v := range y {
		switch old, ok := x[k]; {
		case !ok:
			out = append(out, "+"+k)
		case !slices.Equal(old, v) && !jsonEqual(t, old, v):
			out = append(out, "~"+k)
		}
	}
	for k := range x {
		if _, ok := y[k]; !ok {
			out = append(out, "-"+k)
		}
	}
	if len(out) == 0 {
		return "same"
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// report prints the table and holds each line to what was measured before.
func (w *world) report(probes []probe) {
	w.t.Helper()
	w.t.Log("| tool | call | hooks | Pre and Post | Pre and model | the model was told")
	for _, p := range probes {
		m := w.measure(p)
		w.t.Logf("| %s | %s | %s | %.110q", p.tool, p.name, m, m.told)
		if want := cmp.Or(p.want, usual); m.String() != want {
			w.t.Errorf("%s: measured\n%s, want\n%s", p.name, m, want)
		}
	}
}

// keys lists the top-level keys of an object, sorted.
func keys(t *testing.T, object []byte) string {
	t.Helper()
	var m map[string]jsontext.Value
	must(t, json.Unmarshal(object, &m, lenient))
	return strings.Join(slices.Sorted(maps.Keys(m)), " ")
}
