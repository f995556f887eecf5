package hookrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

const (
	connFD     = 3                // where the gate has put its connection
	jobTime    = 10 * time.Second // for the broker to say what is to be run
	jobTokens  = 1 << 20          // keys and values in a job
	maxWait    = 10 * time.Minute // for anything, whatever a job says
	concurrent = 8                // hooks of one call at once
	endTime    = 3 * time.Second  // for hooks that nobody waits for to end
)

// ErrAlone is returned by Main when no gate has started it.
var ErrAlone = errors.New("no connection of a gate is open as descriptor 3; guard-gate alone starts this command")

// Main is the program. It returns the status to exit with, which is 0 only if the
// broker has said so, and in every other case exitDeny.
func Main(stdout, stderr *os.File) (status int, err error) {
	conn, err := takeConn()
	if err != nil {
		return exitDeny, err
	}
	// A host that has closed our output must not end us by a signal: it would run
	// the tool.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	defer func() {
		if recover() != nil {
			status = deny(stdout, stderr, verdict.Internal, "running policy hooks", "guard hooks run panicked")
		}
	}()
	if err := settle(); err != nil {
		return deny(stdout, stderr, verdict.PolicyUnavailable, "preparing to run policy hooks", err.Error()), nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	answer, err := exchange(ctx, conn)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return deny(stdout, stderr, verdict.Deadline, "running policy hooks", "the broker's answer didn't come in time"), nil
	case err != nil:
		return deny(stdout, stderr, verdict.PolicyUnavailable, "running policy hooks", err.Error()), nil
	}
	return speak(stdout, stderr, answer), nil
}

// takeConn finds the gate's connection, and leaves no descriptor to the hooks.
func takeConn() (*net.UnixConn, error) {
	domain, err := unix.GetsockoptInt(connFD, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_UNIX {
		return nil, ErrAlone
	}
	if err := client.CloseOnExec(); err != nil {
		return nil, err
	}
	f := os.NewFile(connFD, "broker")
	defer func() { _ = f.Close() }()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("using the gate's connection: %w", err)
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, ErrAlone
	}
	return unixConn, nil
}

// settle makes this process what hooks are run by: nobody of its user may trace
// it, no timer of who started it ends it, and what loses its parent comes to it.
func settle() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("making the process undumpable: %w", err)
	}
	for _, which := range []unix.ItimerWhich{unix.ItimerReal, unix.ItimerVirtual, unix.ItimerProf} {
		if _, err := unix.Setitimer(which, unix.Itimerval{}); err != nil {
			return fmt.Errorf("disarming timers: %w", err)
		}
	}
	return Subreaper()
}

// Subreaper has all that loses its parent below this process become its child.
func Subreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming a subreaper: %w", err)
	}
	return nil
}

// exchange asks the broker what to run, runs it, and returns what the host is told.
func exchange(ctx context.Context, conn *net.UnixConn) (wire.Reply, error) {
	began := now()
	_ = conn.SetDeadline(clock.Deadline(jobTime))
	if _, err := conn.Write(wire.AppendRequest(nil, wire.Request{Kind: wire.KindHooksReady})); err != nil {
		return wire.Reply{}, fmt.Errorf("asking the broker what to run: %w", err)
	}
	text, line, err := wire.ReadHookJob(conn)
	if err != nil {
		return wire.Reply{}, fmt.Errorf("asking the broker what to run: %w", err)
	}
	job, err := parseJob(text)
	if err != nil {
		return wire.Reply{}, err
	}
	rest := max(bounded(job.AnswerMS)-now().Sub(began), 0)
	_ = conn.SetDeadline(clock.Deadline(rest))
	// An answer, or the end of the connection, can come at any moment; what still
	// runs then is ended.
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	answer := make(chan answered, 1)
	go func() {
		defer cancel()
		r, err := wire.ReadReply(conn, wire.MaxOutput)
		answer <- answered{r, err}
	}()
	ran := make(chan []wire.HookResult, 1)
	go func() { ran <- runAll(running, job, line) }()
	if err := sendResults(running, conn, ran); err != nil {
		return wire.Reply{}, err
	}
	select {
	case a := <-answer:
		return a.reply, a.err
	case <-ctx.Done():
		return wire.Reply{}, errors.New("a signal asked to end")
	}
}

// sendResults sends what became of the hooks. Once nobody waits for that any more,
// they have a while to be ended, and no longer: a host that loses patience with us
// runs the tool.
func sendResults(running context.Context, conn *net.UnixConn, ran <-chan []wire.HookResult) error {
	var results []wire.HookResult
	select {
	case results = <-ran:
	case <-running.Done():
		late, stop := context.WithTimeout(context.Background(), endTime)
		defer stop()
		select {
		case <-ran:
		case <-late.Done():
		}
		return nil
	}
	body, err := json.Marshal(wire.HookResults{Results: results})
	if err == nil && running.Err() == nil {
		// Its failure is the reader's too, which may have an answer all the same.
		_, _ = conn.Write(wire.AppendRequest(nil, wire.Request{Kind: wire.KindHookResults, Body: body}))
	}
	return err
}

type answered struct {
	reply wire.Reply
	err   error
}

// bounded takes a job's milliseconds.
func bounded(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), maxWait.Milliseconds())) * time.Millisecond
}

// parseJob reads a job strictly.
func parseJob(text []byte) (wire.HookJob, error) {
	var job wire.HookJob
	if err := strictjson.DecodeLong(text, &job, jobTokens); err != nil {
		return job, fmt.Errorf("reading what to run: %w", err)
	}
	if len(job.Hooks) == 0 || len(job.Hooks) > wire.MaxHooks {
		return job, fmt.Errorf("%d policy hooks are to be run, and there may be 1 to %d", len(job.Hooks), wire.MaxHooks)
	}
	for _, h := range job.Hooks {
		if h.TimeoutMS <= 0 || h.TimeoutMS > maxWait.Milliseconds() {
			return job, fmt.Errorf("hook %s has %d ms", verdict.Object(h.ID), h.TimeoutMS)
		}
	}
	return job, nil
}

// speak hands the broker's answer to the host, as the gate does: a refusal says
// why on both outputs, and a pass that wasn't taken whole is none.
func speak(stdout, stderr *os.File, r wire.Reply) int {
	refused := r.Exit == exitDeny && len(r.Out) > 0 && len(r.Err) > 0
	if r.Kind != wire.KindAnswer || r.Exit != 0 && !refused {
		return deny(stdout, stderr, verdict.BrokerUnavailable, "waiting for the broker's answer", "what came is none")
	}
	outErr := write(stdout, r.Out)
	_ = write(stderr, r.Err)
	var st unix.Stat_t // Go puts the null device in the place of a closed stdout
	null := unix.Fstat(int(stdout.Fd()), &st) == nil && st.Rdev == unix.Mkdev(1, 3)
	if r.Exit == 0 && (outErr != nil || len(r.Out) > 0 && null) {
		return deny(stdout, stderr, verdict.BrokerUnavailable, "writing out the broker's answer", "the host doesn't take it")
	}
	return int(r.Exit)
}

func write(to io.Writer, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := to.Write(b)
	return err
}

// deny is the denial that needs no broker.
func deny(stdout, stderr io.Writer, code verdict.Code, what, cause string) int {
	reason := verdict.Reason(code, what, "", cause, "guard status, then make the call again")
	quoted, err := json.Marshal(reason)
	if err != nil {
		quoted = []byte(`"guard: internal"`)
	}
	_, _ = io.WriteString(stdout, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":`+string(quoted)+`}}`)
	_, _ = io.WriteString(stderr, reason+"\n")
	return exitDeny
}
