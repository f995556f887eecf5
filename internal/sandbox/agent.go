package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The scripted agent stands in for a coding agent's host: it runs inside a
// session and starts what it is told to, above all the gate with a payload.
// Orders and answers are lines of JSON.

// Order is one program to run below the agent.
type Order struct {
	Argv  []string `json:"argv"`
	Stdin []byte   `json:"stdin"`
}

// Answer is what the program did.
type Answer struct {
	Out  []byte `json:"out"`
	Err  []byte `json:"err"`
	Exit int    `json:"exit"`
}

// maxLine bounds one order or answer: a payload at its cap, in base64.
const maxLine = 32 << 20

// Serve is the agent's main: it carries out orders until their end, each in a
// goroutine of its own when parallel, and answers in their order.
func Serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var orders []Order
		if err := json.Unmarshal(lines.Bytes(), &orders); err != nil {
			return fmt.Errorf("reading an order: %w", err)
		}
		if err := json.MarshalWrite(out, runAll(orders)); err != nil {
			return err
		}
		if _, err := out.Write([]byte{'\n'}); err != nil {
			return err
		}
	}
	return lines.Err()
}

// runAll runs all orders of a line at once.
func runAll(orders []Order) []Answer {
	answers := make([]Answer, len(orders))
	done := make(chan int)
	for i, o := range orders {
		go func() {
			answers[i] = run(o)
			done <- i
		}()
	}
	for range orders {
		<-done
	}
	return answers
}

func run(o Order) Answer {
	cmd := exec.Command(o.Argv[0], o.Argv[1:]...) // #nosec G204 -- running what it is told is what an agent does
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(o.Stdin), &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && cmd.ProcessState == nil {
		return Answer{Err: []byte(err.Error()), Exit: -1}
	}
	return Answer{Out: stdout.Bytes(), Err: stderr.Bytes(), Exit: cmd.ProcessState.ExitCode()}
}

// Agent is the other end of a scripted agent that runs in a session.
type Agent struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
	gate    []string
	calls   int
	Session string
}

// Do has the agent carry out orders at once, and returns their answers.
func (a *Agent) Do(ctx context.Context, orders ...Order) ([]Answer, error) {
	line, err := json.Marshal(orders)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = a.cmd.Process.Kill() })
	defer stop()
	if _, err := a.in.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("ordering the agent: %w", err)
	}
	if !a.answers.Scan() {
		return nil, fmt.Errorf("the agent ended before it answered: %w", errors.Join(a.answers.Err(), ctx.Err()))
	}
	var answers []Answer
	if err := json.Unmarshal(a.answers.Bytes(), &answers); err != nil || len(answers) != len(orders) {
		return nil, fmt.Errorf("the agent answered %.200q: %w", a.answers.Text(), err)
	}
	return answers, nil
}

// Gate is the order to run the gate with a payload.
func (a *Agent) Gate(role string, payload []byte) Order {
	return Order{Argv: append(append([]string{}, a.gate...), "--role", role), Stdin: payload}
}

// Call makes one tool call: the agent asks the gate, as a host would.
func (a *Agent) Call(ctx context.Context, tool, input string) (Answer, error) {
	a.calls++
	payload, err := Payload(tool, input, a.calls)
	if err != nil {
		return Answer{}, err
	}
	answers, err := a.Do(ctx, a.Gate("decide", payload))
	if err != nil {
		return Answer{}, err
	}
	return answers[0], nil
}

// Payload is what Claude sends to a PreToolUse hook.
func Payload(tool, input string, n int) ([]byte, error) {
	return json.Marshal(map[string]any{
		"hook_event_name": "PreToolUse", "session_id": "scripted-conversation", "cwd": "/", "permission_mode": "bypassPermissions",
		"transcript_path": "/dev/null", "tool_name": tool, "tool_input": jsontext.Value(input), "tool_use_id": "toolu_" + strconv.Itoa(n),
	})
}

// Read takes a gate's answer as Claude would: verdict, and the reason or what
// the model is told. Anything that isn't clear is a denial.
func (a Answer) Read() (verdict, detail string) {
	var out struct {
		Hook struct {
			Decision string `json:"permissionDecision"`
			Reason   string `json:"permissionDecisionReason"`
			Context  string `json:"additionalContext"`
		} `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal(a.Out, &out); err != nil {
		return "deny", "the gate's output is no JSON object: " + strings.TrimSpace(string(a.Err))
	}
	switch {
	case a.Exit == 2 || out.Hook.Decision == "deny":
		return "deny", out.Hook.Reason
	case a.Exit == 0 && out.Hook.Decision == "ask":
		return "ask", out.Hook.Reason
	case a.Exit == 0 && out.Hook.Decision == "":
		return "pass", out.Hook.Context
	}
	return "deny", fmt.Sprintf("exit %d with %q", a.Exit, a.Out)
}

// Code is the code that a reason bears.
func Code(reason string) string {
	rest, ok := strings.CutPrefix(reason, "guard: ")
	if !ok {
		return ""
	}
	code, _, _ := strings.Cut(rest, ":")
	return code
}
