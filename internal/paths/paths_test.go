package paths

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leaseguard.internal/internal/safepath"
)

func self() uint32 { return uint32(os.Getuid()) }

type vars map[string]string

func (v vars) get(name string) string { return v[name] }

// absent is a system configuration that isn't there.
const absent = "/nonexistent/guard/guard.toml"

func TestUserMode(t *testing.T) {
	runtime := filepath.Join(t.TempDir(), "rt")
	tests := []struct {
		name string
		env  vars
		want Paths
	}{
		{"defaults", vars{"HOME": "/home/ann"}, Paths{
			Mode: User, Config: "/home/ann/.config/guard/guard.toml", StateDir: "/home/ann/.local/state/guard",
			RunDir: "/home/ann/.local/state/guard/run", DB: "/home/ann/.local/state/guard/guard.db",
			AuditDir:       "/home/ann/.local/state/guard/audit",
			BrokerSocket:   "/home/ann/.local/state/guard/run/broker.sock",
			OperatorSocket: "/home/ann/.local/state/guard/run/operator.sock",
			Lock:           "/home/ann/.local/state/guard/run/broker.lock",
			BrokerUID:      self(), GateGID: NoGID, OperatorGID: NoGID, AuditGID: NoGID,
		}},
		{"all set, no HOME", vars{"XDG_CONFIG_HOME": "/c/", "XDG_STATE_HOME": "/s//t", "XDG_RUNTIME_DIR": runtime}, Paths{
			Mode: User, Config: "/c/guard/guard.toml", StateDir: "/s/t/guard", RunDir: runtime + "/guard",
			DB: "/s/t/guard/guard.db", AuditDir: "/s/t/guard/audit", BrokerSocket: runtime + "/guard/broker.sock",
			OperatorSocket: runtime + "/guard/operator.sock", Lock: runtime + "/guard/broker.lock",
			BrokerUID: self(), GateGID: NoGID, OperatorGID: NoGID, AuditGID: NoGID,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := resolve(absent, names{}, tt.env.get, self())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// A state directory that everybody may write is named with what mends it.
func TestOpenStateDirectory(t *testing.T) {
	state := filepath.Join(t.TempDir(), "guard")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(state, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := resolve(absent, names{}, vars{"HOME": "/", "XDG_STATE_HOME": filepath.Dir(state)}.get, self())
	if err == nil || !strings.HasSuffix(err.Error(), fmt.Sprintf("run: chmod go-w %q", state)) {
		t.Errorf("%v", err)
	}
}

func TestErrors(t *testing.T) {
	tests := []struct {
		name string
		env  vars
		want []string
	}{
		{"nothing set", vars{}, []string{"XDG_CONFIG_HOME", "nor HOME is set", "set HOME"}},
		{"no HOME for the state", vars{"XDG_CONFIG_HOME": "/c"}, []string{"XDG_STATE_HOME", "set HOME"}},
		{"relative HOME", vars{"HOME": "home"}, []string{"HOME", `"home"`, "begins with /"}},
		{"relative configuration", vars{"HOME": "/h", "XDG_CONFIG_HOME": "./c"}, []string{"XDG_CONFIG_HOME", `"./c"`}},
		{"relative state", vars{"HOME": "/h", "XDG_STATE_HOME": "~/s"}, []string{"XDG_STATE_HOME", `"~/s"`}},
		{"relative runtime directory", vars{"HOME": "/h", "XDG_RUNTIME_DIR": "run"}, []string{"XDG_RUNTIME_DIR", `"run"`}},
		{"NUL", vars{"HOME": "/h", "XDG_RUNTIME_DIR": "/r\x00x"}, []string{"NUL", "XDG_RUNTIME_DIR"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := resolve(absent, names{}, tt.env.get, self())
			wantError(t, err, tt.want...)
			if got != (Paths{}) {
				t.Errorf("paths beside the error: %+v", got)
			}
		})
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q lacks %q", err, p)
		}
	}
}

// Not being able to tell is no user mode.
func TestUnreadableSystemConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := resolve(file+"/guard.toml", names{}, vars{"HOME": "/h"}.get, self())
	wantError(t, err, "system mode", "not a directory")
}

func TestK1_SocketPathLength(t *testing.T) {
	// The longer of both sockets decides; ü has two bytes.
	dir := func(length int) string {
		d := "/nonexistent/ü"
		return d + strings.Repeat("x", length-len(d)-len("/guard/operator.sock"))
	}
	for length, good := range map[int]bool{106: true, 107: true, 108: false, 200: false} {
		p, err := resolve(absent, names{}, vars{"HOME": "/h", "XDG_RUNTIME_DIR": dir(length)}.get, self())
		if good {
			if err != nil || len(p.OperatorSocket) != length {
				t.Errorf("%d bytes: %d, %v", length, len(p.OperatorSocket), err)
			}
			continue
		}
		wantError(t, err, dir(length), "bytes", "the limit is 107", "shorter")
	}
	_, err := resolve(absent, names{}, vars{"HOME": "/h", "XDG_RUNTIME_DIR": dir(108)}.get, self())
	wantError(t, err, "has 108 bytes")
}

func TestK2_NoFallbackBelowWorldWritable(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	_, err := resolve(absent, names{}, vars{"HOME": open + "/home"}.get, self())
	wantError(t, err, "XDG_RUNTIME_DIR is not set", open, "set XDG_RUNTIME_DIR")

	// Who sets the variable has chosen.
	if _, err := resolve(absent, names{}, vars{"HOME": open + "/home", "XDG_RUNTIME_DIR": open + "/rt"}.get, self()); err != nil {
		t.Error(err)
	}
}

func TestK2_RuntimeDirectoryOfAnother(t *testing.T) {
	dir := t.TempDir()
	asked := self() + 1 // who su'd and kept the variable
	if self() == 0 {
		if err := os.Chown(dir, 4242, -1); err != nil {
			t.Fatal(err)
		}
	}
	_, err := resolve(absent, names{}, vars{"HOME": "/h", "XDG_RUNTIME_DIR": dir}.get, asked)
	wantError(t, err, "XDG_RUNTIME_DIR", dir, "another user")
}

func TestEnsureDir(t *testing.T) {
	top := t.TempDir()
	if err := os.Chmod(top, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(top, "a", "b")
	for range 2 { // made, then found
		if err := EnsureDir(dir, self()); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", d, info.Mode(), err)
		}
	}
	if err := os.Chmod(filepath.Dir(dir), 0o777); err != nil {
		t.Fatal(err)
	}
	err := EnsureDir(dir, self())
	wantError(t, err, safepath.ErrUnsafe.Error(), "chmod go-w")
	wantError(t, EnsureDir("/proc/none/guard", self()), "making directory", "choose another")
}
