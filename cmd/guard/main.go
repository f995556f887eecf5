// Guard is the command line of leaseguard. See package cli.
package main

import (
	"os"

	"leaseguard.internal/cmd/guard/cli"
)

func main() {
	c := cli.Command{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ()}
	os.Exit(c.Main(os.Args[1:]))
}
