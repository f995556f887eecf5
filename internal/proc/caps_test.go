package proc

import "testing"

func TestParseCapabilities(t *testing.T) {
	tests := []struct {
		name, status string
		want         uint64
		wantErr      bool
	}{
		{"full set", "Name:\ta\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n", 0x1ffffffffff, false},
		{"none", "CapPrm:\tff\nCapEff:\t0000000000000000\n", 0, false},
		{"a name can't pose as the line", "Name:\tCapEff:\\n0\nCapEff:\t0000000000000020\n", 0x20, false},
		{"missing", "Name:\ta\n", 0, true},
		{"not a number", "CapEff:\tzz\n", 0, true},
		{"empty", "", 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseCapabilities([]byte(tt.status))
			if (err != nil) != tt.wantErr || got != tt.want {
				t.Errorf("ParseCapabilities = %#x, %v; want %#x, error %v", got, err, tt.want, tt.wantErr)
			}
		})
	}
}

func FuzzParseCapabilities(f *testing.F) {
	f.Add([]byte("CapEff:\t000001ffffffffff\n"))
	f.Add([]byte("Name:\tx\nCapEff:\n"))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = ParseCapabilities(b) })
}
