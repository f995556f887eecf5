package paths

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// table answers from a map.
func table(ids map[string]uint32) func(string) (uint32, error) {
	return func(name string) (uint32, error) {
		id, ok := ids[name]
		if !ok {
			return 0, errors.New("unknown")
		}
		return id, nil
	}
}

// accounts are those of an installed machine.
func accounts() (users, groups map[string]uint32) {
	return map[string]uint32{"guard": 990}, map[string]uint32{"guard-gate": 991, "guard-operators": 992, "guard-audit": 993}
}

func systemFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "guard.toml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSystemMode(t *testing.T) {
	file := systemFile(t)
	users, groups := accounts()
	want := Paths{
		Mode: System, Config: file, StateDir: "/var/lib/guard", RunDir: "/run/guard", DB: "/var/lib/guard/guard.db",
		AuditDir: "/var/lib/guard/audit", BrokerSocket: "/run/guard/broker.sock",
		OperatorSocket: "/run/guard/operator.sock", Lock: "/var/lib/guard/broker.lock",
		BrokerUID: 990, GateGID: 991, OperatorGID: 992, AuditGID: 993,
	}
	// No variable moves anything, not even a broken one, and it is the same for
	// every uid that asks.
	got, err := resolve(file, names{table(users), table(groups)}, vars{"XDG_RUNTIME_DIR": "x", "XDG_STATE_HOME": "/s"}.get, 4242)
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Error(err, d)
	}
}

// A machine that is in system mode and lacks an account serves nobody: falling
// back to the user's own uid would trust the agent's own broker.
func TestSystemModeIncomplete(t *testing.T) {
	file := systemFile(t)
	for _, name := range []string{"guard", "guard-gate", "guard-operators", "guard-audit"} {
		users, groups := accounts()
		delete(users, name)
		delete(groups, name)
		got, err := resolve(file, names{table(users), table(groups)}, vars{"HOME": "/h"}.get, self())
		wantError(t, err, file, `"`+name+`"`, "unknown", "guard init --system")
		if got != (Paths{}) {
			t.Errorf("without %s: paths beside the error: %+v", name, got)
		}
	}
	users, groups := accounts()
	groups["guard-gate"] = 0
	_, err := resolve(file, names{table(users), table(groups)}, vars{}.get, self())
	wantError(t, err, "guard-gate", "root's group")
}

func TestAccountsAreLookedUp(t *testing.T) {
	if uid, err := UserID("root"); err != nil || uid != 0 {
		t.Errorf("root: %d, %v", uid, err)
	}
	if gid, err := GroupID("root"); err != nil || gid != 0 {
		t.Errorf("group root: %d, %v", gid, err)
	}
	for name, look := range map[string]func(string) (uint32, error){"user": UserID, "group": GroupID} {
		if id, err := look("no-such-account-here"); err == nil {
			t.Errorf("%s: found %d", name, id)
		}
	}
}

// Users have no directory of their own below the broker's.
func TestPrivate(t *testing.T) {
	env := vars{"HOME": "/home/ann", "XDG_RUNTIME_DIR": "/run/user/4242"}
	for _, mode := range []string{User, System} {
		p := Paths{Mode: mode, RunDir: "/run/guard"}
		want := map[string]string{User: "/run/guard", System: "/run/user/4242/guard"}[mode]
		if dir, err := p.Private(env.get, self()); err != nil || dir != want {
			t.Errorf("%s mode: %q, %v", mode, dir, err)
		}
	}
	if dir, err := (Paths{Mode: System}).Private(vars{}.get, self()); err == nil || dir != "" {
		t.Errorf("without a home: %q, %v", dir, err)
	}
}
