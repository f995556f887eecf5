// Guard-gate is the hook executable that an agent's host runs before each tool
// call: it asks guard-broker and writes what comes back. See package gate.
package main

import "leaseguard.internal/gate"

func main() { gate.Main() }
