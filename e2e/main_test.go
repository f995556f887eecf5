// Package e2e runs the built programs against each other: a real broker, the
// real gate started by a scripted agent inside a launched session, and the
// simulated ZVM behind real TLS. Nothing in here reaches into the product.
package e2e

import (
	"fmt"
	"os"
	"testing"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/sandbox"
	"leaseguard.internal/internal/sandbox/sandboxtest"
	"leaseguard.internal/internal/wire"
	"leaseguard.internal/internal/zvmsim"
)

// roleVar makes this test binary play a part inside a session.
const roleVar = "E2E_ROLE"

var programs client.Programs

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == noEtcHook {
		os.Exit(noEtc(os.Stdin, os.Stderr))
	}
	if role := os.Getenv(roleVar); role != "" {
		if err := play(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(sandboxtest.Main(m, sandboxtest.Failpoints, func(p client.Programs) { programs = p }))
}

// play is the part of a process that is started by a test.
func play(role string) error {
	switch role {
	case "agent":
		return sandbox.Serve(os.Stdin, os.Stdout)
	case "registrar":
		return registrar()
	}
	return fmt.Errorf("no part %q", role)
}

// base is a configuration that lets root and ordinary users run the tests.
const base = `[identity]
allow_root_sessions = true

`

// catalogText lists the tools that the tests call.
const catalogText = `
[[tool]]
match = "mcp__vsphere__power_off_vm"
class = "mutating"
vm_arg = "vm_name"

[[tool]]
match = "mcp__vsphere__list_*"
class = "read_only"
`

// world is a sandbox with simulator, broker and one session.
type world struct {
	*sandboxtest.World
	agent *sandbox.Agent
}

// setting is what a test changes of the usual world.
type setting struct {
	checkpoint string // keys of [checkpoint]; default self = "app-01"
	extra      string // further configuration
	noZVM      bool
	sim        zvmsim.Options
	brokerEnv  []string
}

func start(t *testing.T, set setting) *world {
	t.Helper()
	w := prepare(t, set)
	w.Must(w.StartBroker(w.Ctx(), set.brokerEnv...))
	w.agent = w.launch()
	return w
}

// prepare makes the world up to its configuration.
func prepare(t *testing.T, set setting) *world {
	t.Helper()
	w := &world{World: sandboxtest.New(t, programs, append(os.Environ(), roleVar+"=agent"))}
	text := base
	if set.checkpoint == "" {
		set.checkpoint = `self = "app-01"`
	}
	text += "[checkpoint]\n" + set.checkpoint + "\n" + catalogText + set.extra + "\n"
	if !set.noZVM {
		if set.sim.Behaviour == nil {
			fast, err := zvmsim.Preset("fast")
			w.Must(err)
			set.sim.Behaviour = &fast
		}
		w.Must(w.StartSimulator(set.sim))
		zvm, err := w.ZVM()
		w.Must(err)
		text += zvm
	}
	w.Must(w.Configure(text))
	return w
}

func (w *world) launch(flags ...string) *sandbox.Agent {
	w.T.Helper()
	a, err := w.Launch(w.Ctx(), flags, os.Args[0])
	w.Must(err)
	return a
}

// operate asks the broker as guard does, but never starts one: what a test has
// killed stays dead.
func (w *world) operate(verb wire.Verb, token string) (wire.Result, error) {
	w.T.Helper()
	docs, body, err := client.ReadDocuments(w.Dir, []string{"AGENTS.md"})
	w.Must(err)
	return client.Dial(w.Paths).Do(w.Ctx(), wire.Control{Verb: verb, Session: w.agent.Session, Token: token, Documents: docs}, body)
}

// approve verifies the session, after one event that lets the broker see its
// gate.
func (w *world) approve() {
	w.T.Helper()
	w.expect(w.call("Read", `{"file_path":"/etc/hostname"}`), "pass", "")
	w.Run("approve", w.agent.Session)
}

// call makes one tool call through the gate.
func (w *world) call(tool, input string) sandbox.Answer {
	w.T.Helper()
	a, err := w.agent.Call(w.Ctx(), tool, input)
	w.Must(err)
	return a
}

// raw sends a payload of any form to the gate.
func (w *world) raw(role, payload string) sandbox.Answer {
	w.T.Helper()
	answers, err := w.agent.Do(w.Ctx(), w.agent.Gate(role, []byte(payload)))
	w.Must(err)
	return answers[0]
}

// expect holds an answer to its verdict and code; a pass has no reason, so its
// code is read from the record.
func (w *world) expect(a sandbox.Answer, verdict, code string) string {
	w.T.Helper()
	got, detail := a.Read()
	if got != verdict || code != "" && verdict != "pass" && sandbox.Code(detail) != code {
		w.T.Fatalf("got %s %q (exit %d, stderr %q), want %s %s", got, detail, a.Exit, a.Err, verdict, code)
	}
	if verdict == "deny" {
		w.expectShape(a, detail)
	}
	return detail
}

// expectShape holds a denial to the pair that blocks on every host: one JSON
// object on stdout, the same reason on stderr, exit 2.
func (w *world) expectShape(a sandbox.Answer, reason string) {
	w.T.Helper()
	if a.Exit != 2 || string(a.Err) != reason+"\n" || len(reason) > 1000 || reason == "" {
		w.T.Fatalf("exit %d, stderr %q, reason %q: want exit 2 and the same reason twice, at most 1,000 bytes", a.Exit, a.Err, reason)
	}
}
