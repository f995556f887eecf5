// Package checkpoint confirms that every machine a call changes can be rewound:
// it has the ZVM insert a tagged checkpoint into each VPG that protects the
// machine, and believes in it only when the tag is read back.
//
// Promise. Ensure returns without error only when each VPG that counts has shown
// a checkpoint with exactly our tag, at a ZVM time not before the call's own
// request; or, where the operator allows reuse, when a checkpoint that was
// confirmed for the same session is still listed and no event has lowered the
// session's lease since.
//
// Order. All machines are looked up first, then all VPGs are inspected: the
// platform that protects them (changes at an AWS or Azure site can't be tagged),
// their status and sub-status. Nothing is inserted while any of that refuses.
//
// Inserts. A call makes at most one insert per VPG, and a VPG has one in flight
// (insert.go). Calls that come meanwhile share the next one. It is closed to
// them before the ZVM's time is asked for, so nobody is handed a checkpoint that
// is older than his request. An insert that nobody waits for any more isn't
// sent; one that was sent is watched to its end even so, since it is in flight.
//
// Watching (confirm.go). The list of checkpoints is read every 100 ms for 5 s,
// then every 500 ms, and a slow answer doesn't delay the next question. The
// task only tells of failure early: accepted isn't done, and done isn't visible.
// An insert whose outcome is unknown is looked for by its tag and never
// repeated.
//
// A crash or restart forgets everything here. That loses nothing: the call it
// was for is denied by its gate, a tag that appears later does no harm, and the
// next call takes a checkpoint of its own.
//
// What it doesn't do: it can't say that the checkpoint will still be there later
// (a VPG that is synchronised anew loses all of them), nor that several VPGs are
// consistent with each other.
package checkpoint
