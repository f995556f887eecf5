package peer

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/testproc"
)

const nobody = 65534

// hold starts a program that lives until the test ends, and returns its pid
// once it is what it is to be: it has said so.
func hold(t *testing.T, attr *syscall.SysProcAttr, argv ...string) int {
	t.Helper()
	cmd := exec.Command(argv[0], append(argv[1:], "sh", "-c", "echo up; exec cat")...)
	cmd.SysProcAttr, cmd.Stderr = attr, os.Stderr
	stdin, stdout := testproc.Piped(t, cmd)
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	if _, err := stdout.Read(make([]byte, 3)); err != nil {
		t.Fatalf("%q didn't come up: %v", argv, err)
	}
	return cmd.Process.Pid
}

// as makes a process of a uid, which only root can do for another one.
func as(uid uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
}

func TestPrivileged(t *testing.T) {
	onKernels(t, func(t *testing.T, k features) {
		self := mustOpen(t, k, os.Getpid())
		if got, err := self.Privileged(); err != nil || got != (os.Geteuid() == 0) {
			t.Errorf("uid %d: Privileged = %v, %v", os.Geteuid(), got, err)
		}
		cmd := exec.Command("cat")
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = as(nobody)
		}
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ordinary := mustOpen(t, k, cmd.Process.Pid)
		if got, err := ordinary.Privileged(); err != nil || got {
			t.Errorf("uid %d: Privileged = %v, %v", ordinary.UID(), got, err)
		}
		_ = stdin.Close()
		_ = cmd.Wait()
		if got, err := ordinary.Privileged(); err == nil || !got {
			t.Errorf("a process that has ended: Privileged = %v, %v; want an error and true", got, err)
		}
	})
}

// TestPrivilegedByCapability: any of the sets makes a process privileged, also
// one out of which only the next program comes by the capability.
func TestPrivilegedByCapability(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can leave a process a capability; CI runs this as root")
	}
	ambient := as(nobody)
	ambient.AmbientCaps = []uintptr{unix.CAP_DAC_OVERRIDE}
	harmless := as(nobody)
	harmless.AmbientCaps = []uintptr{unix.CAP_NET_BIND_SERVICE}
	inherits := []string{"setpriv", "--inh-caps=+kill", "--reuid=65534", "--regid=65534", "--clear-groups"}
	for _, tt := range []struct {
		name string
		attr *syscall.SysProcAttr
		argv []string
		want bool
	}{
		{"ambient", ambient, []string{"env"}, true},
		{"inheritable alone", nil, inherits, true},
		{"one that undoes nothing", harmless, []string{"env"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Open(hold(t, tt.attr, tt.argv...))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = p.Close() }()
			if got, err := p.Privileged(); err != nil || got != tt.want {
				t.Errorf("Privileged = %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

// TestPrivilegedInOwnNamespace: root of a user namespace that holds nobody but
// oneself is no root; that of one which holds our root, or us, is.
func TestPrivilegedInOwnNamespace(t *testing.T) {
	type mapping = syscall.SysProcIDMap
	uid, gid := os.Getuid(), os.Getgid()
	rooted := func(ids ...mapping) *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, Credential: &syscall.Credential{NoSetGroups: true}}
	}
	own := rooted(mapping{HostID: uid, Size: 1})
	own.GidMappings = []mapping{{HostID: gid, Size: 1}}
	if uid == 0 {
		own = rooted(mapping{HostID: nobody, Size: 1})
	}
	capable := rooted(mapping{Size: nobody + 1})
	capable.Credential.Uid, capable.Credential.Gid, capable.AmbientCaps = nobody, nobody, []uintptr{unix.CAP_SYS_ADMIN}
	for _, tt := range []struct {
		name string
		attr *syscall.SysProcAttr
		root bool
		want bool
	}{
		{"its own ids alone", own, false, false},
		{"all ids, capable", capable, true, true},
		{"all ids, root in it", rooted(mapping{Size: nobody + 1}), true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root && uid != 0 {
				t.Skip("only root can make such a namespace; CI runs this as root")
			}
			p, err := Open(hold(t, tt.attr, "env"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = p.Close() }()
			if got, err := p.Privileged(); err != nil || got != tt.want {
				t.Errorf("Privileged = %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}
