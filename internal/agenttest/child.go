package agenttest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/peer"
	"leaseguard.internal/internal/wire"
)

// maxLine bounds one order or answer.
const maxLine = 32 << 20

// patience is how long an agent waits for one answer.
const patience = 30 * time.Second

// serve is the agent's main: each order runs beside the others.
func serve(in io.Reader, out io.Writer) {
	signal.Ignore(unix.SIGPIPE) // a broker that dies hangs up
	var writing sync.Mutex
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			os.Exit(1)
		}
		go func() {
			line, err := json.Marshal(obey(o))
			if err != nil {
				os.Exit(1)
			}
			writing.Lock()
			defer writing.Unlock()
			_, _ = out.Write(append(line, '\n'))
		}()
	}
}

func obey(o order) answer {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a := answer{N: o.N, Sent: true}
	var err error
	if o.Register != nil {
		err = register(ctx, o, &a)
	} else {
		err = send(ctx, o, &a)
	}
	if errors.Is(err, peer.ErrUnavailable) {
		a.Sent = false
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

// register becomes an anchor. Closing the connection is what exec does.
func register(ctx context.Context, o order, a *answer) error {
	res, conn, err := client.Register(ctx, o.Paths, *o.Register, nil)
	if errors.As(err, &a.Refused) {
		return nil
	}
	if err != nil {
		return err
	}
	a.Session = res.Session
	return conn.Close()
}

func send(ctx context.Context, o order, a *answer) error {
	conn, err := peer.Dial(ctx, o.Paths.BrokerSocket, o.Paths.BrokerUID)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline) // fails only on a closed connection
	if _, err := conn.Write(o.Frame); err != nil {
		return err
	}
	a.Reply, err = wire.ReadReply(conn, wire.MaxOutput)
	return err
}
