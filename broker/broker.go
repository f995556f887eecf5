package broker

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"leaseguard.internal/broker/checkpoint"
	"leaseguard.internal/broker/policy"
	"leaseguard.internal/broker/session"
	"leaseguard.internal/broker/store"
	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/passphrase"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/sdunit"
	"leaseguard.internal/internal/subuid"
	"leaseguard.internal/internal/wire"
)

// Checkpoints confirms that every machine a call changes can be rewound.
type Checkpoints interface {
	Ensure(context.Context, checkpoint.Request) ([]wire.CheckpointInfo, error)
	Look(context.Context, []catalog.Target) ([]wire.CheckpointInfo, error)
	Time(context.Context) (time.Time, error)
	Forget(session string)
}

// Options is what a broker needs from its surroundings.
type Options struct {
	Paths       paths.Paths
	Config      *config.Config // to start with
	UID         uint32
	Clock       clock.Clock
	Log         *slog.Logger
	Version     string
	Checkpoints Checkpoints   // nil: no ZVM is configured, and no mutator can pass
	Policies    policy.Server // nil: no policy server is asked
	Close       func()        // ends both with the broker; nil: there is nothing to end
	Owners      *subuid.Table // of subordinate uids; nil: the machine's

	Reload  func() (Loaded, error) // reads guard.toml again; nil: it can't be
	Hangup  <-chan os.Signal       // asks for a reload; nil: nobody does
	Manager *sdunit.Manager        // the service manager that started us; nil: none did
	Journal *sdunit.Journal        // shows the audit's events too; nil: there is none
}

// Broker is a running daemon.
type Broker struct {
	opt     Options
	level   peer.Level
	bootID  string
	epoch   string
	started time.Time
	key     [32]byte

	current     atomic.Pointer[settings] // of guard.toml as last read
	reload      sync.Mutex               // one at a time
	refused     atomic.Pointer[string]   // why the last reload kept the old settings; nil: it didn't
	store       *store.Store
	audit       *audit.Writer
	floods      *audit.Coalescer
	sessions    *session.Registry
	owners      *subuid.Table // of subordinate uids
	turn        atomic.Uint32 // counts connections, see staggered
	answered    atomic.Uint32 // counts the broker's own knocks that it has seen
	most        int           // sessions, since memory was given back: sweep's own
	room        int           // for garbage, in percent of what lives, as it was last set; the sweep's own
	lock        *runLock
	ended       *ended
	endings     *endings
	fences      *fences
	proofs      *proofs
	asides      []string            // damaged stores that lie beside the good one
	gate        string              // the installed gate
	guard       string              // the installed guard, which runs policy hooks
	hooks       policy.Hooks        // which policy hooks a call meets; nil: there are none
	definitions *policy.Definitions // they come from, and who trusts them
	runners     runners             // that run some now
	since       clock.Instant       // when this broker started

	passphrases *passphrase.Checker
	ownerFault  atomic.Pointer[string] // why some owners can't be told; empty: all can
	secret      atomic.Bool            // a passphrase was set when last looked

	calls, refusals  *pool   // connections of broker.sock: heard, and told that it is busy
	people, insiders *pool   // of operator.sock: operators, and sessions that ask there
	strays           *pool   // of operator.sock: operators that are told that it is busy
	silent           silents // of operator.sock: who has a place and says nothing
	grants           *slots  // operators' requests that wait for the disk
	hookPlaces       *pool   // policy hooks that run
	results          *pool   // results of tools that a policy server judges
	bytes            memory
	parsing          chan struct{}
	listeners        []*peer.Listener
	work             sync.WaitGroup
	stopping         atomic.Bool
	stop             context.CancelFunc
}

// Start takes the lock, opens store and audit, brings back the sessions whose
// anchors still live, and listens. Nothing is listening when it fails.
func Start(opt Options) (_ *Broker, err error) {
	b := &Broker{opt: opt, started: opt.Clock.Wall(), since: opt.Clock.Now(), ended: newEnded(), endings: newEndings(), fences: newFences(opt.Paths), proofs: newProofs(), owners: cmp.Or(opt.Owners, subuid.System()), passphrases: passphrase.NewChecker(opt.Clock)}
	defer func() {
		if err != nil {
			_ = b.release() // the first error tells more
		}
	}()
	programs, err := client.Siblings()
	if err != nil {
		return nil, err
	}
	b.gate, b.guard = programs.Gate, programs.Guard
	if b.level, err = peer.Detect(); err != nil {
		return nil, fmt.Errorf("checking the kernel's means of identity: %w", err)
	}
	if b.bootID, err = clock.BootID(); err != nil {
		return nil, err
	}
	if b.epoch, err = newEpoch(); err != nil {
		return nil, err
	}
	set, err := newSettings(Loaded{opt.Config, opt.Checkpoints, opt.Policies, opt.Close}, b.started)
	if err != nil {
		return nil, err
	}
	b.current.Store(set)
	if err = b.openState(); err != nil {
		return nil, err
	}
	if b.definitions, err = policy.New(userHooks(opt.Paths.Config), opt.UID, opt.Clock, b.store); err != nil {
		return nil, err
	}
	b.hooks = b.definitions
	limits := opt.Config.Limits
	b.sessions = session.NewRegistry(limits.SessionsPerUID)
	places := connections()
	b.calls, b.refusals = newPool(places, firstFew, places/4), newPool(places, firstFew, places/4)
	b.people, b.insiders, b.strays = newPool(maxOperators, firstFew, 0), newPool(maxInsiders, firstFew, 0), newPool(maxOperators, firstFew, 0)
	b.results = newPool(resultsAtOnce, firstFew, 0)
	b.hookPlaces = newPool(maxHooksAtOnce, maxHooksCall, 0)
	b.grants = newSlots(maxGrants)
	b.bytes, b.parsing = newMemory(), make(chan struct{}, maxParsing)
	b.refreshOwners()
	if err = b.restore(); err != nil {
		return nil, err
	}
	return b, b.listen()
}

func newEpoch() (string, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("drawing the broker's epoch: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// openState opens lock, store and audit in that order: who has the lock may
// remove a stale socket, and nobody else.
func (b *Broker) openState() (err error) {
	p, uid := b.opt.Paths, b.opt.UID
	for _, dir := range []string{p.RunDir, p.StateDir} {
		if err = paths.EnsureDir(dir, uid); err != nil {
			return err
		}
	}
	if p.Mode == paths.System {
		// Made by us it would be readable for nobody but us.
		if err = safepath.GroupDir(p.AuditDir, uid, p.AuditGID); err != nil {
			return fmt.Errorf("using the audit's directory: %w; systemd-tmpfiles --create makes it", err)
		}
	}
	if err = safepath.Straight(p.RunDir); err != nil {
		return fmt.Errorf("using the directory of the sockets: %w", err)
	}
	if b.lock, err = takeLock(p.Lock); err != nil {
		return err
	}
	aside, err := b.openStore()
	if err != nil {
		return err
	}
	if err := b.openAudit(aside); err != nil {
		return err
	}
	b.floods = audit.NewCoalescer(maxEqualPerSecond)
	return nil
}

// Run serves until ctx ends or an operator stops the broker, then closes in
// order: no new calls, what is under way ends, records reach the disk.
func (b *Broker) Run(ctx context.Context) error {
	ctx, b.stop = context.WithCancel(ctx)
	defer b.stop()
	journal := b.startJournal()
	dog := b.opt.Manager.Watchdog(len(b.listeners))
	b.spawn(func() { b.accept(ctx, newDoor(b.listeners[0], b.placeCaller, b.serveSession).watched(dog, 0)) })
	operators := newDoor(b.listeners[1], b.placeOperator, b.serveOperator).watched(dog, 1)
	operators.silent = &b.silent
	b.spawn(func() { b.accept(ctx, operators) })
	b.spawn(func() { b.knocks(ctx) })
	b.spawn(func() { b.watch(ctx) })
	b.spawn(func() { b.sweep(ctx) })
	b.spawn(func() { dog.Run(ctx, b.notify) })
	b.spawn(func() { b.reloads(ctx) })
	b.spawn(func() { b.probeFences(ctx) })
	b.endRestored()
	err := b.ready(ctx)
	if ctx.Err() != nil {
		err = nil // told to stop before it was ready
	}
	if err == nil {
		<-ctx.Done()
	}
	b.stop()
	err = errors.Join(err, b.shutdown())
	journal()
	return err
}

func (b *Broker) spawn(f func()) {
	b.work.Add(1)
	go func() {
		defer b.work.Done()
		f()
	}()
}
