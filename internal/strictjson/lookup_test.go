package strictjson

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLookup(t *testing.T) {
	const in = `{"vm":"app-01","no":"","n":1,"null":null,"a":{"b":["x", "y"],"c":[{"d":"z"},[["q"]]]},` +
		`"list":[],"blank":[""],"half":["x",""],"mixed":["x",1],"esc":"\u0061\n"}`
	tests := []struct {
		name, path string
		want       []string
		malformed  bool
	}{
		{"string", "vm", []string{"app-01"}, false},
		{"escapes", "esc", []string{"a\n"}, false},
		{"list", "a.b", []string{"x", "y"}, false},
		{"element", "a.b[1]", []string{"y"}, false},
		{"object in list", "a.c[0].d", []string{"z"}, false},
		{"list in list", "a.c[1][0]", []string{"q"}, false},
		{"deep element", "a.c[1][0][0]", []string{"q"}, false},
		{"absent", "vm_name", nil, false},
		{"absent below", "a.x.y", nil, false},
		{"index too large", "a.b[2]", nil, false},
		{"empty string", "no", nil, false},
		{"empty list", "list", nil, false},
		{"list of an empty string", "blank", nil, false},
		{"list with an empty string", "half", nil, true},
		{"list with a number", "mixed", nil, true},
		{"number", "n", nil, true},
		{"null", "null", nil, true},
		{"object", "a", nil, true},
		{"key of a string", "vm.x", nil, true},
		{"key of null", "null.x", nil, true},
		{"index of an object", "a[0]", nil, true},
		{"list of objects", "a.c", nil, true},
		{"folded key", "VM", nil, true},
		{"folded key on the way", "A.b", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, found, err := Lookup([]byte(in), tt.path)
			if errors.Is(err, ErrMalformed) != tt.malformed || (err != nil) != tt.malformed {
				t.Fatalf("error = %v, want malformed: %v", err, tt.malformed)
			}
			if d := cmp.Diff(tt.want, got); d != "" || found != (len(tt.want) > 0) {
				t.Errorf("found = %v\n%s", found, d)
			}
		})
	}
}

func TestLookupRefusesBothSpellings(t *testing.T) {
	_, _, err := Lookup([]byte(`{"vm_name":"app-01","VM_NAME":"db-01"}`), "vm_name")
	if !errors.Is(err, ErrMalformed) {
		t.Errorf("Lookup = %v, want ErrMalformed", err)
	}
}

func TestLookupRefusesBrokenObjects(t *testing.T) {
	for _, in := range []string{``, `null`, `"vm"`, `[]`, `{"vm":"a"`, `{"vm":"a"}{}`, `{"vm":"a","vm":"b"}`} {
		if _, found, err := Lookup([]byte(in), "vm"); !errors.Is(err, ErrMalformed) || found {
			t.Errorf("Lookup(%q) = %v, %v; want ErrMalformed", in, found, err)
		}
	}
}

func TestCheckPath(t *testing.T) {
	for _, good := range []string{"a", "a.b", "a[0]", "a[0][12].b[3]", "vm-name", "a b", "ключ", "a*"} {
		if err := CheckPath(good); err != nil {
			t.Errorf("CheckPath(%q) = %v", good, err)
		}
	}
	bad := []string{
		"", ".", "a.", ".a", "a..b", "[0]", "a[", "a]", "a[]", "a[-1]", "a[+1]", "a[01]", "a[x]", "a[0]x", "a[0]]",
		"a[99999]", "a[0].[1]", strings.Repeat("a.", maxPath) + "a",
	}
	for _, path := range bad {
		if err := CheckPath(path); !errors.Is(err, ErrMalformed) {
			t.Errorf("CheckPath(%q) = %v, want ErrMalformed", path, err)
		}
	}
}
