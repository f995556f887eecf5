package proc

import (
	"errors"
	"math"
	"os"
	"slices"
	"testing"
)

func TestParseIDMap(t *testing.T) {
	tests := []struct {
		name, text string
		want       IDMap
		fail       bool
	}{
		{name: "none given yet", text: ""},
		{name: "one user", text: "         0       1000          1\n", want: IDMap{{0, 1000, 1}}},
		{name: "everybody", text: "0 0 4294967295\n", want: IDMap{{0, 0, math.MaxUint32}}},
		{name: "a container", text: "0 1000 1\n1 100000 65536\n", want: IDMap{{0, 1000, 1}, {1, 100000, 65536}}},
		{name: "two fields", text: "0 1000\n", fail: true},
		{name: "four fields", text: "0 1000 1 1\n", fail: true},
		{name: "empty line", text: "\n", fail: true},
		{name: "negative", text: "0 -1 1\n", fail: true},
		{name: "beyond the type", text: "0 4294967296 1\n", fail: true},
		{name: "cut", text: "0 1000 1\n1 10", fail: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseIDMap([]byte(tt.text))
			if (err != nil) != tt.fail || tt.fail && !errors.Is(err, ErrMalformed) || !slices.Equal(got, tt.want) {
				t.Errorf("ParseIDMap = %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

func TestIDMapCovers(t *testing.T) {
	m := IDMap{{0, 1000, 1}, {1, 100000, 65536}, {70000, math.MaxUint32, math.MaxUint32}}
	for id, want := range map[uint32]bool{0: false, 999: false, 1000: true, 1001: false, 100000: true, 165535: true, 165536: false, math.MaxUint32: true} {
		if m.Covers(id) != want || IDMap(nil).Covers(id) {
			t.Errorf("Covers(%d) = %v, want %v; or an empty map covers it", id, !want, want)
		}
	}
}

func TestIDMapsOfThisProcess(t *testing.T) {
	d, err := Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	uids, gids, err := d.IDMaps()
	if err != nil || !uids.Covers(uint32(os.Getuid())) || !gids.Covers(uint32(os.Getgid())) {
		t.Errorf("IDMaps = %v, %v, %v", uids, gids, err)
	}
}

func FuzzParseIDMap(f *testing.F) {
	for _, text := range []string{"", "0 1000 1\n", "0 0 4294967295", "1 2 3\n4 5"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseIDMap(data)
		if err != nil && (m != nil || !errors.Is(err, ErrMalformed)) {
			t.Errorf("ParseIDMap = %v, %v", m, err)
		}
		for _, r := range m {
			if r.Count > 0 && !m.Covers(r.First) {
				t.Errorf("%v doesn't cover its own %d", m, r.First)
			}
		}
	})
}
