package checkpoint

import (
	"testing"
	"time"

	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/zvmsim"
)

// TestLostAnswerIsLookedFor has the connection reset after the insert was
// executed: the trap in which a repeated POST inserts twice.
func TestLostAnswerIsLookedFor(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]zvmsim.Answer{
		"reset": {Reset: true, Executed: true}, "500": {Status: 500, Executed: true}, "cut": {Cut: true}, "html": {Status: 200, Body: "<html>", Executed: true},
		"hangs": {Delay: zvmsim.Span(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rigged(t, setUp{})
			a.Op = zvmsim.OpInsert
			r.answer(a)
			r.outcome(ask("s1", "app-01"), "", 1)
		})
	}
	t.Run("reset before it was executed", func(t *testing.T) {
		t.Parallel()
		r := rigged(t, setUp{vain: true})
		r.answer(zvmsim.Answer{Op: zvmsim.OpInsert, Reset: true})
		r.outcome(ask("s1", "app-01"), verdict.CheckpointFailed, 1)
	})
}

func TestRefusalsOfTheZVM(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer zvmsim.Answer
		code   verdict.Code
		next   string
		posts  int
	}{
		"viewer may not insert":       {zvmsim.Answer{Op: zvmsim.OpInsert, Status: 403}, verdict.CheckpointFailed, nextRole, 1},
		"no token: 400":               {zvmsim.Answer{Op: zvmsim.OpToken, Status: 400, Body: `{"error":"invalid_grant"}`}, verdict.CheckpointFailed, nextCredential, 0},
		"no token: 401":               {zvmsim.Answer{Op: zvmsim.OpToken, Status: 401}, verdict.CheckpointFailed, nextCredential, 0},
		"no token endpoint":           {zvmsim.Answer{Op: zvmsim.OpToken, Status: 404}, verdict.CheckpointUnsupported, nextUnsupported, 0},
		"look-up answers in html":     {zvmsim.Answer{Op: zvmsim.OpVMs, Status: 200, Body: "<html>"}, verdict.CheckpointFailed, nextRepeat, 0},
		"look-up has both spellings":  {zvmsim.Answer{Op: zvmsim.OpVMs, Status: 200, Body: `[{"VmName":"app-01","vmName":"app-01"}]`}, verdict.CheckpointFailed, nextRepeat, 0},
		"no server time":              {zvmsim.Answer{Op: zvmsim.OpSites, Status: 403}, verdict.CheckpointFailed, nextRole, 0},
		"vpg can't be read":           {zvmsim.Answer{Op: zvmsim.OpVPGs, Status: 403}, verdict.CheckpointFailed, nextRole, 0},
		"platform isn't known at all": {zvmsim.Answer{Op: zvmsim.OpVMs, Status: 200, Body: bareRow}, verdict.CheckpointUnsupported, nextUnsupported, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rigged(t, setUp{})
			r.answer(tt.answer)
			if refusal := r.outcome(ask("s1", "app-01"), tt.code, tt.posts); refusal.Next != tt.next {
				t.Errorf("next %q", refusal.Next)
			}
		})
	}
}

const bareRow = `[{"VmIdentifier":"i","VmName":"app-01","VpgIdentifier":"5a3f1c2e-0000-4000-8000-000000000000","VpgName":"V","Entities":{"Protected":99}}]`
