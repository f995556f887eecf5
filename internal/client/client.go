// Package client is how guard's own programs speak to the broker: operators
// through operator.sock, launchers through broker.sock. It also starts the
// broker in user mode, finds the programs beside our own executable and reads
// the context documents that a verification binds.
//
// The broker is authenticated before anything is sent: its directory is safe
// and the listener's uid is ours or root's (internal/peer). Nothing here holds
// authority; the broker decides from kernel facts who asks.
package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// requestTimeout bounds one request whose context has no earlier deadline;
// checkpointTimeout one that waits for a checkpoint, which checkpoint.timeout
// bounds in the broker, by 570 s at most.
const (
	requestTimeout    = 30 * time.Second
	checkpointTimeout = 600 * time.Second
)

func timeoutOf(verb wire.Verb) time.Duration {
	if verb == wire.VerbCheckpoint {
		return checkpointTimeout
	}
	return requestTimeout
}

// maxResult bounds the broker's answer: a status of every session fits.
const maxResult = 64 << 20

// ErrAnswer is what an answer that isn't understood wraps. Nothing may be
// assumed about what the broker did.
var ErrAnswer = errors.New("unusable answer of the broker")

// Client asks the broker through one of its sockets. It holds no connection:
// there is one request on each, so that Do makes its own.
type Client struct {
	paths  paths.Paths
	socket string
	closed bool // to who isn't an operator, by the socket's mode

	ask        func(context.Context) (wire.Secret, error) // nil: nobody can be asked
	passphrase wire.Secret                                // what the last answer was
}

// Dial returns a client for the broker that p leads to, through operator.sock.
func Dial(p paths.Paths) *Client {
	return &Client{paths: p, socket: p.OperatorSocket, closed: p.Mode == paths.System}
}

// AskWith makes the client ask for the operator's passphrase when the broker
// wants it, and not before. What was answered serves all of its requests.
func (c *Client) AskWith(ask func(context.Context) (wire.Secret, error)) *Client {
	c.ask = ask
	return c
}

// Refused says whether err is the broker's refusal with that code.
func Refused(err error, code verdict.Code) bool {
	var refusal *wire.Error
	return errors.As(err, &refusal) && refusal.Code == string(code)
}

// Inside returns a client that asks as a process of a session, through broker.sock:
// a launcher, or a session's own recovery tool.
func Inside(p paths.Paths) *Client {
	return &Client{paths: p, socket: p.BrokerSocket}
}

// Do sends one request and returns the broker's answer. A refusal is returned
// as the *wire.Error that the broker sent.
func (c *Client) Do(ctx context.Context, ctl wire.Control, body []byte) (wire.Result, error) {
	res, err := c.once(ctx, ctl, body)
	if c.ask == nil || !Refused(err, verdict.PassphraseNeeded) {
		return res, err
	}
	// The broker has done nothing yet, so that the request may come again.
	if c.passphrase == "" {
		if c.passphrase, err = c.ask(ctx); err != nil {
			return wire.Result{}, err
		}
	}
	ctl.Passphrase = c.passphrase
	if res, err = c.once(ctx, ctl, body); Refused(err, verdict.PassphraseWrong) {
		c.passphrase = ""
	}
	return res, err
}

// once sends a request on a connection of its own.
func (c *Client) once(ctx context.Context, ctl wire.Control, body []byte) (wire.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(ctl.Verb))
	defer cancel()
	conn, err := peer.Dial(ctx, c.socket, c.paths.BrokerUID)
	if c.closed && errors.Is(err, fs.ErrPermission) {
		return wire.Result{}, &wire.Error{Code: string(verdict.NotOperator), Message: verdict.Reason(verdict.NotOperator,
			"opening", verdict.Object(c.socket), "it is for root and the group "+paths.OperatorGroup, "run it as one of them, or have root run: usermod -aG "+paths.OperatorGroup+" USER; never for the user that an agent runs as")}
	}
	if err != nil {
		return wire.Result{}, err
	}
	defer conn.Close()
	res, err := exchange(ctx, conn, ctl, body)
	return res, heard(c.paths, err)
}

// heard explains a connection that ended without an answer: a service manager
// takes connections also for a broker that can't start.
func heard(p paths.Paths, err error) error {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) {
		return unstarted(p, err)
	}
	return err
}

// Register asks broker.sock for a session whose anchor is this process. The
// caller keeps the connection open until it execs: its end is how the broker
// learns that the runtime runs.
//
// project are the bytes of the project's policy hooks, if reg says that there are.
func Register(ctx context.Context, p paths.Paths, reg wire.Register, project []byte) (wire.Result, net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	conn, err := peer.Dial(ctx, p.BrokerSocket, p.BrokerUID)
	if err != nil {
		return wire.Result{}, nil, err
	}
	res, err := exchange(ctx, conn, wire.Control{Verb: wire.VerbRegister, Register: &reg}, project)
	if err == nil && (res.Session == nil || res.Session.ID == "" || res.Session.Generation == 0) {
		err = fmt.Errorf("%w: registration without session id and generation", ErrAnswer)
	}
	if err != nil {
		conn.Close()
		return wire.Result{}, nil, heard(p, err)
	}
	return res, conn, nil
}

// exchange writes one request and reads its answer within ctx.
func exchange(ctx context.Context, conn net.Conn, ctl wire.Control, body []byte) (wire.Result, error) {
	text, err := json.Marshal(ctl)
	if err != nil {
		return wire.Result{}, fmt.Errorf("encoding %s request: %w; names and reasons must be valid UTF-8", ctl.Verb, err)
	}
	if len(text) > wire.MaxControl || len(body) > wire.MaxContext {
		return wire.Result{}, fmt.Errorf("%s request of %d bytes with %d bytes of documents is over the limits %d and %d",
			ctl.Verb, len(text), len(body), wire.MaxControl, wire.MaxContext)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	frame := wire.AppendRequest(nil, wire.Request{Kind: wire.KindControl, Control: text, Body: body})
	// A broker that refuses early answers before it has read everything, so a
	// failed write doesn't yet mean that there is no answer.
	_, writeErr := conn.Write(frame)
	reply, err := wire.ReadReply(conn, maxResult)
	if err != nil {
		return wire.Result{}, fmt.Errorf("asking the broker to %s: %w", ctl.Verb, errors.Join(ctx.Err(), writeErr, err))
	}
	return decode(reply)
}

func decode(reply wire.Reply) (wire.Result, error) {
	if reply.Kind != wire.KindResult || len(reply.Err) != 0 {
		return wire.Result{}, fmt.Errorf("%w: a reply of kind %d", ErrAnswer, reply.Kind)
	}
	var res wire.Result
	// Who answers is the broker, and maxResult has bounded the memory.
	if err := strictjson.DecodeLong(reply.Out, &res, maxResult); err != nil {
		return wire.Result{}, fmt.Errorf("%w: %w; when guard was updated: guard broker restart", ErrAnswer, err)
	}
	if res.Error != nil {
		return wire.Result{}, res.Error
	}
	return res, nil
}
