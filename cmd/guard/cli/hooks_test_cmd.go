package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"leaseguard.internal/internal/hookfile"
	"leaseguard.internal/internal/hookrun"
	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// tried is what became of a policy hook that was tried.
type tried struct {
	ID      string          `json:"id"`
	Tool    string          `json:"tool"`
	Matches bool            `json:"matches"`
	Trusted bool            `json:"trusted"` // as it is now
	Result  wire.HookResult `json:"result"`
	Verdict string          `json:"verdict"` // what a call would meet: pass or deny
	Code    string          `json:"code"`
	Why     string          `json:"why"`
}

func (c Command) hooksTest() *cobra.Command {
	var input string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test ID | HASH",
		Short: "run a policy hook on a made-up call, and say what would become of it",
		Long: `Test runs one policy hook as you, whether it is trusted or not, in the way in which
a session's calls have it run: its environment, its directory, its time, what it may
write. It tells what the hook did and what the call would meet.

FILE is a payload as a host sends it, of which tool_name and tool_input count, and
the fields that a hook reads if they are there. Without it the call is a Bash that
echoes something.`,
		Example: `  guard hooks test no-push
  echo '{"tool_name":"Bash","tool_input":{"command":"git push"}}' | guard hooks test no-push --input -`,
		Args: oneHook,
		RunE: run(func(cmd *cobra.Command, args []string) error {
			in, payload, err := c.fixture(input)
			if err != nil {
				return err
			}
			h, err := c.lookAtHooks(cmd.Context())
			if err != nil {
				return err
			}
			d, err := h.resolveHook(args[0], func(wire.HookDefinition) bool { return true })
			if err != nil {
				return err
			}
			t, err := try(cmd.Context(), h, d, in, payload)
			if err != nil {
				return err
			}
			if asJSON {
				return c.printJSON(t)
			}
			c.printTried(t)
			return nil
		}),
	}
	cmd.Flags().StringVar(&input, "input", "", "the call, as a host's payload in `FILE`; - is stdin")
	addJSON(cmd, &asJSON)
	return cmd
}

// fixture reads the call that a hook is tried on.
func (c Command) fixture(path string) (in wire.HookInput, input []byte, err error) {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	in = wire.HookInput{Session: "test", Turn: "test", Run: "test", ToolUse: "test", Tool: "Bash", Cwd: dir, Mode: "default", Origin: "provider"}
	if path == "" {
		return in, []byte(`{"command":"echo guard hooks test"}`), nil
	}
	text, err := c.readUpTo("--input", path, wire.MaxContext)
	if err != nil {
		return in, nil, err
	}
	fields, err := strictjson.Fields(text, "tool_name", "tool_input")
	if err != nil {
		return in, nil, usagef("--input %s is no payload: %w", verdict.Object(path), err)
	}
	for key, to := range map[string]*string{
		"session_id": &in.Session, "turn_id": &in.Turn, "run_id": &in.Run, "tool_use_id": &in.ToolUse, "tool_name": &in.Tool,
		"cwd": &in.Cwd, "permission_mode": &in.Mode, "origin": &in.Origin,
	} {
		if raw, there := fields[key]; there {
			b, err := jsontext.AppendUnquote(nil, raw)
			if err != nil {
				return in, nil, usagef("%s of --input %s is no text", key, verdict.Object(path))
			}
			*to = string(b)
		}
	}
	if input = fields["tool_input"]; jsontext.Value(input).Kind() != '{' {
		return in, nil, usagef("tool_input of --input %s is missing or no object", verdict.Object(path))
	}
	wire.OneLine(input)
	return in, input, nil
}

// try runs the hook with the digests that its files have now: whether those are
// trusted is said, and keeps nobody from seeing what it does.
func try(ctx context.Context, h hookLook, d wire.HookDefinition, in wire.HookInput, input []byte) (tried, error) {
	files, err := hookrun.Digest(d.Command, d.Args)
	if err != nil {
		return tried{}, fmt.Errorf("trying %s: %w", verdict.Object(d.ID), err)
	}
	before, after := in.Around()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	hook := wire.Hook{ID: d.ID, Command: d.Command, Args: d.Args, TimeoutMS: d.TimeoutMS, Files: files}
	r, err := hookrun.Try(ctx, hook, h.Path, append(append(before, input...), after...))
	if err != nil {
		return tried{}, fmt.Errorf("trying %s: %w", verdict.Object(d.ID), err)
	}
	t := tried{
		ID: d.ID, Tool: in.Tool, Result: r, Verdict: verdict.Pass.String(),
		Matches: hookfile.Definition{Matcher: d.Matcher}.Match(in.Tool),
		Trusted: d.Trust != nil && wire.SameFiles(files, d.Trust.Files),
	}
	t.foresee(d, h.Untrusted)
	return t, nil
}

// foresee says what a call would meet.
func (t *tried) foresee(d wire.HookDefinition, untrusted string) {
	deny := func(code verdict.Code, why string) {
		t.Verdict, t.Code, t.Why = verdict.Deny.String(), string(code), why
	}
	switch {
	case !d.Enabled:
		t.Why = "the definition is disabled"
	case !t.Matches:
		t.Why = "its matcher doesn't fit the tool"
	case !t.Trusted && d.Trust != nil:
		deny(verdict.PolicyUnavailable, "what it runs has changed since it was trusted: guard hooks trust "+t.ID)
	case !t.Trusted && untrusted == "skip":
		t.Why = "it isn't trusted as it is now, so that it is skipped (hooks.untrusted)"
	case !t.Trusted:
		deny(verdict.PolicyUnavailable, "it isn't trusted as it is now, so that it doesn't run (hooks.untrusted): guard hooks trust "+t.ID)
	case t.Result.Status == wire.HookDenied:
		deny(verdict.PolicyDenied, t.Result.Reason)
	case t.Result.Status == wire.HookFailed && d.OnError == string(hookfile.Allow):
		t.Why = "it failed, which its definition allows: " + t.Result.Reason
	case t.Result.Status != wire.HookAllowed:
		deny(verdict.PolicyUnavailable, "it failed: "+t.Result.Reason)
	default:
		t.Why = "it has nothing against it; the other rows of the decision table go on"
	}
}

func (c Command) printTried(t tried) {
	r := t.Result
	did := string(r.Status) + ", status " + fmt.Sprint(r.Exit)
	if r.Signal != "" {
		did = string(r.Status) + ", ended by " + r.Signal
	} else if r.Exit < 0 {
		did = string(r.Status)
	}
	fmt.Fprintf(c.Stdout, "%s on %s: %s, after %v\n", verdict.Clean(t.ID), verdict.Object(t.Tool), did, (time.Duration(r.DurationUS) * time.Microsecond).Round(time.Millisecond))
	if r.Reason != "" {
		fmt.Fprintf(c.Stdout, "  reason   %s\n", verdict.Cut(verdict.Clean(r.Reason), verdict.MaxReason))
	}
	fmt.Fprintf(c.Stdout, "  a call   %s\n", strings.TrimSpace(c.paint(verdictColour(t.Verdict), t.Verdict)+"  "+t.Code))
	fmt.Fprintf(c.Stdout, "  since    %s\n", verdict.Cut(verdict.Clean(t.Why), verdict.MaxReason))
}
