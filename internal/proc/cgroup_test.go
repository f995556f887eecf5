package proc

import (
	"errors"
	"os"
	"path"
	"testing"
)

func TestParseCgroup(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"unified", "0::/user.slice/user-1000.slice/a.scope\n", "/user.slice/user-1000.slice/a.scope"},
		{"hybrid", "12:pids:/x\n1:name=systemd:/y\n0::/z\n", "/z"},
		{"root", "0::/\n", "/"},
		{"a colon in the name", "0::/a:b\n", "/a:b"},
		{"version 1 only", "4:memory:/x\n", ""},
		{"empty", "", ""},
		{"no path", "0::\n", ""},
		{"outside of the namespace", "0::/../x\n", ""},
		{"relative", "0::x\n", ""},
		{"removed", "0::/a.scope (deleted)\n", ""},
		{"two", "0::/a\n0::/b\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseCgroup([]byte(tt.text))
			if got != tt.want || (err != nil) != (tt.want == "") || err != nil && !errors.Is(err, ErrMalformed) {
				t.Errorf("ParseCgroup = %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func FuzzParseCgroup(f *testing.F) {
	f.Add([]byte("0::/a/b.scope\n"))
	if own, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		f.Add(own)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParseCgroup(data)
		if err == nil && (!path.IsAbs(p) || path.Clean(p) != p) || err != nil && (p != "" || !errors.Is(err, ErrMalformed)) {
			t.Errorf("ParseCgroup = %q, %v", p, err)
		}
	})
}
