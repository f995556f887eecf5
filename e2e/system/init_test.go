//go:build system

package system

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/zvmsim"
)

// TestInit runs testdata/script: guard init --system and guard uninstall
// --system as root on a machine that has only the programs. The scripts can hide
// a program of the system, put one in its place, and look at owners.
func TestInit(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, as which CI runs it: make system")
	}
	testscript.RunT(oneByOne{t}, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			clean(t)
			env.Setenv("PATH", programs+":/usr/sbin:/usr/bin:/sbin:/bin")
			env.Setenv("HOME", "/root")
			env.Defer(func() { clean(t) })
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"owner": cmdOwner, "hide": cmdHide, "instead": cmdInstead, "exit": cmdExit, "zvm": cmdZVM,
		},
	})
}

// oneByOne runs scripts one after the other: they all change the same machine.
type oneByOne struct{ *testing.T }

func (o oneByOne) Parallel() {}

func (o oneByOne) Verbose() bool { return testing.Verbose() }

func (o oneByOne) Run(name string, f func(testscript.T)) {
	o.T.Run(name, func(t *testing.T) { f(oneByOne{t}) })
}

// owner USER:GROUP MODE PATH… wants exactly these.
func cmdOwner(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: owner USER:GROUP MODE PATH…")
	}
	for _, path := range args[2:] {
		out, err := exec.Command("stat", "-c", "%U:%G %a", path).CombinedOutput()
		ts.Check(err)
		if got := strings.TrimSpace(string(out)); got != args[0]+" "+args[1] {
			ts.Fatalf("%s is %s, want %s %s", path, got, args[0], args[1])
		}
	}
}

// hide PROGRAM makes a program of the system one that isn't there.
func cmdHide(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: hide PATH")
	}
	cover(ts, "/dev/null", args[0])
}

// instead PROGRAM FILE puts a file of the script in a program's place.
func cmdInstead(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: instead PATH FILE")
	}
	ts.Check(os.Chmod(ts.MkAbs(args[1]), 0o755))
	cover(ts, ts.MkAbs(args[1]), args[0])
}

func cover(ts *testscript.TestScript, source, path string) {
	resolved, err := filepath.EvalSymlinks(path)
	ts.Check(err)
	ts.Check(unix.Mount(source, resolved, "", unix.MS_BIND, ""))
	ts.Defer(func() { ts.Check(unix.Unmount(resolved, unix.MNT_DETACH)) })
}

// exit CODE COMMAND… wants exactly this exit code.
func cmdExit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit CODE COMMAND…")
	}
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// zvm writes a ZVM's certificate and secret into /root/zvm.
func cmdZVM(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: zvm")
	}
	dir := "/mnt/zvm"
	ts.Check(os.RemoveAll(dir))
	sim, err := zvmsim.Start(zvmsim.Options{Dir: dir})
	ts.Check(err)
	ts.Check(sim.Close())
	ts.Check(os.WriteFile(filepath.Join(dir, "secret"), []byte(fmt.Sprintln("s3cret")), 0o600))
	ts.Setenv("CA", sim.Info().CAFile)
	ts.Setenv("SECRET", filepath.Join(dir, "secret"))
}
