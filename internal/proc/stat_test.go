package proc

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// line makes a stat line of a process with the name.
func line(name string) string {
	return "42 (" + name + ") S 7 42 42 0 -1 4194560 100 0 0 0 1 2 3 4 20 0 1 0 8675309 1000000 200 18446744073709551615\n"
}

func TestParseStat(t *testing.T) {
	tests := []struct {
		name string
		text string
		want Stat
		fail bool
	}{
		{name: "plain", text: line("sh"), want: Stat{PID: 42, Name: "sh", State: 'S', PPID: 7, StartTime: 8675309}},
		{name: "empty name", text: line(""), want: Stat{PID: 42, State: 'S', PPID: 7, StartTime: 8675309}},
		{name: "no parentheses", text: strings.NewReplacer("(", "", ")", "").Replace(line("sh")), fail: true},
		{name: "parentheses the wrong way round", text: ")42 (", fail: true},
		{name: "nothing after the name", text: "42 (sh)", fail: true},
		{name: "cut before the start time", text: "42 (sh) S 7 42 42 0 -1 4194560 100 0 0 0 1 2 3 4 20 0 1 0", fail: true},
		{name: "pid no number", text: "x" + line("sh"), fail: true},
		{name: "pid beyond its type", text: "9" + strings.Repeat("9", 10) + line("sh"), fail: true},
		{name: "parent negative", text: strings.Replace(line("sh"), " 7 ", " -7 ", 1), fail: true},
		{name: "start time negative", text: strings.Replace(line("sh"), "8675309", "-1", 1), fail: true},
		{name: "state of two bytes", text: strings.Replace(line("sh"), " S ", " SS ", 1), fail: true},
		{name: "empty", text: "", fail: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseStat([]byte(tt.text))
			if tt.fail {
				if !errors.Is(err, ErrMalformed) || got != (Stat{}) {
					t.Errorf("ParseStat = %+v, %v; want nothing and ErrMalformed", got, err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("ParseStat = %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func TestI2_NoNameMovesTheFields(t *testing.T) {
	for _, name := range []string{"a b", "x) R 1 (y", ")", "(", ") S 1 1 1 1 1 1 1", "a\nb", strings.Repeat("\xff", 15)} {
		got, err := ParseStat([]byte(line(name)))
		if err != nil || got.StartTime != 8675309 || got.PPID != 7 || got.State != 'S' || got.Name != name {
			t.Errorf("name %q: ParseStat = %+v, %v", name, got, err)
		}
	}
}

func TestParseStatus(t *testing.T) {
	const caps = "CapInh:\t0\nCapPrm:\t00000000a80425fb\nCapEff:\t0\nCapBnd:\tffff\nCapAmb:\t0\n"
	tests := []struct {
		name string
		text string
		want Status
		fail bool
	}{
		{name: "all", text: "Name:\tsh\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n" + caps,
			want: Status{UIDs: [4]uint32{1, 2, 3, 4}, Caps: 0xa80425fb}},
		{name: "the highest", text: "Uid:\t0\t4294967295\t0\t0\n" + strings.Replace(caps, "00000000a80425fb", "ffffffffffffffff", 1),
			want: Status{UIDs: [4]uint32{1: 4294967295}, Caps: 1<<64 - 1}},
		{name: "each set counts, the bounding set doesn't", text: "Uid:\t1\t1\t1\t1\nCapInh:\t1\nCapPrm:\t2\nCapEff:\t4\nCapBnd:\t10\nCapAmb:\t8\n",
			want: Status{UIDs: [4]uint32{1, 1, 1, 1}, Caps: 0xf}},
		{name: "of a pid namespace in another", text: "Uid:\t1\t2\t3\t4\nNSpid:\t77\t1\n" + caps,
			want: Status{UIDs: [4]uint32{1, 2, 3, 4}, Caps: 0xa80425fb, Numbers: 2}},
		{name: "numbers twice are more than one", text: "NSpid:\t77\nUid:\t1\t2\t3\t4\nNSpid:\t77\n" + caps,
			want: Status{UIDs: [4]uint32{1, 2, 3, 4}, Caps: 0xa80425fb, Numbers: 2}},
		{name: "uid beyond the type", text: "Uid:\t1\t4294967296\t3\t4\n" + caps, fail: true},
		{name: "uid negative", text: "Uid:\t1\t-1\t3\t4\n" + caps, fail: true},
		{name: "too few uids", text: "Uid:\t1\t2\t3\n" + caps, fail: true},
		{name: "uids in the middle of a line", text: "Name:\tUid:\t1\t2\t3\t4\n" + caps, fail: true},
		{name: "uids twice", text: "Uid:\t1\t2\t3\t4\nUid:\t1\t2\t3\t4\n" + caps, fail: true},
		{name: "no uids", text: "Name:\tsh\n" + caps, fail: true},
		{name: "no capabilities", text: "Uid:\t1\t2\t3\t4\n", fail: true},
		{name: "no ambient set", text: "Uid:\t1\t2\t3\t4\n" + strings.Replace(caps, "CapAmb", "CapXmb", 1), fail: true},
		{name: "a set twice", text: "Uid:\t1\t2\t3\t4\nCapEff:\t0\n" + caps, fail: true},
		{name: "capabilities no number", text: "Uid:\t1\t2\t3\t4\n" + strings.Replace(caps, "00000000a80425fb", "x", 1), fail: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseStatus([]byte(tt.text))
			if (err != nil) != tt.fail || got != tt.want || (tt.fail && !errors.Is(err, ErrMalformed)) {
				t.Errorf("ParseStatus = %+v, %v; want %+v, failure %v", got, err, tt.want, tt.fail)
			}
		})
	}
}

func FuzzParseStat(f *testing.F) {
	for _, name := range []string{"sh", "a b", "x) R 1 (y", ")", "\xff\x00"} {
		f.Add([]byte(line(name)))
	}
	if own, err := os.ReadFile("/proc/self/stat"); err == nil {
		f.Add(own)
	}
	f.Add([]byte("1 ("))
	f.Add([]byte("0()\x00 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0")) // a state that is no letter
	f.Fuzz(func(t *testing.T, data []byte) {
		st, err := ParseStat(data)
		if err != nil {
			if !errors.Is(err, ErrMalformed) || st != (Stat{}) {
				t.Errorf("ParseStat = %+v, %v", st, err)
			}
			return
		}
		if st.PID < 0 || st.PPID < 0 || st.State == 0 {
			t.Errorf("ParseStat = %+v", st)
		}
		// What comes before the last parenthesis never reaches the fields.
		moved := append([]byte("1 (x) R 1 1 1 "), data...)
		if again, err := ParseStat(moved); err == nil && (again.PPID != st.PPID || again.StartTime != st.StartTime) {
			t.Errorf("with a longer name the fields moved: %+v, before %+v", again, st)
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte("Name:\tsh\nUid:\t1\t2\t3\t4\nCapInh:\t0\nCapPrm:\t00000000a80425fb\nCapEff:\t0\nCapAmb:\t0\n"))
	f.Add([]byte("Uid:\t4294967295\t4294967295\t0\t0"))
	if own, err := os.ReadFile("/proc/self/status"); err == nil {
		f.Add(own)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if st, err := ParseStatus(data); err != nil && (st != (Status{}) || !errors.Is(err, ErrMalformed)) {
			t.Errorf("ParseStatus = %+v, %v", st, err)
		}
	})
}
