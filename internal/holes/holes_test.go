package holes

import (
	"strings"
	"testing"

	"leaseguard.internal/internal/runtimes"
)

// TestEmbeddedRows: each row says what a reader of doctor's needs.
func TestEmbeddedRows(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range All() {
		key := row.Host + " " + row.Version + " " + row.ID
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
		if !runtimes.Valid(row.Host) || len(numbers(row.Version)) == 0 || row.ID == "" || row.What == "" || row.By == "" || !strings.HasPrefix(row.Test, "Test") {
			t.Errorf("%s lacks something: %+v", key, row)
		}
		if row.State != "closed" && row.State != "compensated" && row.State != "open" {
			t.Errorf("%s has the state %q", key, row.State)
		}
	}
}

// TestEmbeddedRowsAreMany: what each change is held against covers all hosts that
// guard launches by name.
func TestEmbeddedRowsAreMany(t *testing.T) {
	each, byHost := 0, map[string]int{}
	for _, row := range All() {
		if !row.Nightly {
			each++
			byHost[row.Host]++
		}
	}
	if each < 60 {
		t.Errorf("%d rows that a run of each change shows, want at least 60", each)
	}
	for _, host := range []string{"claude", "claudex", "codex", "pi"} {
		if byHost[host] == 0 {
			t.Errorf("no row of %s", host)
		}
	}
}

func TestFor(t *testing.T) {
	list := []Row{
		{Host: "claude", Version: "2.1.9", ID: "old"}, {Host: "claude", Version: "2.1.10", ID: "a"}, {Host: "claude", Version: "2.1.10", ID: "b"},
		{Host: "claudex", Version: "2.1.10", ID: "b", What: "its own"}, {Host: "pi", Version: "1.6.0", ID: "p"},
	}
	tests := []struct{ name, host, version, want string }{
		{"measured", "claude", "2.1.9", "old"},
		{"compared by number, not by text", "claude", "2.1.10", "a b"},
		{"newer than any", "claude", "3.0.0", "a b"},
		{"between two", "claude", "2.1.9.5", "old a b"},
		{"older than any", "claude", "2.0.1", "old"},
		{"zeros at the end", "pi", "1.6", "p"},
		{"unknown version", "pi", "", "p"},
		{"claudex has Claude's, and its own in their place", "claudex", "2.1.10", "b a"},
		{"another host", "codex", "1.0.0", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var ids []string
			for _, row := range choose(list, tt.host, tt.version) {
				ids = append(ids, row.ID)
				if row.Host == "claudex" && row.What != "its own" {
					t.Errorf("row %+v", row)
				}
			}
			if got := strings.Join(ids, " "); got != tt.want {
				t.Errorf("rows %q, want %q", got, tt.want)
			}
		})
	}
}

// TestReadRefuses: a text that was half written is no list of holes.
func TestReadRefuses(t *testing.T) {
	for _, text := range []string{"", "[", `[{"host":"claude","hots":"x"}]`, `{}`} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("read %q without a complaint", text)
				}
			}()
			read([]byte(text))
		}()
	}
}
