package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/sandbox"
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
	_, conn, err := client.Register(context.Background(), p, wire.Register{Runtime: "exec", Dir: "/", Command: "registrar", Hooks: wire.ProjectHooks{State: wire.ProjectAbsent}}, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	cmd := exec.Command(os.Getenv("E2E_GATE"), "claude", "--socket", p.BrokerSocket, "--broker-uid", strconv.Itoa(os.Getuid()), "--role", "decide")
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, &out, &errs
	_ = cmd.Run() // the answer says it all
	return json.NewEncoder(os.Stdout).Encode(sandbox.Answer{Out: out.Bytes(), Err: errs.Bytes(), Exit: cmd.ProcessState.ExitCode()})
}
