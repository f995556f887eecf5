// Package zerto speaks the part of the ZVM REST API that a tagged checkpoint
// needs, and nothing else of it.
//
// What it may ask is the fixed list of routes in route.go: it posts to the token
// endpoint and to a VPG's checkpoints, everything else is a GET. An identifier
// that could leave its place in a path is refused before it is sent. So the
// account's wider rights (whoever may tag may also delete a VPG) can't be
// reached through this client.
//
// TLS is verified by a CA file, by a pin of the server's public key, or by both.
// There is no insecure switch, and neither proxies nor system roots come from
// the environment. Redirects aren't followed.
//
// An answer is bounded before it is read, and is exactly one JSON value in valid
// UTF-8 without duplicate keys. Each field is read under its two documented
// spellings (vmName, VmName); both at once, or a third one that differs only in
// case, is a refusal. Unknown keys are ignored: every release of the ZVM brings
// new ones.
//
// A GET that looks something up is repeated after overload or a broken
// connection. An insert is never repeated, unless the ZVM refused its token and
// so can't have executed it: every POST that is executed makes a checkpoint.
// When it isn't known whether one was, the error says so (Error.Unknown), and
// the caller looks for its tag.
//
// Identifiers, names and messages come from the ZVM and from the machines'
// owners. Error quotes what it prints; callers that print other fields do too.
package zerto
