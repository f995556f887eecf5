package failpoint

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, spec string
		point      string
		want       action
		wantErr    string
	}{
		{name: "empty", spec: ""},
		{name: "kill", spec: "store/before-commit:kill", point: "store/before-commit", want: action{kind: kindKill}},
		{name: "count", spec: "a:error@3", point: "a", want: action{kind: kindError, at: 3}},
		{name: "sleep", spec: "a:sleep=20ms", point: "a", want: action{kind: kindSleep, sleep: 20 * time.Millisecond}},
		{name: "second of two", spec: "a:kill,b:panic", point: "b", want: action{kind: kindPanic}},
		{name: "no action", spec: "a", wantErr: "isn't name:action"},
		{name: "no name", spec: ":kill", wantErr: "isn't name:action"},
		{name: "unknown action", spec: "a:explode", wantErr: "isn't one of"},
		{name: "argument that kill doesn't take", spec: "a:kill=1", wantErr: "isn't one of"},
		{name: "sleep without duration", spec: "a:sleep", wantErr: "isn't one of"},
		{name: "negative sleep", spec: "a:sleep=-1s", wantErr: "isn't a duration"},
		{name: "zero count", spec: "a:kill@0", wantErr: "positive number"},
		{name: "twice", spec: "a:kill,a:error", wantErr: "named twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := parse(tt.spec)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("parse(%q) error = %v, want one with %q", tt.spec, err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := s.points[tt.point]; got != tt.want {
				t.Errorf("parse(%q) at %q = %+v, want %+v", tt.spec, tt.point, got, tt.want)
			}
		})
	}
}

func TestReachedCounts(t *testing.T) {
	s, err := parse("a:error@2,b:error")
	if err != nil {
		t.Fatal(err)
	}
	var a, b []bool
	for range 3 {
		_, at := s.reached("a")
		what, always := s.reached("b")
		if what.kind != kindError {
			t.Errorf("action %+v, want %s", what, kindError)
		}
		a, b = append(a, at), append(b, always)
	}
	if a[0] || !a[1] || a[2] {
		t.Errorf("@2 fired at visits %v, want only the second", a)
	}
	if !b[0] || !b[1] || !b[2] {
		t.Errorf("without a count it fired at visits %v, want all", b)
	}
	if _, ok := s.reached("unknown"); ok {
		t.Error("a point that nobody named took an action")
	}
}

func TestHitIsNothingWithoutTag(t *testing.T) {
	t.Setenv(variable, "a:error")
	if err := Hit("a"); (err != nil) != Enabled {
		t.Errorf("Hit = %v with Enabled = %t", err, Enabled)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "a:kill", "a:error@2,b:sleep=1ms", "a:panic@x", ",,", "a:sleep=9999999h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := parse(spec)
		if err != nil {
			return
		}
		for name, a := range s.points {
			if name == "" || a.at < 0 || a.sleep < 0 {
				t.Errorf("parse(%q) took point %q with action %+v", spec, name, a)
			}
		}
	})
}
