package checkpoint

import (
	"context"
	"time"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/wire"
)

// Look says what an Ensure of these targets would meet before its first insert:
// the machines and VPGs of which checkpoints would be taken, or the refusal. It
// asks, and changes nothing. What it returns has neither tag nor id nor time.
func (s *Service) Look(ctx context.Context, targets []catalog.Target) ([]wire.CheckpointInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.Timeout)
	defer cancel()
	groups, unknown, refusal := s.prepare(ctx, Request{Targets: targets}) // no session's: nothing is there to be reused
	if refusal != nil {
		return nil, refusal
	}
	return outcome(groups, unknown)
}

// Time asks the ZVM for its own time. The answer also shows that the ZVM can be
// reached, is the one that it should be, and takes the credential; the error is a
// *Refusal with the remedy.
func (s *Service) Time(ctx context.Context) (time.Time, error) {
	now, err := s.zvm.Now(ctx)
	if err != nil {
		return time.Time{}, fromError(ctx, "the ZVM", err)
	}
	return now, nil
}
