package checkpoint

import (
	"context"
	"errors"
	"testing"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/zvmsim"
)

// TestLook: what a call would meet is said, and nothing is inserted for it.
func TestLook(t *testing.T) {
	t.Parallel()
	tests := []struct {
		vm   string
		code verdict.Code
		vpgs int
	}{
		{"app-01", "", 1}, {"multi-01", "", 2},
		{"nobody", verdict.VMUnknown, 0}, {"twin", verdict.VMAmbiguous, 0},
		{"win-aws-01", verdict.CheckpointUnsupported, 0}, {"paused-01", verdict.CheckpointFailed, 0},
	}
	r := rigged(t, setUp{})
	for _, tt := range tests {
		infos, err := r.Look(t.Context(), ask("", tt.vm).Targets)
		var refusal *Refusal
		if errors.As(err, &refusal); len(infos) != tt.vpgs || (refusal == nil) != (tt.code == "") || refusal != nil && refusal.Code != tt.code {
			t.Errorf("%s: %+v, %v; want %d VPGs and %q", tt.vm, infos, err, tt.vpgs, tt.code)
		}
		for _, info := range infos {
			if info.VM != tt.vm || info.VPG == "" || info.Tag != "" || info.ID != "" || !info.Time.IsZero() {
				t.Errorf("%s: %+v looks like a checkpoint", tt.vm, info)
			}
		}
	}
	infos, err := r.Look(t.Context(), ask("", "app-01", "nobody").Targets)
	if refusal := (*Refusal)(nil); len(infos) != 1 || !errors.As(err, &refusal) || refusal.Code != verdict.VMUnknown {
		t.Errorf("one known, one not: %+v, %v", infos, err)
	}
	if infos, err := r.Look(t.Context(), nil); err == nil || infos != nil {
		t.Errorf("no target: %+v, %v", infos, err)
	}
	if n := r.sim.Count(zvmsim.OpInsert); n != 0 {
		t.Errorf("%d inserts", n)
	}
}

// TestTime: the first thing that is asked of a ZVM tells what is wrong with it.
func TestTime(t *testing.T) {
	t.Parallel()
	r := rigged(t, setUp{})
	if now, err := r.Time(t.Context()); err != nil || now.IsZero() {
		t.Errorf("%v, %v", now, err)
	}
	r.answer(zvmsim.Answer{Op: zvmsim.OpSites, Status: 403})
	_, err := r.Time(t.Context())
	if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || refusal.Next != nextRole {
		t.Errorf("forbidden: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Time(ctx); err == nil {
		t.Error("a question that was given up has an answer")
	}
}
