// The runtime needn't read cgroup files at each start, nor start a goroutine
// that reads them again: a process of a millisecond with one goroutine has no
// use for the answer. It saves about 4 % of a call.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
//go:debug decoratemappings=0

// Guard-gate is the hook executable that an agent's host runs before each tool
// call: it asks guard-broker and writes what comes back. See package gate.
package main

import "leaseguard.internal/gate"

func main() { gate.Main() }
