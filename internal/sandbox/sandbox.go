// Package sandbox is a small machine in a temporary directory: a simulated ZVM,
// a real broker, and sessions of a scripted agent. The demo tells its story in
// one, and the end-to-end tests attack one. It needs no root and no network but
// loopback, and leaves nothing behind.
package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/wire"
	"leaseguard.internal/internal/zvmsim"
)

// patience bounds the start of a program.
const patience = 20 * time.Second

// Sandbox is the machine. Make it with New and end it with Close.
type Sandbox struct {
	Dir      string
	Env      []string
	Paths    paths.Paths
	Programs client.Programs
	Sim      *zvmsim.Server

	broker *exec.Cmd
	said   *bytes.Buffer
	agents []*Agent
}

// New makes an empty machine whose programs are the given ones. env is what
// they inherit beside the sandbox's own places.
func New(programs client.Programs, env []string) (_ *Sandbox, err error) {
	dir, err := os.MkdirTemp("", "guard-")
	if err != nil {
		return nil, fmt.Errorf("making a temporary directory: %w; set TMPDIR to a place that can be written", err)
	}
	s := &Sandbox{Dir: dir, Programs: programs}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	own := map[string]string{
		"HOME": dir, "XDG_CONFIG_HOME": filepath.Join(dir, "config"), "XDG_STATE_HOME": filepath.Join(dir, "state"), "XDG_RUNTIME_DIR": filepath.Join(dir, "run"),
	}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if _, ours := own[name]; !ours && !strings.HasPrefix(name, "GUARD_") {
			s.Env = append(s.Env, kv)
		}
	}
	for name, value := range own {
		s.Env = append(s.Env, name+"="+value)
		if err := os.MkdirAll(value, 0o700); err != nil {
			return nil, err
		}
	}
	s.Paths, err = paths.Resolve(func(k string) string { return own[k] }, uint32(os.Getuid())) // #nosec G115 -- the kernel's uids are 32 bits
	if err == nil && s.Paths.Mode != paths.User {
		err = errors.New("this machine is in system mode (/etc/guard/guard.toml exists); a sandbox needs a broker of its own")
	}
	if err != nil {
		return nil, err
	}
	return s, os.MkdirAll(filepath.Dir(s.Paths.Config), 0o700)
}

// StartSimulator starts the ZVM on loopback.
func (s *Sandbox) StartSimulator(opt zvmsim.Options) (err error) {
	opt.Dir = filepath.Join(s.Dir, "zvm")
	s.Sim, err = zvmsim.Start(opt)
	return err
}

// ZVM is the [zvm] section for the simulator. It stores the secret beside the
// configuration.
func (s *Sandbox) ZVM() (string, error) {
	info := s.Sim.Info()
	secret := filepath.Join(filepath.Dir(s.Paths.Config), "zvm.secret")
	if err := os.WriteFile(secret, []byte(info.ClientSecret+"\n"), 0o600); err != nil {
		return "", err
	}
	return fmt.Sprintf("[zvm]\nurl = %q\nca_file = %q\nclient_id = %q\nclient_secret_file = %q\naccept_same_uid = true\n\n",
		info.URL, info.CAFile, info.ClientID, secret), nil
}

// Configure writes guard.toml.
func (s *Sandbox) Configure(text string) error {
	return os.WriteFile(s.Paths.Config, []byte(text), 0o600)
}

// StartBroker starts guard-broker and waits until it answers. If this process
// dies, the kernel ends it: call it from a goroutine that is locked to its
// thread, whose end the kernel takes for the process's.
func (s *Sandbox) StartBroker(ctx context.Context, extraEnv ...string) error {
	s.broker, s.said = exec.Command(s.Programs.Broker), &bytes.Buffer{} // #nosec G204 -- guard's own program
	s.broker.Env, s.broker.Stderr = append(append([]string{}, s.Env...), extraEnv...), s.said
	// A process group of its own: Ctrl-C reaches the caller, who ends its
	// children in order.
	s.broker.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := s.broker.Start(); err != nil {
		return err
	}
	err := s.Wait(ctx, func() bool { up, err := client.Running(ctx, s.Paths); return err == nil && up })
	if err != nil {
		return fmt.Errorf("waiting for the broker: %w: %s", err, s.said.String())
	}
	return nil
}

// BrokerPID is the broker's process id.
func (s *Sandbox) BrokerPID() int { return s.broker.Process.Pid }

// WaitBroker waits for the broker's end and returns its exit code.
func (s *Sandbox) WaitBroker() int {
	_ = s.broker.Wait() // the code says it all
	code := s.broker.ProcessState.ExitCode()
	s.broker = nil
	return code
}

// Guard runs one of guard's commands, as an operator would.
func (s *Sandbox) Guard(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.Programs.Guard, args...) // #nosec G204 -- guard's own program
	cmd.Env = s.Env
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return out, fmt.Errorf("guard %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}

// Wait looks again and again until done says yes.
func (s *Sandbox) Wait(ctx context.Context, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !done() {
		if err := clock.Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// Close ends everything and removes the directory.
func (s *Sandbox) Close() error {
	for _, a := range s.agents {
		a.End()
	}
	if s.broker != nil {
		end(s.broker)
	}
	err := s.stopDaemon()
	if s.Sim != nil {
		err = errors.Join(err, s.Sim.Close())
	}
	return errors.Join(err, os.RemoveAll(s.Dir))
}

// stopDaemon ends a broker that one of guard's commands has started because
// ours was gone.
func (s *Sandbox) stopDaemon() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if up, err := client.Running(ctx, s.Paths); err != nil || !up {
		return nil // nothing answers there
	}
	if _, err := client.Dial(s.Paths).Do(ctx, wire.Control{Verb: wire.VerbStop}, nil); err != nil {
		return err
	}
	return s.Wait(ctx, func() bool { up, _ := client.Running(ctx, s.Paths); return !up })
}

// end asks a program to stop and kills it when it takes too long.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	stop, cancel := context.WithCancel(context.Background())
	go func() {
		if clock.Sleep(stop, 5*time.Second) == nil {
			_ = cmd.Process.Kill()
		}
	}()
	_ = cmd.Wait() // however it ended
	cancel()
}
