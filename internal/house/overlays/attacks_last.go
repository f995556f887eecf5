package main

// lastAttacks are the attacks from 13 on.
var lastAttacks = []mutant{
	{
		name: "attack-14a", breaks: "attack 14a is refused: registered twice",
		file: "broker/session/add.go",
		old:  `	if other := r.byAnchor[id]; other != nil {`, new: `	if other := r.byAnchor[id]; other != nil && false {`,
		pkg: "./e2e/attacks", test: "TestAttack14_SecondRegistration", tags: "attacks", slow: true,
	},
	{
		name: "attack-14b", breaks: "attack 14b is refused: inside a session",
		file: "broker/session/add.go",
		old:  `		if other := r.byAnchor[up]; other != nil {`, new: `		if other := r.byAnchor[up]; other != nil && false {`,
		pkg: "./e2e/attacks", test: "TestAttack14_SecondRegistration", tags: "attacks", slow: true,
	},
	{
		name: "attack-14c", breaks: "attack 14c is refused: around a session",
		file: "broker/session/add.go",
		old:  `	if below := r.below(id); below != nil {`, new: `	if below := r.below(id); below != nil && false {`,
		pkg: "./e2e/attacks", test: "TestAttack14_SecondRegistration", tags: "attacks", slow: true,
	},
	{
		name: "attack-15", breaks: "attack 15 is refused: one token, many promotions",
		file: "broker/leases.go",
		old: `		b.replayed(rec)
		return store.ErrTokenUsed`,
		new: `		return store.ErrTokenUsed`,
		pkg: "./e2e", test: "TestAttack15_OneTokenManyPromotes", slow: true,
	},
	{
		name: "attack-16", breaks: "attack 16 is refused: killed between begin and verified",
		file: "broker/leases.go",
		old: `	if _, err := b.store.ConsumeToken(ctx, rec); err != nil {
		return fmt.Errorf("consuming the token: %w", err)
	}`,
		new: ``,
		pkg: "./e2e", test: "TestAttack16_KilledBetweenBeginAndVerified", slow: true,
	},
	{
		name: "attack-28a", breaks: "attack 28a is refused: the gate of an orphan",
		file: "broker/own.go",
		old: `	return len(c.path) >= 2 && len(c.path) <= 2+between && c.stdin != 0 && c.stdin == anchor.PID() && b.installedGate(c) &&
		c.peer.Process().OursInNumbers() && anchor.Alive()`,
		new: `	return len(c.path) >= 2 && len(c.path) <= 2+between && b.installedGate(c) &&
		c.peer.Process().OursInNumbers() && anchor.Alive()`,
		pkg: "./e2e/attacks", test: "TestAttack28_OrphanFakesHostEvent", tags: "attacks", slow: true,
	},
	{
		name: "attack-28b", breaks: "attack 28b is refused: the gate below a tool",
		file: "broker/own.go",
		old: `	return len(c.path) >= 2 && len(c.path) <= 2+between && c.stdin != 0 && c.stdin == anchor.PID() && b.installedGate(c) &&
		c.peer.Process().OursInNumbers() && anchor.Alive()`,
		new: `	return len(c.path) >= between && c.stdin != 0 && c.stdin == anchor.PID() && b.installedGate(c) &&
		c.peer.Process().OursInNumbers() && anchor.Alive()`,
		pkg: "./e2e/attacks", test: "TestAttack28_OrphanFakesHostEvent", tags: "attacks", slow: true,
	},
	{
		name: "attack-28c", breaks: "attack 28c is refused: another program speaks like the gate",
		file: "broker/own.go",
		old: `	return len(c.path) >= 2 && len(c.path) <= 2+between && c.stdin != 0 && c.stdin == anchor.PID() && b.installedGate(c) &&
		c.peer.Process().OursInNumbers() && anchor.Alive()`,
		new: `	return len(c.path) >= 2 && len(c.path) <= 2+between && c.stdin != 0 && c.stdin == anchor.PID() && c.peer.Process().OursInNumbers() && anchor.Alive()`,
		pkg: "./e2e/attacks", test: "TestAttack28_OrphanFakesHostEvent", tags: "attacks", slow: true,
	},
	{
		name: "attack-13", breaks: "attack 13 is refused: another session's place",
		file: "broker/session/registry.go",
		old: `	if e := r.byAnchor[id]; e != nil && id.Same(e.session.Anchor.ID()) {
		return e.session
	}`,
		new: `	for _, e := range r.byAnchor {
		return e.session
	}`,
		pkg: "./e2e/attacks", test: "TestAttack13_OtherSessionsPlace", tags: "attacks", slow: true,
	},
	{
		name: "attack-17", breaks: "attack 17 is refused: suspend and clock steps",
		file: "broker/lease/lease.go",
		old:  `	case l.state == Verified && now >= l.end:`, new: `	case l.state == Verified && now < l.end-l.end:`,
		pkg: "./broker", test: "TestAttack17_SuspendAndClockSteps", slow: true,
	},
	{
		name: "attack-18a", breaks: "attack 18a is refused: a second broker",
		file: "broker/lock.go",
		old:  `	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {`,
		new:  `	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {`,
		pkg:  "./e2e/attacks", test: "TestAttack18_SocketTakeover", tags: "attacks", slow: true,
	},
	{
		name: "attack-18b", breaks: "attack 18b is refused: what lies there is removed",
		file: "internal/peer/listen.go",
		old:  `	case st.Mode&unix.S_IFMT != unix.S_IFSOCK:`, new: `	case st.Mode&unix.S_IFMT == unix.S_IFBLK:`,
		pkg: "./e2e/attacks", test: "TestAttack18_SocketTakeover", tags: "attacks", slow: true,
	},
	{
		name: "attack-18c", breaks: "attack 18c is refused: somebody else's socket is removed",
		file: "internal/peer/listen.go",
		old:  `	case st.Uid != uid:`, new: `	case st.Uid == uid+77:`,
		pkg: "./e2e/attacks", test: "TestAttack18_SocketTakeover", tags: "attacks", slow: true,
	},
	{
		name: "attack-18d", breaks: "attack 18d is refused: an impostor listens",
		file: "gate/exchange.go",
		old:  `	if err != nil || peer.Uid != 0 && int64(peer.Uid) != c.uid {`, new: `	if err != nil || peer == nil {`,
		pkg: "./e2e/attacks", test: "TestAttack18_SocketTakeover", tags: "attacks", slow: true,
	},
	{
		name: "attack-19", breaks: "attack 19 is refused: descriptors come in",
		file: "internal/peer/conn.go",
		old:  `	oob := make([]byte, credSpace)`, new: `	oob := make([]byte, credSpace+4096)`,
		pkg: "./e2e/attacks", test: "TestAttack19_DescriptorFlood", tags: "attacks", slow: true,
	},
	{
		name: "attack-20a", breaks: "attack 20a is refused: places of a tree",
		file: "broker/pool.go",
		old:  `	case p.trees[t]+n > limit:`, new: `	case p.trees[t]+n > 100*limit:`,
		pkg: "./e2e/attacks", test: "TestAttack20_SlowAndHuge", tags: "attacks", slow: true,
	},
	{
		name: "attack-20b", breaks: "attack 20b is refused: the first place of a session",
		file: "broker/pool.go",
		old:  `	case p.users[t.user]+n-1 > left && (p.trees[t]+n > p.few || left < p.all/4):`,
		new:  `	case p.users[t.user]+n-1 > left:`,
		pkg:  "./e2e/attacks", test: "TestAttack20_SlowAndHuge", tags: "attacks", slow: true,
	},
	{
		name: "places-outside", breaks: "some places are for sessions alone",
		file: "broker/pool.go",
		old:  `t.session == nil && p.outside+n > p.all-p.kept:`, new: `false:`,
		pkg: "./broker", test: "TestPoolKeepsRoomForSessions",
	},
	{
		name: "had-session", breaks: "who had a session in this boot is no operator",
		file: "broker/owners.go",
		old:  `user != 0 && b.ended.had(user):`, new: `user == 0 && b.ended.had(user):`,
		pkg: "./broker", test: "TestSystemModeSessionsUser",
	},
	{
		name: "attack-20c", breaks: "attack 20c is refused: a huge length",
		file: "internal/wire/frame.go",
		old:  `	if int64(control) > int64(min(lim.Control, MaxControl)) || int64(body) > int64(min(lim.Body, MaxPayload)) {`,
		new:  `	if int64(control) > int64(min(lim.Control, MaxControl)) {`,
		pkg:  "./e2e/attacks", test: "TestAttack20_SlowAndHuge", tags: "attacks", slow: true,
	},
	{
		name: "attack-22", breaks: "attack 22 is refused: another input runs",
		file: "broker/alarm.go",
		old:  `	case judged.Input != canonical(input(c.event)):`, new: `	case judged.Input != judged.Input:`,
		pkg: "./e2e/attacks", test: "TestAttack22_OtherBytesRun", tags: "attacks", slow: true,
	},
	{
		name: "attack-23", breaks: "attack 23 is refused: the broker is killed",
		file: "gate/gate.go",
		old:  `= 2, 100 // what every host takes for a deny`, new: `= 1, 100 // what`,
		pkg: "./e2e/attacks", test: "TestAttack23_KillTheBroker", tags: "attacks", slow: true,
	},
	{
		name: "attack-24", breaks: "attack 24 is refused: the environment names the broker",
		file: "gate/exchange.go",
		old:  `	fd, _ := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0) // without one, do fails`,
		new: `	if s, ok := syscall.Getenv("GUARD_SOCKET"); ok {
		c.socket = s
	}
	fd, _ := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0) // without one, do fails`,
		pkg: "./e2e/attacks", test: "TestAttack24_RedirectedGate", tags: "attacks", slow: true,
	},
	{
		name: "attack-25a", breaks: "attack 25a is refused: names in reasons",
		file: "internal/verdict/reason.go",
		old:  `	q := strconv.QuoteToASCII(s)`,
		new:  "\tq := `\"` + s + `\"`\n\t_ = strconv.QuoteToASCII",
		pkg:  "./e2e/attacks", test: "TestAttack25_HostileNames", tags: "attacks", slow: true,
	},
	{
		name: "silent-link", breaks: "a file system that a process's link leads to isn't asked",
		file: "internal/lookup/lookup.go",
		old:  `	flags |= unix.AT_STATX_DONT_SYNC | unix.AT_NO_AUTOMOUNT`, new: `	flags |= unix.AT_NO_AUTOMOUNT`,
		pkg: "./internal/lookup", test: "TestAttack20_NothingIsAskedOfASilentFileSystem", slow: true,
	},
	{
		name: "silent-path", breaks: "a file system that a path leads into isn't asked",
		file: "internal/lookup/lookup.go",
		old:  `		Resolve: resolveCached | unix.RESOLVE_NO_MAGICLINKS,`, new: `		Resolve: unix.RESOLVE_NO_MAGICLINKS,`,
		pkg: "./internal/lookup", test: "TestAttack20_NothingIsAskedOfASilentFileSystem", slow: true,
	},
	{
		name: "no-parent", breaks: "a walk up ends where a living process has no parent, not where one is being reaped",
		file: "internal/peer/lineage.go",
		old:  `			if ppid, err = p.lowest(); err != nil {`, new: `			if err = ErrTop; err != nil {`,
		pkg: "./internal/peer", test: "TestAttack11_NoParentIsLookedForAgain", slow: true,
	},
	{
		name: "reaped-maker", breaks: "who made the gate's stdin still has its number",
		file: "gate/exchange.go",
		old:  `(gone == 0 || gone == syscall.EPERM)`, new: `gone >= 0`,
		pkg: "./gate", test: "TestStdinPeerIsGone", slow: true,
	},
	{
		name: "unproved-observer", breaks: "an observer that nobody can place ends its user's leases",
		file: "broker/serve.go",
		old:  `		if g.unsure && h.Role`, new: `		if g.unsure && g.outside && h.Role`,
		pkg: "./broker", test: "TestUnprovedObservers", slow: true,
	},
	{
		name: "unseen-knock", breaks: "only a knock that was seen is answered",
		file: "broker/knock.go",
		old:  `b.answered.Load() == before {`, new: `b.answered.Load() < before {`,
		pkg: "./broker", test: "TestKnockUnseen", slow: true,
	},
	{
		name: "long-names", breaks: "no name of a payload takes memory that isn't accounted for",
		file: "broker/admit.go",
		old:  `		if len(name) > maxName {`, new: `		if len(name) < 0 {`,
		pkg: "./broker", test: "TestLongNames", slow: true,
	},
	{
		name: "stdout-gone", breaks: "an answer that nobody can hear is a deny",
		file: "gate/gate.go",
		old:  `out.Rdev == 1<<8|3`, new: `out.Rdev == 1<<8`,
		pkg: "./gate", test: "TestStdoutClosed", slow: true,
	},
	{
		name: "launch-reap", breaks: "an older job's orphan is spared",
		file: "launcher/reap.go",
		old:  `			if len(before) > 0 { // else there is nobody whose orphan it could be`, new: `			if len(before) > 1000 {`,
		pkg: "./launcher", test: "TestProofLeavesNothing", slow: true,
	},
}
