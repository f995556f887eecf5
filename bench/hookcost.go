package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/hookrun"
	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/wire"
)

// hooks measures a trivial policy hook in two languages. Of the shell's, whose start
// takes less than that of what runs hooks, nothing is held; a machine without
// Python has nothing to hold either.
func (h *harness) hooks(rounds int, stdout io.Writer) (python float64, err error) {
	shell, err := h.hookCost(stdout, rounds, "sh", "/bin/sh", "trivial.sh")
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(stdout, "a trivial policy hook in sh costs a call %.2f starts of it\n", shell)
	if _, err := exec.LookPath("python3"); err != nil {
		fmt.Fprintln(stdout, "no python3 on this machine")
		return 0, nil //nolint:nilerr // nothing is held of it
	}
	interpreter, err := ask("python3", "-c", "import sys; print(sys.executable)")
	if err != nil {
		return 0, fmt.Errorf("finding python3's own program: %w", err)
	}
	return h.hookCost(stdout, rounds, "python3", interpreter, "trivial.py")
}

// hookCost measures what one trivial policy hook adds to a call, in times of what
// it takes to start that hook alone: hashing it, the program that runs it, and two
// more exchanges with the broker. script is run by interpreter.
func (h *harness) hookCost(stdout io.Writer, rounds int, name, interpreter, script string) (float64, error) {
	script, err := filepath.Abs(filepath.Join("bench", "hooks", script))
	if err != nil {
		return 0, err
	}
	hook := wire.Hook{ID: "trivial", Command: interpreter, Args: []string{script}, TimeoutMS: 30_000}
	if hook.Files, err = hookrun.Digest(hook.Command, hook.Args); err != nil {
		return 0, fmt.Errorf("hashing the trivial hook: %w", err)
	}
	far, err := hooksFarEnd(filepath.Join(h.dir, name+".sock"), hook)
	if err != nil {
		return 0, err
	}
	defer func() { _ = far.Close() }()
	with := h.gate()
	with[3] = far.Addr().String()
	alone, err := h.compare(rounds, h.gate(), with)
	if err != nil {
		return 0, fmt.Errorf("running a call with a hook in %s: %w", name, err)
	}
	spawn, err := h.compare(rounds, []string{interpreter, script}, with)
	if err != nil {
		return 0, fmt.Errorf("running a call with a hook in %s: %w", name, err)
	}
	spawn.first.row(stdout, "trivial "+name+" hook alone")
	spawn.second.row(stdout, "call with it")
	return spawn.ratio - alone.first.median/spawn.first.median, nil
}

// hooksFarEnd is a broker that has every call judged by one hook.
func hooksFarEnd(socket string, hook wire.Hook) (net.Listener, error) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listening for calls with a hook: %w", err)
	}
	job, err := json.Marshal(wire.HookJob{Hooks: []wire.Hook{hook}, Path: "/usr/bin:/bin", TotalMS: 60_000, AnswerMS: 60_000})
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if err := serveHook(conn, job); err != nil {
				fmt.Fprintln(os.Stderr, "bench:", err) // the gate denies, and the harness stops
			}
			_ = conn.Close()
		}
	}()
	return l, nil
}

func serveHook(conn net.Conn, job []byte) error {
	head, err := wire.ReadHeader(conn, wire.Limits{Body: wire.MaxPayload})
	if err != nil {
		return err
	}
	req, err := wire.ReadBody(conn, head)
	if err != nil {
		return err
	}
	if _, err := conn.Write(wire.HooksFrame()); err != nil {
		return err
	}
	if _, err := wire.ReadHooks(conn, wire.KindHooksReady); err != nil {
		return err
	}
	if err := wire.WriteHookJob(conn, job, req.Body); err != nil {
		return err
	}
	body, err := wire.ReadHooks(conn, wire.KindHookResults)
	if err != nil {
		return err
	}
	var r wire.HookResults
	if err := strictjson.Decode(body, &r); err != nil {
		return err
	}
	if len(r.Results) != 1 || r.Results[0].Status != wire.HookAllowed {
		return errors.New("the trivial hook did not allow: " + string(body))
	}
	_, err = conn.Write(wire.AppendReply(nil, wire.Reply{Kind: wire.KindAnswer, Out: []byte("{}")}))
	return err
}
