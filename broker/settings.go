package broker

import (
	"fmt"

	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/config"
)

// settings are what guard.toml says, all of one reading of it. They never
// change: a reload puts others in their place. What is judged takes them once,
// so that no decision is half of one file and half of another.
type settings struct {
	config      *config.Config
	catalog     *catalog.Catalog
	checkpoints Checkpoints // nil: no ZVM is configured, and no mutator can pass
	operators   named       // of identity.operators
}

func newSettings(cfg *config.Config, checkpoints Checkpoints) (*settings, error) {
	c, err := catalog.New(cfg.Tools)
	if err != nil {
		return nil, fmt.Errorf("reading the catalog: %w", err)
	}
	operators, err := namedOperators(cfg.Identity.Operators)
	if err != nil {
		return nil, err
	}
	return &settings{config: cfg, catalog: c, checkpoints: checkpoints, operators: operators}, nil
}

// settings returns those in force.
func (b *Broker) settings() *settings { return b.current.Load() }
