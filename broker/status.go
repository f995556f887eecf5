package broker

import (
	"os"
	"slices"
	"strings"

	"leaseguard.internal/broker/session"
	"leaseguard.internal/internal/wire"
)

// status describes the broker and its sessions, or only the one that asks.
func (b *Broker) status(only *session.Session) *wire.Status {
	all := b.sessions.All()
	if only != nil {
		all = []*session.Session{only}
	}
	st := &wire.Status{Broker: b.brokerStatus(), Sessions: make([]wire.Session, 0, len(all))}
	now := b.opt.Clock.Now()
	for _, s := range all {
		if s.Gone() {
			continue
		}
		v := s.View(now)
		v.OnlySelf = only != nil
		st.Sessions = append(st.Sessions, v)
	}
	slices.SortFunc(st.Sessions, func(x, y wire.Session) int {
		if c := x.Started.Compare(y.Started); c != 0 {
			return c
		}
		return strings.Compare(x.ID, y.ID)
	})
	return st
}

func (b *Broker) brokerStatus() wire.BrokerStatus {
	st := wire.BrokerStatus{
		PID: os.Getpid(), Version: b.opt.Version, Mode: b.opt.Paths.Mode, UID: b.opt.UID, BootID: b.bootID, Epoch: b.epoch,
		Started: b.started, Config: b.settings().config.Path, ConfigRead: b.settings().read, RunDir: b.opt.Paths.RunDir, StateDir: b.opt.Paths.StateDir, ZVM: "none",
		Assurance: wire.Assurance{Identity: string(b.level), Operator: b.operatorProof(), Cgroup: b.fences.level()},
		InFlight:  b.calls.taken(),
	}
	if z := b.settings().config.ZVM; z != nil {
		st.ZVM = z.URL
	}
	if err := b.store.Err(); err != nil {
		st.StoreError = err.Error()
	}
	if err := b.audit.Err(); err != nil {
		st.AuditError = err.Error()
	}
	st.ConfigError, st.JournalLost = b.configError(), b.opt.Journal.Lost()
	st.AuditFault, st.StoreAsides = b.audit.Fault(), b.asides
	return st
}
