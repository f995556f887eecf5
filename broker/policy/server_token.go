package policy

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/verdict"
)

// token is a bearer token, and the how manyth.
type token struct {
	value string
	turn  uint64
}

// tokens keeps the one in use. One lapse costs one new token, however many
// evaluations it strikes.
type tokens struct {
	mint  func(context.Context) (string, error) // nil: none is configured
	clock clock.Clock
	turn  chan token // of one place: who has it may mint

	failed   error // the last mint's
	failedAt clock.Instant
}

var errNoToken = errors.New("neither policy_server.token_file nor policy_server.token_command is set")

// newTokens reads a token's file at once, so that a wrong one is found by who
// wrote it; a command is run when it is needed.
func newTokens(cfg config.PolicyServer, uid uint32, clk clock.Clock) (*tokens, error) {
	t := &tokens{clock: clk, turn: make(chan token, 1)}
	first := token{}
	switch {
	case cfg.TokenFile != "":
		t.mint = func(context.Context) (string, error) { return cfg.Token(uid) }
		value, err := cfg.Token(uid)
		if err != nil {
			return nil, err
		}
		first = token{value, 1}
	case len(cfg.TokenCommand) > 0:
		t.mint = func(ctx context.Context) (string, error) { return runToken(ctx, cfg.TokenCommand, uid) }
	}
	t.turn <- first
	return t, nil
}

// get returns the token in use; the empty one when none is configured.
func (t *tokens) get(ctx context.Context) (token, error) {
	if t.mint == nil {
		return token{}, nil
	}
	return t.renew(ctx, token{})
}

// renew returns another token than one that was refused.
func (t *tokens) renew(ctx context.Context, refused token) (token, error) {
	if t.mint == nil {
		return token{}, errNoToken
	}
	asked := t.clock.Now()
	var held token
	select {
	case held = <-t.turn:
		defer func() { t.turn <- held }()
	case <-ctx.Done():
		return token{}, fmt.Errorf("waiting for another token: %w", ctx.Err())
	}
	if held.turn > refused.turn {
		return held, nil
	}
	if t.failed != nil && t.failedAt > asked { // while this one waited for its turn
		return token{}, t.failed
	}
	value, err := t.mint(ctx)
	if t.failed, t.failedAt = err, t.clock.Now(); err != nil {
		return token{}, err
	}
	held = token{value, held.turn + 1}
	return held, nil
}

// redact takes the token out of what a server says: it goes to the agent.
func (t token) redact(said string) string {
	const shortest = 6 // less would be found in any words
	if len(t.value) < shortest {
		return said
	}
	return strings.ReplaceAll(said, t.value, "[token]")
}

// redact takes the token out of an answer before any of it is cut: a part of a long
// one would not be found afterwards.
func (x *exchange) redact(tok token) {
	for _, form := range []string{tok.value, strings.ReplaceAll(tok.value, "/", `\/`)} {
		form := token{value: form}
		if x.body = []byte(form.redact(string(x.body))); x.header.Get("Location") != "" {
			x.header.Set("Location", form.redact(x.header.Get("Location")))
		}
	}
}

// redactError takes the token out of an error, which stays as it is if it has none.
func (t token) redactError(err error) error {
	if err == nil {
		return nil
	}
	if said := t.redact(err.Error()); said != err.Error() {
		return errors.New(said)
	}
	return err
}

const (
	commandTime = 10 * time.Second
	commandPath = "PATH=/usr/local/bin:/usr/bin:/bin"
	maxToken    = 4096
)

// runToken runs the command that prints a token, with what it starts as one group
// that ends with it.
func runToken(ctx context.Context, argv []string, uid uint32) (string, error) {
	const key = "policy_server.token_command"
	if err := safepath.File(argv[0], uid); err != nil {
		return "", fmt.Errorf("running %s: %w", key, err)
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	out, complaint := &bounded{most: maxToken}, &bounded{most: 1024}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) // #nosec G204 -- the operator's own, from guard.toml
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = []string{commandPath, "LANG=C.UTF-8"}, "/", out, complaint
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = 100 * time.Millisecond
	err := cmd.Run()
	if cmd.Process != nil {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // what it left behind
	}
	name := verdict.Object(argv[0])
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("running %s %s: not done in time: %w", key, name, ctx.Err())
	case err != nil:
		return "", fmt.Errorf("running %s %s: %w%s", key, name, err, said(verdict.Cut(verdict.Clean(strings.TrimSpace(complaint.String())), 200)))
	case out.over:
		return "", fmt.Errorf("running %s %s: it printed more than %d bytes", key, name, maxToken)
	}
	value := strings.TrimRight(out.String(), "\r\n")
	if value == "" || verdict.Clean(value) != value || strings.ContainsAny(value, " \t") {
		return "", fmt.Errorf("running %s %s: it printed no token: want one line without blanks", key, name)
	}
	return value, nil
}

// bounded keeps the first bytes of what is written.
type bounded struct {
	kept []byte
	most int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := max(b.most-len(b.kept), 0)
	b.over = b.over || len(p) > room
	b.kept = append(b.kept, p[:min(len(p), room)]...)
	return len(p), nil
}

func (b *bounded) String() string { return string(b.kept) }
