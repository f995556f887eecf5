// Package store keeps what must outlive the broker: hashes of tokens and
// whether they were used, sessions and their projects, which policy hooks are
// trusted, the head of the audit and the hash of the operators' passphrase. It is
// a bbolt file of mode 0600 that one broker at a time holds locked.
//
// Promises:
//
//   - A token is consumed at most once, across crashes: the look and the mark
//     are one transaction, and ConsumeToken returns when that is on disk.
//   - A failed attempt burns the token.
//   - Trust is given only by who has seen every revocation of trust so far: the
//     look and the mark are one transaction, so no revocation is ever lost.
//   - After any failed commit the store is failed for good, since the kernel
//     may have thrown the data away: every write returns that error until the
//     broker is restarted into "no authority".
//   - Damage becomes an error that names the file and the remedy, never a
//     panic, and an unreadable entry is never read as an absent one.
//   - OpenOrSetAside renames a damaged file and begins a new one; it deletes and
//     overwrites nothing.
//
// What it does not do: guard against somebody with the broker's uid, who can
// write the file.
//
// Writes of several callers share one commit (two syncs): one goroutine drains
// a channel. bbolt's own Batch may run a function twice and waits 10 ms.
//
// Fail points: store/before-begin, store/before-commit, store/after-commit,
// store/before-reply, store/before-aside, store/after-aside.
package store
