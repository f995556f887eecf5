package main

import "slices"

// table lists what is taken out. Each entry breaks one promise, in a way that
// compiles and that a hurried change could look like.
func table() []mutant {
	return slices.Concat(leases(), decisions(), identities(), records(), pi, codex, policies, firstAttacks, lastAttacks)
}

// leases are promises of tokens and the lease machine.
func leases() []mutant {
	return []mutant{
		{
			name: "verified-before-commit", breaks: "no session is VERIFIED before its token's consumption is on disk",
			file: "broker/leases.go",
			old:  `	if err := b.commitGrant(ctx, s, l, b.tokenRecord(s, l, hash, binding, purposePromote), "promote"); err != nil {`,
			new: `	_, _, _ = s.Apply(lease.Promoted{Cycle: l.Cycle()}, b.opt.Clock.Now())
	if err := b.commitGrant(ctx, s, l, b.tokenRecord(s, l, hash, binding, purposePromote), "promote"); err != nil {`,
			pkg: "./broker", test: "TestModel", tags: "failpoint",
		},
		{
			name: "failed-commit-grants", breaks: "any commit error leaves the lease UNVERIFIED",
			file: "broker/leases.go",
			old:  `		l, _, _ = s.Apply(lease.PromoteFailed{Cycle: l.Cycle()}, b.opt.Clock.Now())`,
			new:  `		l, _, _ = s.Apply(lease.Promoted{Cycle: l.Cycle()}, b.opt.Clock.Now())`,
			pkg:  "./broker", test: "TestNthFailure", tags: "failpoint",
		},
		{
			name: "token-not-consumed", breaks: "a token is consumed at most once",
			file: "broker/store/token.go", old: `	return t, b.Put(hash[:], value)`, new: `	return t, nil`,
			pkg: "./broker/store", test: "TestV1_OneOf64Wins",
		},
		{
			name: "token-not-bound", breaks: "a token counts for what it was minted for alone",
			file: "broker/store/token.go", old: `		return t.fits(want)`, new: `		return nil`,
			pkg: "./broker/store", test: "TestV1_FailedAttemptBurns",
		},
		{
			name: "replay-costs-nothing", breaks: "the use of a consumed token takes the lease and raises an alarm",
			file: "broker/leases.go", old: `	l := b.down(s, lease.Replay{})`, new: `	l := s.Lease(b.opt.Clock.Now())`,
			pkg: "./broker", test: "TestNthFailure", tags: "failpoint",
		},
		{
			name: "end-not-compared", breaks: "no lease outlives its end",
			file: "broker/lease/lease.go", old: `	case l.state == Verified && now >= l.end:`, new: `	case l.state == Verified && now >= l.end.Add(time.Hour):`,
			pkg: "./broker/lease", test: "TestC1_LeaseEndsInBoottime",
		},
		{
			name: "generation-not-compared", breaks: "a token of another generation promotes nothing",
			file: "broker/lease/apply.go",
			old: `	case e.Generation != l.generation:
		return burn(ErrGeneration)`,
			new: `	case false:
		return burn(ErrGeneration)`,
			pkg: "./broker/lease", test: "TestPromoteRefusals",
		},
		{
			name: "gate-unseen-promotes", breaks: "no promotion before the gate of this generation was heard",
			file: "broker/lease/apply.go", old: `	case !l.gateSeen:`, new: `	case false:`,
			pkg: "./broker/lease", test: "TestPromoteRefusals",
		},
		{
			name: "restart-restores", breaks: "after a start nobody has authority",
			file: "broker/watch.go", old: `		s.Start(r.GateSeen, r.Launched)`,
			new: `		s.Start(r.GateSeen, r.Launched)
		_, _, _ = s.Apply(lease.Begin{Max: lease.MaxTTL, Token: lease.Hash{1}}, b.since)
		_, _, _ = s.Apply(lease.Promote{Token: lease.Hash{1}, Generation: r.Generation}, b.since)
		_, _, _ = s.Apply(lease.Promoted{Cycle: 1}, b.since)`,
			pkg: "./broker", test: "TestRestartKeepsIdsAndNoAuthority",
		},
		{
			name: "lower-generation-replaces", breaks: "the generation of a session never falls",
			file: "broker/session/add.go", old: `		if old.session.Generation >= s.Generation {`, new: `		if false {`,
			pkg: "./broker/session", test: "TestNextGenerationReplacesTheDead",
		},
	}
}

// decisions are promises of the answer to one call, and of who may give orders.
func decisions() []mutant {
	return []mutant{
		{
			name: "end-on-the-wall-clock", breaks: "a lease ends on CLOCK_BOOTTIME, whatever the wall clock says",
			file: "broker/decide.go",
			old: `	l := c.session.Lease(b.opt.Clock.Now())
	if l.State() != lease.Verified {
		return leaseVerdict(c.event.Tool, c.session, l)`,
			new: `	l := c.session.Lease(b.since.Add(b.opt.Clock.Wall().Sub(b.started)))
	if l.State() != lease.Verified {
		return leaseVerdict(c.event.Tool, c.session, l)`,
			pkg: "./broker", test: "TestAttack17_SuspendAndClockSteps",
		},
		{
			name: "second-look-forgets", breaks: "a lease that was lowered while the call was judged lets nothing pass, even if it was raised again",
			file: "broker/decide.go", old: `	if l.Lowerings() != c.lowerings || `, new: `	if `,
			pkg: "./broker", test: "TestRevokedWhileJudged",
		},
		{
			name: "fails-open", breaks: "what isn't a confirmed checkpoint is a denial",
			file: "broker/protect.go", old: `	if err != nil {
		return b.checkpointRefused(c, targets, err)`,
			new: `	if err != nil && infos == nil {
		return b.checkpointRefused(c, targets, err)`,
			pkg: "./broker", test: "TestNothingFailsOpen",
		},
		{
			name: "near-miss-tag", breaks: "only exactly our tag confirms a checkpoint",
			file: "broker/checkpoint/confirm.go", old: `		case cp.Tag != w.in.tag:`, new: `		case !strings.EqualFold(strings.TrimSpace(cp.Tag), w.in.tag):`,
			pkg: "./broker/checkpoint", test: "TestZ1_OnlyOurTagCounts",
		},
		{
			name: "revocation-comes-late", breaks: "a revocation is seen by the next decision that begins after it returned",
			file: "broker/leases.go", old: `	l, _, _ := s.Apply(ev, b.opt.Clock.Now())`,
			new: `	l := s.Lease(b.opt.Clock.Now())
	b.spawn(func() {
		time.Sleep(3 * time.Millisecond)
		_, _, _ = s.Apply(ev, b.opt.Clock.Now())
	})`,
			pkg: "./e2e/kills", test: "TestLinearizable", tags: "kills",
		},
		{
			name: "unheard-observer", breaks: "an observer that can't be taken in revokes",
			file: "broker/event.go", old: `	if c.role == wire.RoleObserve && v.Kind != verdict.Pass && c.session != nil && c.session.Launched() {`, new: `	if false {`,
			pkg: "./broker", test: "TestUnheardObserversRevoke",
		},
		{
			name: "stale-approval", breaks: "an approval that waited while somebody revoked doesn't come through",
			file: "broker/grant.go", old: `	if ctl.Verb != wire.VerbPromote && s.Lease(b.opt.Clock.Now()).Lowerings() != arrived {`, new: `	if false {`,
			pkg: "./broker", test: "TestRevokePassesWaitingApprovals",
		},
		{
			name: "gone-rises-again", breaks: "all authority ends with the anchor, for good",
			file: "broker/session/session.go", old: `	if s.gone && next.State() != lease.Unverified {`, new: `	if false {`,
			pkg: "./broker/session", test: "TestI7_NothingRisesAfterTheEnd",
		},
		{
			name: "root-session", breaks: "a session of root is refused unless it is allowed",
			file: "broker/register.go", old: `	if privileged && !`, new: `	if false && !`,
			pkg: "./broker", test: "TestRootSessions",
		},
		{
			name: "session-is-operator", breaks: "a process inside a session is no operator",
			file: "broker/roles.go", old: `	s, path, err := b.sessions.Find(p.Process())`, new: `	s, path, err := (*session.Session)(nil), []session.Step(nil), session.ErrNotRegistered`,
			pkg: "./broker", test: "TestSessionIsNoOperator",
		},
		{
			name: "session-works-the-zvm", breaks: "what a session has explained asks the ZVM nothing",
			file: "broker/roles.go", old: `ctl, body, b.unasked)`, new: `ctl, body, b.look)`,
			pkg: "./broker", test: "TestNoSessionInspects",
		},
	}
}

// identities are promises of who is on the other end.
func identities() []mutant {
	return []mutant{
		{
			name: "pid-only", breaks: "a process is known by its pidfs inode, never by its number alone",
			file: "internal/peer/process.go", old: `	if !p.Alive() || start == 0 || p.Inode() != inode || p.StartTime() != start {`, new: `	if !p.Alive() {`,
			pkg: "./internal/peer", test: "TestReopen",
		},
		{
			name: "poll-not-asked", breaks: "what has ended is asked of the pidfd, and a zombie has",
			file: "internal/peer/kernel.go", old: `	return events != 0, err`, new: `	return events < 0, err`,
			pkg: "./internal/peer", test: "TestI5_DeadPeersAreRefused",
		},
		{
			name: "sender-not-compared", breaks: "only the process that connected speaks on its connection",
			file: "internal/peer/conn.go", old: `	if int(cred.Pid) != p.PID() || cred.Uid != p.uid {`, new: `	if cred.Uid != p.uid {`,
			pkg: "./internal/peer", test: "TestI4_OnlyTheConnectorSpeaks",
		},
		{
			name: "parent-read-once", breaks: "each step of a lineage is read again while the process below is held",
			file: "internal/peer/lineage.go", old: `		if err == nil && openErr == nil && again == ppid {`, new: `		if err == nil && openErr == nil && again > 0 {`,
			pkg: "./internal/peer", test: "TestAttack11_ParentReplaced",
		},
		{
			name: "any-listener", breaks: "clients talk to a listener of the broker's uid or root's alone",
			file: "internal/peer/dial.go", old: `	if cred.Uid != wantUID && cred.Uid != 0 {`, new: `	if false {`,
			pkg: "./internal/peer", test: "TestK2_SquattersAreNotTheBroker",
		},
		{
			name: "gate-any-uid", breaks: "the gate asks a listener of the broker's uid or root's alone",
			file: "gate/exchange.go", old: `	if err != nil || peer.Uid != 0 && int64(peer.Uid) != c.uid {`, new: `	if err != nil || peer == nil {`,
			pkg: "./gate", test: "TestImpostorListens",
		},
		{
			name: "gate-any-directory", breaks: "the gate asks at no socket that others could have put there",
			file: "gate/exchange.go", old: ` || uid != 0 && uid != c.uid || open || last && perm`, new: ` || uid != 0 && uid != c.uid || open && !open || last && perm`,
			pkg: "./gate", test: "TestK2_DirectoryOfAnother",
		},
		{
			name: "world-writable-way", breaks: "no component of a trusted path may be written by others",
			file: "internal/safepath/walk.go", old: `	if open && (owner(info) != 0 || mode&fs.ModeSticky == 0) {`, new: `	if open && owner(info) != 0 {`,
			pkg: "./internal/safepath", test: "TestK2_WorldWritableParent",
		},
		{
			name: "folded-keys", breaks: "a key that equals a known one only after case folding is malformed",
			file: "internal/strictjson/strictjson.go", old: `		if strings.EqualFold(name, k) {`, new: `		if name == k && strings.EqualFold(name, k) {`,
			pkg: "./internal/strictjson", test: "TestP5_AmbiguousKeys",
		},
	}
}

// records are promises of what is on disk.
func records() []mutant {
	return []mutant{
		{
			name: "grant-not-recorded", breaks: "the record of a promotion is on disk before the lease is VERIFIED",
			file: "broker/leases.go", old: `	if _, err := b.audit.Append(ctx, r); err != nil {
		return fmt.Errorf("recording the grant: %w", err)`,
			new: `	b.audit.Log(r)
	if err := error(nil); err != nil {
		return fmt.Errorf("recording the grant: %w", err)`,
			pkg: "./broker", test: "TestNthFailure", tags: "failpoint",
		},
		{
			name: "pass-not-recorded", breaks: "the record of a mutator's pass is on disk before the answer leaves",
			file: "broker/event.go", old: `	if _, err := b.audit.Append(ctx, b.stamped(r)); err != nil {`,
			new: `	b.audit.Log(b.stamped(r))
	if err := ctx.Err(); err != nil {`,
			pkg: "./broker", test: "TestNthFailure", tags: "failpoint",
		},
		{
			name: "failed-store-goes-on", breaks: "a store that failed once raises nothing any more",
			file: "broker/store/store.go", old: `		err = s.fail(guarded(func() error { return s.transact(batch, results) }))`, new: `		err = guarded(func() error { return s.transact(batch, results) })`,
			pkg: "./broker/store", test: "TestB3_FailedCommitStays", tags: "failpoint",
		},
		{
			name: "cut-not-found", breaks: "a chain that ends before the stored head is found",
			file: "internal/audit/verify.go", old: `	if v.stored != nil && v.stored.Seq > v.seq {`, new: `	if false {`,
			pkg: "./internal/audit", test: "TestVerifyFindsAndNames",
		},
		{
			name: "link-not-compared", breaks: "an edited record is found by the hash that the next one names",
			file: "internal/audit/verify.go", old: `	case r.Prev != v.prev:
		if v.fault(`, new: `	case false:
		if v.fault(`,
			pkg: "./internal/audit", test: "TestVerifyFindsEveryFlip",
		},
	}
}
