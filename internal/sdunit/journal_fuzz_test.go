package sdunit

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// fields reads an entry as journald does.
func fields(t *testing.T, b []byte) (names []string, values []string) {
	t.Helper()
	for len(b) > 0 {
		line, rest, ok := bytes.Cut(b, []byte("\n"))
		if !ok {
			t.Fatalf("%q ends without a line feed", line)
		}
		name, value, ok := bytes.Cut(line, []byte("="))
		if !ok { // by its length
			if len(rest) < 8 {
				t.Fatal("no length")
			}
			n := binary.LittleEndian.Uint64(rest)
			if rest = rest[8:]; n >= uint64(len(rest)) || rest[n] != '\n' {
				t.Fatalf("a value of %d bytes in %d", n, len(rest))
			}
			value, rest = rest[:n], rest[n+1:]
		}
		names, values, b = append(names, string(name)), append(values, string(value)), rest
	}
	return names, values
}

// No text of anybody's adds a field or changes another one.
func FuzzEncode(f *testing.F) {
	f.Add("m", "v", "w")
	f.Add("m\nPRIORITY=0", "a=b\n", "\n\n")
	f.Add("", "\x00\xff", "GUARD_CODE=pass")
	f.Fuzz(func(t *testing.T, message, a, b string) {
		names, values := fields(t, encode(Entry{Priority: Info, Message: message, Fields: []string{"GUARD_A", a, "GUARD_B", b}}))
		want := [][2]string{{"PRIORITY", "6"}, {"SYSLOG_IDENTIFIER", "guard-broker"}}
		for _, v := range [][2]string{{"MESSAGE", message}, {"GUARD_A", a}, {"GUARD_B", b}} {
			if v[1] = v[1][:min(len(v[1]), maxField)]; v[1] != "" {
				want = append(want, v)
			}
		}
		if len(names) != len(want) {
			t.Fatalf("fields %q", names)
		}
		for i, w := range want {
			if names[i] != w[0] || values[i] != w[1] {
				t.Errorf("field %d is %q=%q, want %q", i, names[i], values[i], w)
			}
		}
	})
}
