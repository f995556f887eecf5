// Command guard-broker is the daemon that owns leaseguard's leases.
package main

import (
	"os"

	"leaseguard.internal/broker"
)

func main() { os.Exit(broker.Main(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }
