package broker

import (
	"context"
	"fmt"
	"log/slog"

	"leaseguard.internal/broker/checkpoint"
	"leaseguard.internal/broker/policy"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/zerto"
)

// loader reads guard.toml and builds what it asks for, at the start and at each
// reload.
type loader struct {
	paths paths.Paths
	uid   uint32
	clock clock.Clock
	log   *slog.Logger
}

func (l loader) load() (Loaded, error) {
	cfg, err := config.Load(l.paths.Config, l.paths.Mode, l.uid)
	if err != nil {
		return Loaded{}, err
	}
	if l.paths.Mode == paths.System && cfg.Path == "" {
		return Loaded{}, fmt.Errorf("loading configuration %q: it is gone, and defaults would take its place; put it back, or set guard up again with: guard init --system", l.paths.Config)
	}
	loaded := Loaded{Config: cfg}
	if cfg.PolicyServer != nil {
		server, err := policy.NewEvaluator(*cfg.PolicyServer, l.uid, l.clock, nil)
		if err != nil {
			return Loaded{}, err
		}
		loaded.Policies, loaded.Close = server, server.Close
	}
	if cfg.ZVM == nil {
		return loaded, nil
	}
	service, end, err := l.checkpoints(cfg)
	if err != nil {
		loaded.close()
		return Loaded{}, err
	}
	before := loaded.close
	loaded.Checkpoints, loaded.Close = service, func() { end(); before() }
	return loaded, nil
}

// checkpoints connects to the ZVM. end gives up on what is in flight there.
func (l loader) checkpoints(cfg *config.Config) (service *checkpoint.Service, end func(), err error) {
	secret, err := cfg.ZVM.Secret(l.uid)
	if err != nil {
		return nil, nil, err
	}
	z := zerto.Config{URL: cfg.ZVM.URL, CAFile: cfg.ZVM.CAFile, SPKISHA256: cfg.ZVM.SPKISHA256, UID: l.uid, ClientID: cfg.ZVM.ClientID, Username: cfg.ZVM.Username}
	if z.Username != "" {
		z.Password = secret
	} else {
		z.Secret = secret
	}
	api, err := zerto.New(z, l.clock)
	if err != nil {
		return nil, nil, err
	}
	s := checkpoint.New(api, l.clock, checkpoint.Options{AcceptStatus: cfg.Checkpoint.AcceptStatus, Timeout: cfg.Checkpoint.Timeout})
	// The first token is fetched ahead, so that no call waits for it; a wrong
	// secret is found, and said, before anybody needs it.
	ctx, cancel := context.WithCancel(context.Background())
	warmed := make(chan struct{})
	go func() {
		defer close(warmed)
		if err := api.Warm(ctx); err != nil && ctx.Err() == nil {
			l.log.Warn("logging in at the ZVM; until this works every change is denied", "error", err)
		}
	}()
	return s, func() { cancel(); <-warmed; s.Close(); api.Close() }, nil
}
