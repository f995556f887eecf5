package main

// firstAttacks and lastAttacks take out what each attack of the list is refused by.
// They start programs and take their time: only -all runs them.
var firstAttacks = []mutant{
	{
		name: "attack-01a", breaks: "attack 01a is refused: pid reused before it is looked at",
		file: "internal/peer/kernel.go",
		old:  `		f.peerPidfd = true`, new: `		f.peerPidfd = false`,
		pkg: "./e2e/attacks", test: "TestAttack01_PIDReused", tags: "attacks", slow: true,
	},
	{
		name: "attack-01b", breaks: "attack 01b is refused: pid reused after it was looked at",
		file: "internal/peer/conn.go",
		old: `	if !p.Alive() {
		c.unproved`,
		new: `	if false {
		c.unproved`,
		pkg: "./e2e/attacks", test: "TestAttack01_PIDReused", tags: "attacks", slow: true,
	},
	{
		name: "attack-02a", breaks: "attack 02a is refused: the anchor's pid reused, the broker runs",
		file: "internal/peer/tree.go",
		old:  `	return err == nil && ppid != 0 && ppid == parent.PID() && parent.Alive()`,
		new:  `	return err == nil && ppid != 0 && ppid == parent.PID()`,
		pkg:  "./e2e/attacks", test: "TestAttack02_AnchorsPIDReused", tags: "attacks", slow: true,
	},
	{
		name: "attack-03", breaks: "attack 03 is refused: passed descriptor",
		file: "internal/peer/conn.go",
		old:  `	if int(cred.Pid) != p.PID() || cred.Uid != p.uid {`, new: `	if cred.Uid != p.uid {`,
		pkg: "./e2e/attacks", test: "TestAttack03_PassedDescriptor", tags: "attacks", slow: true,
	},
	{
		name: "attack-04", breaks: "attack 04 is refused: exec after connect",
		file: "broker/decide.go",
		old:  `			return name, step.PID, true`, new: `			_ = name`,
		pkg: "./e2e/attacks", test: "TestAttack04_ExecAfterConnect", tags: "attacks", slow: true,
	},
	{
		name: "attack-05", breaks: "attack 05 is refused: forged identity",
		file: "internal/strictjson/strictjson.go",
		old:  `	err := json.Unmarshal(data, v, json.RejectUnknownMembers(true))`, new: `	err := json.Unmarshal(data, v)`,
		pkg: "./e2e/attacks", test: "TestAttack05_ForgedIdentity", tags: "attacks", slow: true,
	},
	{
		name: "attack-06", breaks: "attack 06 is refused: vanished peer",
		file: "internal/peer/facts.go",
		old:  `		alive = !gone`, new: `		alive = err == nil || gone`,
		pkg: "./e2e/attacks", test: "TestAttack06_VanishedPeer", tags: "attacks", slow: true,
	},
	{
		name: "attack-07a", breaks: "attack 07a is refused: large uid, status",
		file: "internal/proc/stat.go",
		old:  `		uid, err := strconv.ParseUint(string(f), 10, 32)`, new: `		uid, err := strconv.ParseUint(string(f), 10, 31)`,
		pkg: "./e2e/attacks", test: "TestAttack07_LargeUID", tags: "attacks", slow: true,
	},
	{
		name: "attack-07b", breaks: "attack 07b is refused: large uid, gate",
		file: "gate/gate.go",
		old:  `			c.uid = number(arg, 1<<32-2)`, new: `			c.uid = number(arg, 1<<31-1)`,
		pkg: "./e2e/attacks", test: "TestAttack07_LargeUID", tags: "attacks", slow: true,
	},
	{
		name: "attack-10a", breaks: "attack 10a is refused: zombies",
		file: "internal/peer/kernel.go",
		old: `	events, err := poll(fd, unix.POLLIN)
	return events != 0, err`,
		new: `	err := unix.PidfdSendSignal(fd, 0, nil, 0)
	return errors.Is(err, unix.ESRCH), nil`,
		pkg: "./e2e/attacks", test: "TestAttack10_Zombies", tags: "attacks", slow: true,
	},
	{
		name: "attack-10b", breaks: "attack 10b is refused: zombie leader",
		file: "broker/decide.go",
		old:  `		ended, err = c.session.Anchor.LeaderEnded()`, new: `		_, err = c.session.Anchor.LeaderEnded()`,
		pkg: "./e2e/attacks", test: "TestAttack10_Zombies", tags: "attacks", slow: true,
	},
	{
		name: "attack-02b", breaks: "attack 02b is refused: the anchor's pid reused while the broker is down",
		file: "internal/peer/process.go",
		old:  `	if !p.Alive() || start == 0 || p.Inode() != inode || p.StartTime() != start {`, new: `	if !p.Alive() {`,
		pkg: "./e2e/attacks", test: "TestAttack02_AnchorsPIDReused", tags: "attacks", slow: true,
	},
	{
		name: "attack-02c", breaks: "attack 02c is refused: slow fork",
		file: "internal/peer/process.go",
		old:  `		p.id.inode = st.Ino`, new: `		p.id = ID{pid: p.pid, start: p.StartTime()}`,
		pkg: "./internal/peer", test: "TestAttack02_SlowFork", slow: true,
	},
	{
		name: "attack-09", breaks: "attack 09 is refused: subject changes while judged",
		file: "broker/decide.go",
		old: `		if s, _, err = b.sessions.Find(c.peer.Process()); err == nil && s != c.session {
			err = session.ErrNotRegistered
		}`,
		new: `		_ = s`,
		pkg: "./e2e/attacks", test: "TestAttack09_SubjectChangesWhileJudged", tags: "attacks", slow: true,
	},
	{
		name: "attack-11", breaks: "attack 11 is refused: parent replaced",
		file: "internal/peer/lineage.go",
		old:  `		if err == nil && openErr == nil && again == ppid {`, new: `		if err == nil && openErr == nil {`,
		pkg: "./internal/peer", test: "TestAttack11_ParentReplaced", slow: true,
	},
	{
		name: "attack-12", breaks: "attack 12 is refused: double fork",
		file: "launcher/launcher.go",
		old:  `	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {`,
		new:  `	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {`,
		pkg:  "./e2e/attacks", test: "TestAttack12_DoubleFork", tags: "attacks", slow: true,
	},
	{
		name: "attack-08a", breaks: "attack 08a is refused: stored as it is",
		file: "broker/token/token.go",
		old:  `	return sha256.Sum256(t.bits[:])`,
		new: `	_ = sha256.Sum256
	return t.bits`,
		pkg: "./e2e/attacks", test: "TestAttack08_GuessedToken", tags: "attacks", slow: true,
	},
	{
		name: "attack-08b", breaks: "attack 08b is refused: guessable",
		file: "broker/token/token.go",
		old:  `	if _, err := io.ReadFull(random, t.bits[:]); err != nil {`,
		new:  `	if _, err := io.ReadFull(random, t.bits[:2]); err != nil {`,
		pkg:  "./e2e/attacks", test: "TestAttack08_GuessedToken", tags: "attacks", slow: true,
	},
}
