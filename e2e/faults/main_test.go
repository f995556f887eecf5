//go:build faults

// Package faults takes from the built programs what they stand on: the disk,
// descriptors, well-behaved peers, the clock, and the one place of the broker.
// Whatever is gone, nothing gets authority by it, every call is answered in time,
// and a revocation works.
//
// As root it runs in a mount namespace of its own, in which it fills, stops and
// remounts small file systems; without root it does what needs none.
// GUARD_SIZE=nightly makes it larger.
package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/sandbox"
	"leaseguard.internal/internal/sandbox/sandboxtest"
	"leaseguard.internal/internal/wire"
)

const (
	insideVar = "FAULTS_INSIDE" // this run is in its own namespace
	agentVar  = "FAULTS_AGENT"  // this program is a scripted agent
)

var programs client.Programs

func TestMain(m *testing.M) {
	sandboxtest.Play(agentVar)
	if os.Getuid() == 0 && os.Getenv(insideVar) == "" {
		os.Exit(inside())
	}
	os.Exit(sandboxtest.Main(m, "", func(p client.Programs) { programs = p }))
}

// inside runs this program again, in a mount namespace that nobody else sees.
func inside() int {
	runtime.LockOSThread() // the child dies with the thread that started it
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVar+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	_ = cmd.Run() // the code says it all
	return cmd.ProcessState.ExitCode()
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root for file systems and namespaces of its own")
	}
}

// world is a broker with one session, on whatever disk.
type world struct {
	*sandboxtest.World
	agent *sandbox.Agent
}

// prepare makes a world whose broker isn't started yet.
func prepare(t *testing.T) *world {
	t.Helper()
	w := &world{World: sandboxtest.New(t, programs, append(os.Environ(), agentVar+"=1"))}
	w.Must(w.Configure("[identity]\nallow_root_sessions = true\n\n[checkpoint]\nself = \"none\"\n"))
	return w
}

// under has the broker started by a script that ends in exec, so that it keeps
// its pid.
func (w *world) under(script string) {
	w.T.Helper()
	path := filepath.Join(w.Dir, "broker")
	w.Must(os.WriteFile(path, []byte("#!/bin/sh\n"+script+" "+programs.Broker+"\n"), 0o700))
	w.Programs.Broker = path
}

// start starts broker and session, and has the session verified.
func (w *world) start() {
	w.T.Helper()
	w.Must(w.StartBroker(w.Ctx()))
	w.launch()
	w.approve()
	w.expect("Write", "pass", "")
}

func (w *world) launch() {
	w.T.Helper()
	a, err := w.Launch(w.Ctx(), nil, os.Args[0])
	w.Must(err)
	w.agent = a
}

func (w *world) approve(flags ...string) {
	w.T.Helper()
	w.expect("Read", "pass", "")
	_, err := w.Guard(w.Ctx(), append([]string{"approve", w.agent.Session}, flags...)...)
	w.Must(err)
}

// promptly bounds an answer on a machine that does other things, too.
const promptly = 10 * time.Second

// expect makes a tool call and holds its answer to verdict, code, shape and time.
func (w *world) expect(tool, verdict, code string) {
	w.T.Helper()
	began := time.Now()
	a, err := w.agent.Call(w.Ctx(), tool, `{"file_path":"/tmp/x"}`)
	w.Must(err)
	got, detail := a.Read()
	if took := time.Since(began); took > promptly {
		w.T.Errorf("%s was answered after %s", tool, took)
	}
	if got != verdict || code != "" && sandbox.Code(detail) != code {
		w.T.Fatalf("%s: got %s %q (exit %d, stderr %q), want %s %s", tool, got, detail, a.Exit, a.Err, verdict, code)
	}
	if verdict == "deny" && (a.Exit != 2 || string(a.Err) != detail+"\n") {
		w.T.Fatalf("%s: exit %d, stderr %q, reason %q", tool, a.Exit, a.Err, detail)
	}
}

// operate asks the broker as guard does, but never starts one.
func (w *world) operate(ctl wire.Control) (wire.Result, error) {
	w.T.Helper()
	var body []byte
	if ctl.Verb != wire.VerbRevoke && ctl.Verb != wire.VerbStatus {
		docs, text, err := client.ReadDocuments(w.Dir, []string{"AGENTS.md"})
		w.Must(err)
		ctl.Session, ctl.Documents, body = w.agent.Session, docs, text
	}
	return client.Dial(w.Paths).Do(w.Ctx(), ctl, body)
}

// status never starts a broker either.
func (w *world) status() wire.Status {
	w.T.Helper()
	r, err := w.operate(wire.Control{Verb: wire.VerbStatus})
	w.Must(err)
	return *r.Status
}

// revoke revokes all and returns what the broker warns of.
func (w *world) revoke() string {
	w.T.Helper()
	r, err := w.operate(wire.Control{Verb: wire.VerbRevoke, All: true})
	w.Must(err)
	if len(r.Revoked) != 1 {
		w.T.Fatalf("revoked %q, want the one session", r.Revoked)
	}
	return strings.Join(r.Warnings, "\n")
}

// stop ends the broker in order, which after a fault it may say with exit 3.
func (w *world) stop() {
	w.T.Helper()
	w.Must(syscall.Kill(w.BrokerPID(), syscall.SIGTERM))
	if code := w.WaitBroker(); code != 0 && code != 3 {
		w.T.Fatalf("the broker ended with %d", code)
	}
}
