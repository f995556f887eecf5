//go:build hosts

package hosts

import (
	"testing"

	"leaseguard.internal/internal/fakemodel"
	host "leaseguard.internal/launcher/runtime"
)

// clientKind is what a test that more than one client has to pass needs of each.
type clientKind struct {
	as        func(*guarded) *guarded           // makes a world one of its
	steps     func(*guarded, ...fakemodel.Step) // starts its model
	launch    func(*guarded, ...string) outcome
	came      func(*guarded, []act)
	tool, key string // that runs a command, and its argument
}

var clients = map[string]clientKind{
	"claude": {func(g *guarded) *guarded { return g }, (*guarded).steps, (*guarded).launch, (*guarded).came, "Bash", "command"},
	"codex": {(*guarded).ofCodex, func(g *guarded, steps ...fakemodel.Step) { g.codexSteps("", steps...) }, (*guarded).launchCodex,
		(*guarded).codexCame, "exec_command", "cmd"},
	"pi": {(*guarded).ofPi, (*guarded).piSteps, (*guarded).launchPi, (*guarded).came, "bash", "command"},
}

// world makes a guarded world of the client's.
func (c clientKind) world(t *testing.T, config string) *guarded {
	t.Helper()
	return c.as(newGuarded(t, config))
}

// runs is a step in which the model runs a command.
func (c clientKind) runs(g *guarded, command string) fakemodel.Step {
	return fakemodel.Use(c.tool, input(g.t, c.key, command))
}

// versions are those of the clients that run here.
var versions = map[string]string{"claude": host.Tested, "claudex": host.Tested, "codex": host.CodexTested, "pi": host.PiTested}
