// Guard is the command line of leaseguard. See package cli.
package main

import (
	"os"
	"slices"

	"leaseguard.internal/cmd/guard/cli"
)

func main() {
	if slices.Equal(os.Args[1:], []string{"hooks", "run"}) { // a gate has become this, and a tool call waits
		os.Exit(cli.RunHooks())
	}
	c := cli.Command{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ()}
	os.Exit(c.Main(os.Args[1:]))
}
