//go:build system

package system

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"leaseguard.internal/internal/audit"
)

// change edits guard.toml as an administrator does, and sends SIGHUP.
func change(t testing.TB, s *service, text string) {
	t.Helper()
	const path = "/etc/guard/guard.toml"
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	hup(t, s)
}

func hup(t testing.TB, s *service) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// A reload takes over the whole file and lowers every lease; one that can't be
// taken over changes nothing and is said; and the service manager hears of both.
func TestReload(t *testing.T) {
	machine(t)
	m := newManager(t)
	s := m.start()
	m.await("READY=1", s)
	a := launch(t, "ada")
	a.call(t, "Read", `{"file_path":"/srv/x"}`, "pass")
	approve := func(want string) {
		t.Helper()
		if said := operator(t, "approve", a.id); !strings.Contains(said, want) {
			t.Errorf("approve says %q, want %q", said, want)
		}
	}
	settled := func(want string) {
		t.Helper()
		m.await("RELOADING=1\nMONOTONIC_USEC=", s)
		if said := m.await("READY=1", s); !strings.Contains(said, want) {
			t.Errorf("told %q, want %q", said, want)
		}
	}
	write := `{"file_path":"/srv/x","content":""}`
	approve("VERIFIED for 5m0s")
	a.call(t, "Write", write, "pass")

	change(t, s, "[lease]\nttl = \"120s\"\n[checkpoint]\nself = \"none\"\n")
	settled("1 sessions")
	a.call(t, "Write", write, "lease_revoked")
	approve("VERIFIED for 2m0s")
	a.call(t, "Write", write, "pass")

	for _, bad := range []string{"[lease]\nttl = \"301s\"\n", "[leese]\n", "\xff"} {
		change(t, s, bad)
		settled("the configuration in force is an older one")
		if e := status(t).Broker.ConfigError; !strings.Contains(e, "/etc/guard/guard.toml") {
			t.Errorf("after %q status says %q", bad, e)
		}
		a.call(t, "Write", write, "pass")
	}
	if err := os.Rename("/etc/guard/guard.toml", "/etc/guard/kept"); err != nil {
		t.Fatal(err)
	}
	hup(t, s)
	settled("it is gone")
	if err := os.Rename("/etc/guard/kept", "/etc/guard/guard.toml"); err != nil {
		t.Fatal(err)
	}
	run(t, "chmod", "0666", "/etc/guard/guard.toml")
	hup(t, s)
	settled("others may write it")
	a.call(t, "Write", write, "pass")

	// The same by other words costs no lease.
	run(t, "chmod", "0644", "/etc/guard/guard.toml")
	change(t, s, "# a comment\n\n[lease]\nttl = \"2m\"\n[checkpoint]\nself = \"none\"\n")
	settled("1 sessions")
	if e := status(t).Broker.ConfigError; e != "" {
		t.Errorf("after a good reload status says %q", e)
	}
	a.call(t, "Write", write, "pass")
	s.terminate(t)

	var codes []string
	if err := audit.Read("/var/lib/guard/audit", func(r audit.Record, _ []byte) error {
		if strings.HasPrefix(r.Code, "reload") {
			codes = append(codes, r.Code)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	failed := "reload_failed"
	if want := []string{"reloaded", failed, failed, failed, failed, failed, "reloaded"}; !slices.Equal(codes, want) {
		t.Errorf("the audit has %q, want %q", codes, want)
	}
}
