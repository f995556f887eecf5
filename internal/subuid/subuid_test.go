package subuid

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const passwd = "root:x:0:0:root:/root:/bin/sh\nann:x:1001:1001::/home/ann:/bin/sh\nbob:x:1002:1002::/home/bob:/bin/sh\n7:x:1007:7::/:/bin/sh\nann:x:1003:1::/:/bin/sh\nshort:x:5\n"

func table(t *testing.T, subuid string) *Table {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"subuid": subuid, "passwd": passwd} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return New(filepath.Join(dir, "subuid"), filepath.Join(dir, "passwd"), uint32(os.Getuid()))
}

func TestOwner(t *testing.T) {
	x := table(t, "# ranges\n\nann:100000:65536\nbob:200000:10\n1002:300000:10\nroot:400000:10\ngone:500000:10\nann:600000:10\nbob:600005:10\nann:700000:10\nann:700005:10\n7:800000:10\nbob:900000:0\nann:4294967290:5\n")
	if x.Owner(1001) != Nobody {
		t.Error("before it is read, a uid has an owner")
	}
	if err := x.Refresh(); err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[uint32]uint32{
		0: 0, 1001: 1001, 99999: 99999, 100000: 1001, 165535: 1001, 165536: 165536,
		200000: 1002, 200009: 1002, 200010: 200010, 300005: 1002,
		400000: 400000, 400009: 400000, 500003: Nobody, 600001: Nobody, 600014: Nobody, 600015: 600015,
		700014: 1001, 800001: Nobody, 900000: 900000, 4294967294: 1001, 4294967289: 4294967289,
	} {
		if got := x.Owner(uid); got != want {
			t.Errorf("the owner of %d is %d, want %d", uid, got, want)
		}
	}
}

// What can't be told is nobody's, beside the accounts of the machine.
func TestUnknownOwners(t *testing.T) {
	for name, text := range map[string]string{
		"no numbers": "ann:x:y\n", "two fields": "ann:100000\n", "four fields": "ann:1:2:3\n", "a space": "ann: 100000:65536\n",
		"too large": "ann:4294967290:6\n", "beyond 32 bits": "ann:4294967296:1\n", "no owner": ":100000:1\n", "negative": "ann:-1:3\n",
		"a long file": strings.Repeat("ann:1:1\n", maxSubuid/8+1),
	} {
		t.Run(name, func(t *testing.T) {
			x := table(t, text)
			if err := x.Refresh(); err == nil {
				t.Error("it is read")
			}
			if x.Owner(1002) != 1002 || x.Owner(0) != 0 || x.Owner(100000) != Nobody {
				t.Errorf("owners %d, %d and %d", x.Owner(1002), x.Owner(0), x.Owner(100000))
			}
		})
	}
	x := table(t, "ann:100000:1\n")
	if err := os.Chmod(x.subuid, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := x.Refresh(); err == nil || x.Owner(100000) != Nobody {
		t.Error("a file that everybody may write is believed")
	}
}

// A change is seen, a fault stays one until it is corrected, and a file that isn't
// there has no ranges.
func TestRefresh(t *testing.T) {
	x := table(t, "ann:100000:65536\n")
	step := func(text string, fails bool, want uint32) {
		t.Helper()
		if text != "" {
			next := x.subuid + "+"
			if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(next, x.subuid); err != nil {
				t.Fatal(err)
			}
		}
		if err := x.Refresh(); (err != nil) != fails || x.Owner(100000) != want {
			t.Errorf("after %q: %v, owner %d, want %d", text, err, x.Owner(100000), want)
		}
	}
	step("", false, 1001)
	step("bob:100000:65536\n", false, 1002)
	step("bob\n", true, Nobody)
	step("", true, Nobody)
	step("ann:100000:1\n", false, 1001)
	if err := os.Remove(x.subuid); err != nil {
		t.Fatal(err)
	}
	step("", false, 100000)
	step("", false, 100000)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("ann:100000:65536\nann:100005:1\n0:1:1\n"))
	people := accounts([]byte(passwd))
	f.Fuzz(func(t *testing.T, text []byte) {
		spans, err := parse(text, people)
		if err != nil {
			return
		}
		for i, s := range spans {
			if s.first > s.last || i > 0 && spans[i-1].last >= s.first {
				t.Fatalf("spans %+v", spans)
			}
		}
		x := &Table{}
		x.now.Store(&ranges{spans: spans})
		for _, s := range spans {
			if x.Owner(s.first) != s.owner || x.Owner(s.last) != s.owner {
				t.Fatalf("the owner of %+v is lost", s)
			}
		}
	})
}
