package runtime

import (
	_ "embed" // for the extension
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// PiExtension is guard's extension for Pi. The launcher gives it to Pi in memory
// that nobody can write any more, so that it stands in no file that the agent
// could reach. Its text stands in two files, to be read one by one.
var PiExtension = []byte(piGuard + piRecover)

var (
	//go:embed pi/guard.js
	piGuard string
	//go:embed pi/recover.js
	piRecover string
)

// PiModel is an extension for the proof alone: it makes the scripted model one
// of Pi's own, whatever the user's configuration says of models. Where it is
// stands in GUARD_PROOF.
//
//go:embed pi/model.js
var PiModel []byte

// PiInstall is what a launch puts into Pi.
type PiInstall struct {
	Gate, Guard string // programs, by absolute path
	Socket      string // broker.sock
	BrokerUID   uint32
	Budget      time.Duration
	Server      string   // name of guard's MCP server; empty: there is none
	Env         []string // where that server finds the broker, name=value
	Extensions  []string // the operator's, loaded before guard's
	Results     bool     // the gate is told what tools gave: a policy server judges it
}

// Args are guard's own arguments for Pi: no extension but these, and nothing of
// the project's. The gate's comes last, so that it judges what the others have
// made of a call. Pi's parser takes a value only as an argument of its own.
func (in PiInstall) Args(guard string, before ...string) []string {
	args := []string{"--no-extensions", "--no-approve"}
	for _, path := range append(append(before, in.Extensions...), guard) {
		args = append(args, "-e", path)
	}
	return args
}

// ProofArgs make Pi ask its model once, with nobody there and nothing kept. What
// a project says to a model and what a user added to it has no part in that.
func (in PiInstall) ProofArgs(guard, model string) []string {
	return append(in.Args(guard, model), "--model", "guard-proof/proof", "--tools", "bash,write,edit", "--no-session",
		"--no-context-files", "--no-skills", "--no-prompt-templates", "--no-themes", "-p", "Call the tool that you are told to.")
}

// Variable tells the extension of the gate. It holds no secret.
func (in PiInstall) Variable() (string, error) {
	env := map[string]string{}
	for _, v := range in.Env {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	text, err := json.Marshal(map[string]any{
		"gate": in.Gate, "args": []string{"pi", "--socket", in.Socket, "--broker-uid", strconv.FormatUint(uint64(in.BrokerUID), 10)},
		"deadline": int64((in.Budget + time.Second - 1) / time.Second), "guard": in.Guard,
		"server": strings.TrimPrefix(in.Server, "guard-"), "env": env, "results": in.Results,
	}, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("describing the gate to Pi: %w", err)
	}
	return "GUARD_PI=" + string(text), nil
}
