package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leaseguard.internal/internal/holes"
)

func row(id, state string) holes.Row {
	return holes.Row{Host: "claude", Version: "2.1.9", ID: id, What: "a | b", State: state, By: "the *gate*", Test: "TestX/y"}
}

func nightly(r holes.Row) holes.Row {
	r.Nightly = true
	return r
}

func TestCheck(t *testing.T) {
	a, b, n := row("a", "closed"), row("b", "open"), nightly(row("n", "closed"))
	tests := []struct {
		name         string
		run          run
		known, shown []holes.Row
		want         string // "" passes
	}{
		{"the same", run{}, []holes.Row{a, b}, []holes.Row{a, b}, ""},
		{"missing", run{}, []holes.Row{a, b}, []holes.Row{a}, "FAIL claude 2.1.9 b: no test has shown it"},
		{"new", run{}, []holes.Row{a}, []holes.Row{a, b}, "FAIL claude 2.1.9 b: new, and open"},
		{"another state", run{}, []holes.Row{a}, []holes.Row{row("a", "open")}, "FAIL claude 2.1.9 a: is {"},
		{"nightly, not tried", run{}, []holes.Row{a, n}, []holes.Row{a}, ""},
		{"nightly, tried", run{nightly: true}, []holes.Row{a, n}, []holes.Row{a, n}, ""},
		{"nightly, missing", run{nightly: true}, []holes.Row{a, n}, []holes.Row{a}, "n: no test has shown it"},
		{"nightly, of each change in truth", run{}, []holes.Row{a, n}, []holes.Row{a, n}, "n: marked nightly, but"},
		{"not marked nightly any more", run{}, []holes.Row{nightly(a)}, []holes.Row{a}, "a: is {"},
		{"new and nightly", run{nightly: true}, []holes.Row{a}, []holes.Row{a, n}, "n: new, and closed"},
		{"without root, not tried", run{partial: true}, []holes.Row{a, b}, []holes.Row{a}, ""},
		{"without root, new", run{partial: true}, []holes.Row{a}, []holes.Row{a, b}, "b: new"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			code := tt.run.check(tt.known, tt.shown, &out)
			if (code == 0) != (tt.want == "") || !strings.Contains(out.String(), tt.want) {
				t.Errorf("exit %d, want %q in:\n%s", code, tt.want, &out)
			}
			if named := strings.Contains(out.String(), "make holes"); named != (code != 0) {
				t.Errorf("names make holes: %v, exit %d:\n%s", named, code, &out)
			}
		})
	}
}

// module is a directory with a list and a document.
func module(t *testing.T, text string) (root, rows string) {
	t.Helper()
	root, rows = t.TempDir(), t.TempDir()
	for name, content := range map[string]string{list: text, doc: "# Hosts\n" + begin + "old\n" + end + "after\n"} {
		put(t, filepath.Join(root, name), content)
	}
	return root, rows
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestWrite: the same rows give the same bytes, in an order of their own, and
// then the check passes.
func TestWrite(t *testing.T) {
	root, rows := module(t, "[]")
	const pi = `{"host":"pi","version":"1.6.0","id":"x","what":"w","state":"open","by":"b","test":"TestP"}`
	put(t, filepath.Join(rows, "1.json"), pi)
	put(t, filepath.Join(rows, "2.json"), `{"host":"claude","version":"2.1.10","id":"b","what":"a | b <c>","state":"closed","by":"the *gate*","test":"TestX/y"}`)
	put(t, filepath.Join(rows, "3.json"), `{"host":"claude","version":"2.1.9","id":"c","what":"w","state":"compensated","by":"b","test":"TestY","nightly":true}`)
	var first string
	for range 2 {
		var out, errs bytes.Buffer
		if code := (run{nightly: true}).main([]string{"-root", root, "-rows", rows, "-write"}, &out, &errs); code != 0 || out.String() != "3 holes, 1 closed, 1 compensated, 1 open\n" {
			t.Fatalf("exit %d, %s%s", code, &out, &errs)
		}
		text := get(t, filepath.Join(root, list))
		if first != "" && text != first {
			t.Errorf("wrote\n%s then\n%s", first, text)
		}
		first = text
	}
	want := "# Hosts\n" + begin + `
| host | version | hole | state | by, or what to do | test |
|---|---|---|---|---|---|
` + "| claude | 2.1.9 | `c`: w | compensated | b (tried nightly) | `TestY` |\n" +
		"| claude | 2.1.10 | `b`: a \\| b &lt;c> | closed | the \\*gate\\* | `TestX` |\n" +
		"| pi | 1.6.0 | `x`: w | open | b | `TestP` |\n\n" + end + "after\n"
	if d := cmp.Diff(want, get(t, filepath.Join(root, doc))); d != "" {
		t.Error(d)
	}
	if code := (run{nightly: true}).main([]string{"-root", root, "-rows", rows}, new(bytes.Buffer), new(bytes.Buffer)); code != 0 {
		t.Errorf("what was written fails its check: exit %d", code)
	}
	put(t, filepath.Join(root, doc), begin+end)
	if code := (run{}).main([]string{"-root", root}, new(bytes.Buffer), new(bytes.Buffer)); code != 0 || !strings.Contains(get(t, filepath.Join(root, doc)), "`TestP`") {
		t.Errorf("the table alone: exit %d", code)
	}
}

// TestTableIsCurrent: docs/hosts.md has the embedded rows, in their order.
func TestTableIsCurrent(t *testing.T) {
	const root = "../../.."
	if text, err := encode(holes.All()); err != nil || get(t, filepath.Join(root, list)) != string(text) {
		t.Errorf("%s isn't as it would be written: %v", list, err)
	}
	if !slices.IsSortedFunc(holes.All(), order) {
		t.Errorf("%s isn't sorted", list)
	}
	text := get(t, filepath.Join(root, doc))
	want, err := replace(text, table(holes.All()))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, text); d != "" {
		t.Errorf("%s hasn't the rows; run: go generate ./internal/holes\n%s", doc, d)
	}
}

func TestRefused(t *testing.T) {
	good := `{"host":"pi","version":"1.6.0","id":"x","what":"w","state":"open","by":"b","test":"TestP"}`
	tests := []struct {
		name string
		run  run
		args []string
		rows string
		doc  string
		code int
		want string
	}{
		{"smaller run writes nothing", run{}, []string{"-write"}, good, "", 3, "make holes"},
		{"a run without root writes nothing", run{nightly: true, partial: true}, []string{"-write"}, good, "", 3, "make holes"},
		{"no rows", run{}, nil, "", "", 3, "reported nothing"},
		{"half a row", run{}, nil, `{"host":`, "", 3, "reading"},
		{"unknown member", run{}, nil, `{"hots":"x"}`, "", 3, "hots"},
		{"argument", run{}, []string{"x"}, good, "", 2, "usage"},
		{"document without marks", run{nightly: true}, []string{"-write"}, good, "# Hosts\n", 3, "once each"},
		{"marks the wrong way", run{nightly: true}, []string{"-write"}, good, end + begin, 3, "once each"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root, rows := module(t, "[]")
			if tt.rows != "" {
				put(t, filepath.Join(rows, "1.json"), tt.rows)
			}
			if tt.doc != "" {
				put(t, filepath.Join(root, doc), tt.doc)
			}
			var errs bytes.Buffer
			code := tt.run.main(append([]string{"-root", root, "-rows", rows}, tt.args...), new(bytes.Buffer), &errs)
			if code != tt.code || !strings.Contains(errs.String(), tt.want) {
				t.Errorf("exit %d, %q", code, errs.String())
			}
		})
	}
	if code := (run{}).main([]string{"-write"}, new(bytes.Buffer), new(bytes.Buffer)); code != 2 {
		t.Errorf("-write without rows: exit %d", code)
	}
	root, rows := module(t, "[]")
	if err := os.Symlink(filepath.Join(root, list), filepath.Join(rows, "1.json")); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	if code := (run{}).main([]string{"-root", root, "-rows", rows}, new(bytes.Buffer), &errs); code != 3 || !strings.Contains(errs.String(), "no regular file") {
		t.Errorf("a link for a row: exit %d, %q", code, errs.String())
	}
}
