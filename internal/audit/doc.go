// Package audit writes and checks leaseguard's record of every verdict and
// lease event.
//
// A record is one line of JSON. It names the SHA-256 of the line before it
// (64 zeros in the very first), so that nobody can edit, remove or move a line
// without breaking the chain after it. Lines live in segments
// audit-<first sequence number>.jsonl, whose names sort by time. The newest
// record's number and hash, the head, is kept elsewhere (guard.db), which also
// finds a cut at the end.
//
// Promises:
//
//   - When Append returns without an error, the record is on disk.
//   - Log never waits for the disk; its record is on disk within 100 ms, or is
//     counted as dropped and the number recorded.
//   - After a failed write or sync the writer is failed for good, since the
//     kernel may have thrown the data away: every Append returns that error, so
//     nothing that grants authority goes through any more. Log goes on counting.
//   - Peer-controlled text is cut to a bound, made valid UTF-8 and escaped, so
//     one record is always one line and no terminal acts on it.
//
// What it does not do: it can't show an edit by someone who can also write the
// store, nor a cut of records younger than the last stored head.
//
// Fail points: audit/before-write, audit/before-sync, audit/after-sync,
// audit/before-rotate, audit/after-rotate, audit/before-prune,
// audit/before-head.
package audit
