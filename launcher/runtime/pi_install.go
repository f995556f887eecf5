package runtime

import (
	_ "embed" // for the extension
	"fmt"
	"strings"

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
	Install
	Extensions []string // the operator's, loaded before guard's
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
	text, err := json.Marshal(map[string]any{
		"gate": in.Gate, "args": in.gateArgs("pi"), "deadline": in.seconds(), "guard": in.Guard,
		"server": strings.TrimPrefix(in.Server, "guard-"), "env": in.serverEnv(), "results": in.Judged,
	}, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("describing the gate to Pi: %w", err)
	}
	return "GUARD_PI=" + string(text), nil
}
