package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/wire"
)

// registrar registers itself as an anchor and asks the gate before it execs
// anything: what a launcher is while it proves its gate. It prints the gate's
// answer.
func registrar() error {
	p, err := paths.Resolve(os.Getenv, uint32(os.Getuid()))
	if err != nil {
		return err
	}
	_, conn, err := client.Register(context.Background(), p, wire.Register{Runtime: "exec", Dir: "/", Command: "registrar"})
	if err != nil {
		return err
	}
	defer conn.Close()
	cmd := exec.Command(os.Getenv("E2E_GATE"), "claude", "--socket", p.BrokerSocket, "--broker-uid", strconv.Itoa(os.Getuid()), "--role", "decide")
	cmd.Stdin = os.Stdin
	out, _ := cmd.Output()
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"out": out, "exit": cmd.ProcessState.ExitCode()})
}
