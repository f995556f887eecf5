package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"leaseguard.internal/broker"
	"leaseguard.internal/broker/checkpoint"
	"leaseguard.internal/internal/catalog"
	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/wire"
)

// stubbed confirms every checkpoint at once: what is measured is the broker.
type stubbed struct{}

func (stubbed) Ensure(_ context.Context, r checkpoint.Request) ([]wire.CheckpointInfo, error) {
	return []wire.CheckpointInfo{{VM: r.Targets[0].Name, VPG: "VPG-LOCAL", VPGID: "3f1c", Tag: "guard 0123456789abcdef", ID: "7", Time: clock.System{}.Wall()}}, nil
}

func (stubbed) Look(context.Context, []catalog.Target) ([]wire.CheckpointInfo, error) {
	return nil, nil
}

func (stubbed) Time(context.Context) (time.Time, error) { return clock.System{}.Wall(), nil }

func (stubbed) Forget(string) {}

// serveStubbed is the broker with such checkpoints, until its stdin ends.
func serveStubbed(stdin io.Reader) error {
	uid := uint32(os.Getuid()) //nolint:gosec // the kernel's uids are 32 bits
	p, err := paths.Resolve(os.Getenv, uid)
	if err != nil {
		return err
	}
	cfg, err := config.Load(p.Config, p.Mode, uid)
	if err != nil {
		return err
	}
	b, err := broker.Start(broker.Options{Paths: p, Config: cfg, UID: uid, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler),
		Version: "bench", Checkpoints: stubbed{}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, stdin); cancel() }()
	return b.Run(ctx)
}

// serveEcho answers each request of one connection with a pass, and asks nobody
// who they are, until its stdin ends.
func serveEcho(socket string, stdin io.Reader) error {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, stdin); _ = l.Close() }()
	answer := wire.AppendReply(nil, wire.Reply{Kind: wire.KindAnswer, Out: []byte(passed)})
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go echo(conn, answer)
	}
}

func echo(conn net.Conn, answer []byte) {
	defer conn.Close()
	h, err := wire.ReadHeader(conn, wire.Limits{Control: wire.MaxControl, Body: wire.MaxPayload})
	if err != nil {
		return
	}
	if _, err := wire.ReadBody(conn, h); err == nil {
		_, _ = conn.Write(answer)
	}
}

// approve gives the one session of a broker its lease, as an operator.
func approve(h home) error {
	p, err := paths.Resolve(h.get, uint32(os.Getuid())) //nolint:gosec // the kernel's uids are 32 bits
	if err != nil {
		return err
	}
	operator := client.Dial(p)
	res, err := operator.Do(context.Background(), wire.Control{Verb: wire.VerbStatus}, nil)
	if err != nil {
		return err
	}
	if len(res.Status.Sessions) != 1 {
		return fmt.Errorf("the broker has %d sessions, want 1", len(res.Status.Sessions))
	}
	id := res.Status.Sessions[0].ID
	_, err = operator.Do(context.Background(), wire.Control{Verb: wire.VerbApprove, Session: id, Documents: []wire.Document{{Name: "AGENTS.md", Missing: true}}}, nil)
	return err
}
