package broker

import (
	"fmt"
	"time"

	"leaseguard.internal/broker/policy"
	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/config"
)

// settings are what guard.toml says, all of one reading of it. They never
// change: a reload puts others in their place. What is judged takes them once,
// so that no decision is half of one file and half of another.
type settings struct {
	config      *config.Config
	read        time.Time // when guard.toml was
	catalog     *catalog.Catalog
	checkpoints Checkpoints   // nil: no ZVM is configured, and no mutator can pass
	operators   named         // of identity.operators
	server      policy.Server // nil: none is configured
	close       func()        // ends both
}

func newSettings(l Loaded, read time.Time) (*settings, error) {
	cfg := l.Config
	c, err := catalog.New(cfg.Tools)
	if err != nil {
		return nil, fmt.Errorf("reading the catalog: %w", err)
	}
	operators, err := namedOperators(cfg.Identity.Operators)
	if err != nil {
		return nil, err
	}
	return &settings{config: cfg, read: read, catalog: c, checkpoints: l.Checkpoints, operators: operators, server: l.Policies, close: l.close}, nil
}

// outdated says whether others have taken the place of set. What was granted or
// passed by it is taken back then.
func (b *Broker) outdated(set *settings) bool { return b.settings() != set }

// settings returns those in force.
func (b *Broker) settings() *settings { return b.current.Load() }
