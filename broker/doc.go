// Package broker is the daemon that owns every lease. It listens on two
// sockets: broker.sock takes launchers and gates, operator.sock takes the
// people who approve and revoke. The two share no slots and no goroutines, so
// that no flood of calls delays a revocation.
//
// What lowers authority happens in memory, at once, and is written down
// afterwards. What raises it is on disk first: the token's consumption, then
// the audit record, then the lease. After a start nobody has authority.
//
// Where to look:
//
//	daemon.go      the program: surroundings, signals
//	broker.go      start and run
//	listen.go      its sockets, own or a service manager's; ready when all works
//	stop.go        the end, within five seconds
//	load.go        guard.toml and what is built by it
//	settings.go    the settings in force, of one reading of guard.toml
//	reload.go      others in their place
//	state.go       store and audit at the start, and what is amiss with them
//	calm.go        a log that a flood can't fill
//	door.go        who connects, looked at before a byte is read
//	pool.go        shares of sessions and users in what is bounded
//	owners.go      whose a uid is, and who had a session in this boot
//	silent.go      places that are lost to newcomers by who says nothing
//	knock.go       is there time to hear the hosts?
//	serve.go       requests and replies of broker.sock
//	admit.go       a hook's question, read in full and within bounds
//	receive.go     the bytes of a request, within a share of the memory
//	event.go       one hook event from payload to answer
//	decide.go      the decision table, row by row
//	policies.go    policies, which can only deny: hooks first, then the server
//	hooks.go       policy hooks, run by the gate's process
//	hooks_verbs.go what operators do with them
//	policy_server.go  what the policy server says of calls, prompts and results
//	protect.go     the rows of a call that changes machines
//	explain.go     the same table for a call that nobody made
//	explain_policies.go  which policies such a call would meet
//	classify.go    verdicts and reasons that several rows share
//	own.go         is the event the host's own?
//	observe.go     what tells of lost context
//	deaf.go        hosts that can't start hooks any more
//	alarm.go       what ran, held against what was answered
//	register.go    launchers
//	proof.go       proofs that a client asks its gate
//	recover.go     the session's own recovery tool
//	operator.go    orders of operator.sock, and their answers
//	roles.go       who may give them
//	passphrase.go  what an operator has to know to raise authority, if set
//	grant.go       the orders that raise authority, and revoke
//	inspect.go     a checkpoint by hand, and what the ZVM says
//	leases.go      the only writer of leases
//	kill.go        the end of what a session left running
//	fence.go       a cgroup for each session
//	records.go     what goes into the audit
//	status.go      what guard status shows
//	journal.go     the same as lines of the journal
//	keep.go        anchors' pidfds that the service manager keeps over a restart
//	watch.go       ended anchors, ended leases, sessions after a restart
//	ended.go       sessions that are over, for a launch that resumes one
//	limits.go      bounds of the whole broker
//	lock.go        one broker for each run directory
package broker
