// The runtime needn't start a goroutine, and with it a thread, that looks for
// changed CPU limits: a process of a millisecond doesn't live to see one. It
// saves about 3 % of a call.
//
//go:debug updatemaxprocs=0
//go:debug decoratemappings=0

// Guard-gate is the hook executable that an agent's host runs before each tool
// call: it asks guard-broker and writes what comes back. See package gate.
package main

import "leaseguard.internal/gate"

func main() { gate.Main() }
