// Package zvmsim is a simulator of a Zerto Virtual Manager (ZVM), faithful
// enough to develop and to measure a client against it.
//
// Start serves the token endpoint and the REST API of a Linux appliance on one
// HTTPS port with a self-signed certificate. An Estate says which sites, VPGs
// and machines exist. Each VPG has a background clock that makes an automatic
// checkpoint every five seconds and lets old ones age out; a POST starts a task
// that ends some seconds later, and the tag shows in the list about then,
// sometimes after the task has ended and sometimes before.
//
// Nothing of that runs on timers. The state at an instant is worked out from
// the clock when a request asks for it, so a test with a fake clock moves the
// whole ZVM by moving the clock, and no goroutine is left behind. Only the
// delays of answers are slept for real.
//
// What a request sees is the state at its arrival; its delay comes afterwards.
// So an own delay can be subtracted from a client's time without flattering it.
//
// Behaviour can be changed before the start (Options.Behaviour, ParseFlags) and
// while it runs (Set and its neighbours, or HTTP below /_sim/). It has four parts:
// Latency per operation, Settings of the server, Faults of a VPG, and Answers
// that are given to chosen requests in place of the real ones. Every request
// is recorded, without headers' values and without form bodies, so that no
// secret is kept. docs/simulator.md is the manual for people.
//
// The admin endpoint asks for no token: whoever reaches the port commands the
// simulator. It simulates; it must never listen where that matters.
//
// Left out: XML, and all that has nothing to do with checkpoints.
package zvmsim
