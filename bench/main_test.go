package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestSummarize(t *testing.T) {
	s, err := summarize([]byte("9 9\n100000 500000\n200000 1200000\n1000000 7000000\n"), 1)
	if err != nil {
		t.Fatal(err)
	}
	want := summary{rounds: 3, first: times{200, 1000}, second: times{1200, 7000}, ratio: 6, ratioLo: 5, ratioHi: 7}
	if s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
	var out bytes.Buffer
	s.second.row(&out, "guard-gate")
	if strings.Join(strings.Fields(out.String()), " ") != "guard-gate 1200 7000" {
		t.Errorf("printed %s", out.String())
	}
}

func TestSummarizeRefuses(t *testing.T) {
	for _, lines := range []string{"", "1 1\n", "1\n2 2\n", "a b\n", "1 1\n0 5\n", "1 1\n-3 5\n"} {
		if s, err := summarize([]byte(lines), 1); err == nil {
			t.Errorf("%q is taken as %+v", lines, s)
		}
	}
}

func TestNoGate(t *testing.T) {
	err := run([]string{"-gate", "/nonexistent/guard-gate"}, &bytes.Buffer{}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("error %v names no remedy", err)
	}
}
