package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/audit"
	"leaseguard.internal/internal/wire"
	"leaseguard.internal/internal/zvmsim"
)

// scene is one step of the story with the outcome that it must have.
type scene struct {
	name    string
	text    string
	play    func(context.Context, *world, *Step) error
	verdict string
	code    string
	within  time.Duration
}

var story = []scene{
	{name: "simulator", text: "A simulated ZVM starts on loopback.", play: startSimulator},
	{name: "broker", text: "guard-broker starts. Nobody has authority.", play: startBroker},
	{name: "launch", text: "guard launch exec starts a scripted agent as a session.", play: launch},
	{name: "read", text: "The agent reads a file.", play: tool("Read", `{"file_path":"/etc/hostname"}`), verdict: "pass", code: "read_class"},
	{name: "write denied", text: "The agent writes a file, before anybody verified it.", play: tool("Write", write), verdict: "deny", code: "lease_unverified"},
	{name: "approve", text: "The operator approves the session.", play: approve},
	{name: "write checkpointed", text: "The agent writes again: first a checkpoint of this host, then the pass.", play: tool("Write", write), verdict: "pass", code: "checkpoint_confirmed"},
	{name: "aws refused", text: "It powers off a VM that AWS protects, where no tag ever arrives.", play: tool(powerOff, `{"vm_name":"win-aws-01"}`), verdict: "deny", code: "checkpoint_unsupported", within: time.Second},
	{name: "unknown vm asks", text: "It powers off a VM that Zerto doesn't know.", play: tool(powerOff, `{"vm_name":"ghost-01"}`), verdict: "ask", code: "vm_unknown"},
	{name: "revoke", text: "The operator revokes the lease.", play: revoke},
	{name: "write denied again", text: "The agent writes once more.", play: tool("Write", write), verdict: "deny", code: "lease_revoked"},
	{name: "audit", text: "The audit is checked from its first record to its head.", play: verifyAudit},
}

const (
	powerOff = "mcp__vsphere__power_off_vm"
	write    = `{"file_path":"/srv/app/config.yaml","content":"replicas: 3\n"}`
)

func startSimulator(_ context.Context, w *world, s *Step) error {
	if err := w.box.StartSimulator(zvmsim.Options{}); err != nil {
		return err
	}
	s.Detail = "app-01 and db-01 on vCenter, win-aws-01 on AWS, az-01 on Azure, and more"
	return nil
}

const configText = `# written by guard demo
[identity]
allow_root_sessions = true # so that the demo runs for root too

[checkpoint]
self = "app-01"

[[tool]]
match = "` + powerOff + `"
class = "mutating"
vm_arg = "vm_name"

`

func startBroker(ctx context.Context, w *world, s *Step) error {
	zvm, err := w.box.ZVM()
	if err != nil {
		return err
	}
	if err := w.box.Configure(configText + zvm); err != nil {
		return err
	}
	if err := w.box.StartBroker(ctx); err != nil {
		return err
	}
	s.Detail = "this host is app-01 (checkpoint.self)"
	return nil
}

func launch(ctx context.Context, w *world, s *Step) (err error) {
	w.agent, err = w.box.Launch(ctx, nil, w.box.Programs.Guard, "demo", "agent")
	if err != nil {
		return err
	}
	s.Detail = "session " + w.agent.Session
	return nil
}

// tool makes a scene of one tool call through the real gate.
func tool(name, input string) func(context.Context, *world, *Step) error {
	return func(ctx context.Context, w *world, s *Step) error {
		s.Tool = &name
		a, err := w.agent.Call(ctx, name, input)
		if err != nil {
			return err
		}
		verdict, detail := a.Read()
		s.Verdict, s.Detail = &verdict, detail
		code, err := w.recordedCode(ctx)
		s.Code = &code
		return err
	}
}

func approve(ctx context.Context, w *world, s *Step) error {
	out, err := w.box.Guard(ctx, "approve", w.agent.Session, "--json")
	if err != nil {
		return err
	}
	var grant wire.Grant
	if err := json.Unmarshal(out, &grant); err != nil || grant.State != "VERIFIED" {
		return fmt.Errorf("guard approve answered %q", out)
	}
	s.Detail = fmt.Sprintf("%s for %d s", grant.State, grant.ExpiresInS)
	return nil
}

func revoke(ctx context.Context, w *world, s *Step) error {
	_, err := w.box.Guard(ctx, "revoke", w.agent.Session, "--reason", "demo")
	s.Detail = "UNVERIFIED at once; nothing had to be written first"
	return err
}

func verifyAudit(ctx context.Context, w *world, s *Step) error {
	out, err := w.box.Guard(ctx, "audit", "verify")
	if err != nil {
		return err
	}
	s.Detail = strings.TrimSpace(strings.Split(string(out), "\n")[0])
	return nil
}

// recordedCode is the code of the newest call's record. What grants nothing is
// recorded within 100 ms, so it may take a moment.
func (w *world) recordedCode(ctx context.Context) (code string, err error) {
	err = w.box.Wait(ctx, func() bool {
		n := 0
		err := audit.Read(w.box.Paths.AuditDir, func(r audit.Record, _ []byte) error {
			if r.Event == audit.EventVerdict {
				n, code = n+1, r.Code
			}
			return nil
		})
		return err == nil && n == w.agent.Calls()
	})
	return code, err
}
