// Package recovery is the session's own recovery tool: an MCP server on stdin
// and stdout with one tool, recover, by which an agent whose lease is gone gets
// the context documents anew and, by a second call, a lease.
//
// It holds no authority and decides nothing. It reads the documents, carries
// them and the token between host and broker, and puts the broker's answers into
// words for a model. The broker takes its requests only from the process that it
// has pinned, a child of the session's runtime, and only for a call that the
// host's own gate has announced.
//
// The token goes into the answer of the call that asked for it, and nowhere
// else: what is written to stderr is made here and holds nothing that came in.
// Whoever can trace a process of this uid can read it on its way; it works once,
// for 60 s, from the pinned process.
//
// The server ends with its stdin and with the process that started it.
package recovery

import (
	"context"
	"fmt"
	"io"
	"regexp"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/version"
)

// maxMessage bounds one message of the host. Those that it has reason to send
// have a few hundred bytes.
const maxMessage = 256 << 10

var serverName = regexp.MustCompile(`^guard-[0-9a-f]{16}$`)

// ValidName says whether name is one that the broker gives a session's server.
func ValidName(name string) bool { return serverName.MatchString(name) }

// Options say whom the server serves.
type Options struct {
	Name  string      // of the server; see ValidName
	Paths paths.Paths // of the broker
	In    io.Reader
	Out   io.Writer
}

// Serve answers the host until In ends, which is no error, or ctx does.
func Serve(ctx context.Context, opt Options) error {
	ctx, cancel := context.WithCancel(ctx)
	t := &tool{ctx: ctx, broker: client.Inside(opt.Paths), turn: make(chan struct{}, 1)}
	server := mcp.NewServer(
		&mcp.Implementation{Name: opt.Name, Title: "leaseguard", Version: version.Version},
		&mcp.ServerOptions{
			Instructions: "When a tool call is denied with a reason that begins with \"guard: lease_\", call " + ToolName + " without arguments and do what it answers.",
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}, // no logging: nothing of a call may go elsewhere
		})
	server.AddTool(definition(), t.handle)

	introduced := make(chan struct{})
	go func() {
		defer close(introduced)
		t.introduce()
	}()
	defer func() { cancel(); <-introduced }()

	served := make(chan error, 1)
	go func() {
		served <- server.Run(ctx, &mcp.IOTransport{
			Reader: io.NopCloser(opt.In), Writer: unclosed{opt.Out}, MaxLineLength: maxMessage})
	}()
	select {
	case err := <-served:
		if err == nil || ctx.Err() != nil {
			return nil
		}
		// The cause may quote what came in.
		return fmt.Errorf("serving the host: its messages on stdin must be MCP, one on a line, of at most %d bytes each, and stdout must be read; reconnect the MCP server", maxMessage)
	case <-ctx.Done():
		// Not waiting for the server: it may be writing to a pipe that a dead
		// host has left to somebody who doesn't read it.
		return nil
	}
}

// unclosed is a writer that belongs to somebody else.
type unclosed struct{ io.Writer }

// Close leaves the writer as it is.
func (unclosed) Close() error { return nil }
