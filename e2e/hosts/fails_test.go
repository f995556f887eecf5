//go:build hosts

package hosts

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"leaseguard.internal/internal/zvmsim"
)

// short makes the gate answer after 6 s at the latest, and the client wait 36 s.
const short = "[launch]\nbudget = \"6s\"\n"

// TestF2_GateAnswersFirst: whatever takes too long, the gate's own denial comes
// before the client gives up on its hook.
func TestF2_GateAnswersFirst(t *testing.T) {
	t.Parallel()
	t.Run("a checkpoint that never completes", func(t *testing.T) {
		t.Parallel()
		g, sim := newProtected(t, short)
		must(t, sim.Set("*", zvmsim.Faults{Insert: zvmsim.InsertStuck}))
		write := input(t, "file_path", g.Marker, "content", "x")
		acts := []act{
			{name: "stuck", tool: "Write", input: write, want: "checkpoint_timeout", before: g.approve},
			{name: "still", tool: "Write", input: write, want: "checkpoint_timeout"},
		}
		g.steps(plan(acts)...)
		g.ok(g.launch())
		g.came(acts)
		if g.marked() || len(sim.Timings()) != 1 {
			t.Errorf("marked %v; %d checkpoints were asked for", g.marked(), len(sim.Timings()))
		}
	})
	t.Run("a checkpoint that comes too late", func(t *testing.T) {
		t.Parallel()
		g, sim := newProtected(t, short)
		must(t, sim.Set("*", zvmsim.Faults{Latency: zvmsim.Latency{zvmsim.Done: zvmsim.Fixed(3 * time.Second)}}))
		write := input(t, "file_path", g.Marker, "content", "x")
		acts := []act{
			{name: "late", tool: "Write", input: write, want: "checkpoint_timeout", before: g.approve, after: func() {
				if g.marked() {
					t.Error("it ran without a checkpoint")
				}
				must(t, sim.Set("*", zvmsim.Faults{}))
				g.await("the late checkpoint", func() bool { return sim.Timings()[0].ReadBy != 0 })
			}},
			{name: "anew", tool: "Write", input: write, want: "ok: "},
		}
		g.steps(plan(acts)...)
		g.ok(g.launch())
		g.came(acts)
		g.toldOf(sim, "anew", "app-01")
	})
	t.Run("a broker that hangs", func(t *testing.T) {
		t.Parallel()
		g := newGuarded(t, short+"[checkpoint]\nself = \"none\"\n")
		pid := 0
		acts := []act{
			{name: "hung", tool: "Bash", input: g.touch(), want: "deadline", before: func() {
				g.approve()
				pid = g.brokerPID()
				must(t, syscall.Kill(pid, syscall.SIGSTOP))
			}, after: func() {
				must(t, syscall.Kill(pid, syscall.SIGCONT))
				if g.marked() {
					t.Error("it ran without an answer")
				}
			}},
			{name: "anew", tool: "Bash", input: g.touch(), want: "ok: "},
		}
		g.steps(plan(acts)...)
		g.ok(g.launch())
		g.came(acts)
	})
}

// TestF3_GateFails: under a lease, a gate that can't be started, ends otherwise
// than it should or is killed is a denial, and the session goes on.
func TestF3_GateFails(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "")
	gate := g.ownPrograms()
	instead := func(text string) func() {
		return func() {
			must(t, os.Rename(gate, gate+"-away"))
			must(t, os.WriteFile(gate, []byte(text), 0o755))
		}
	}
	back := func() {
		if g.marked() {
			t.Error("it ran without the gate's answer")
		}
		must(t, os.Rename(gate+"-away", gate))
	}
	pid := 0
	var acts []act
	for _, c := range []struct {
		name  string
		fail  func()
		after func()
	}{
		{"missing", func() { must(t, os.Rename(gate, gate+"-away")) }, back},
		{"no program", instead("\x00\n"), back},
		{"exit 1", instead("#!/bin/sh\nexit 1\n"), back},
		{"exit 2", instead("#!/bin/sh\nexit 2\n"), back},
		{"exit 3", instead("#!/bin/sh\ncat >/dev/null\necho no >&2\nexit 3\n"), back},
		{"exit 255", instead("#!/bin/sh\nexit 255\n"), back},
		{"killed itself", instead("#!/bin/sh\nkill -9 $$\n"), back},
		{"out of memory", instead("#!/bin/sh\nkill -ABRT $$\n"), back},
		{"killed as it waits", func() {
			pid = g.brokerPID()
			must(t, syscall.Kill(pid, syscall.SIGSTOP))
			go killGate(gate)
		}, func() {
			must(t, syscall.Kill(pid, syscall.SIGCONT))
			if g.marked() {
				t.Error("it ran without the gate's answer")
			}
		}},
	} {
		acts = append(acts, act{name: c.name, tool: "Bash", input: g.touch(), want: "error: ", before: c.fail, after: c.after})
	}
	first := acts[0].before
	acts[0].before = func() { g.approve(); first() }
	acts = append(acts, act{name: "whole", tool: "Bash", input: g.touch(), want: "ok: "})
	g.steps(plan(acts)...)
	g.ok(g.launch())
	g.came(acts)
}

// killGate kills the next gate that it finds.
func killGate(gate string) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		all, _ := filepath.Glob("/proc/[0-9]*")
		for _, proc := range all {
			if exe, _ := os.Readlink(proc + "/exe"); exe == gate {
				if pid, err := strconv.Atoi(filepath.Base(proc)); err == nil {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
				return
			}
		}
	}
}
