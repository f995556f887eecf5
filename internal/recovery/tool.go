package recovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/wire"
)

// ToolName is what hosts offer the tool under, after the server's own name.
const ToolName = "recover"

// maxAnswer tells the host how large the tool's answers may be before it puts
// them into a file: its own default is less than the documents may have.
const maxAnswer = 500_000

// description is all that a model knows of the tool before it calls it.
const description = `Gets this session a lease again, so that tools which change something are let through. Use it when a call was denied with "guard: lease_unverified", "lease_expired", "lease_revoked" or "lease_pending".

Two calls:
1. Call it without arguments, {}. Any lease that is left ends. The answer holds the context documents and a token.
2. Read the documents. Then call it again with the token and nothing else, {"token": "lgt_..."}, within 60 seconds. The answer says how long the lease holds.

The token works once. If the second call is refused, begin with the first again; if an answer says that an operator is needed, tell the user and stop.`

// schema of the arguments. It is a hint for the model: the decoder decides.
const schema = `{"type":"object","properties":{"token":{"type":"string","pattern":"^lgt_[A-Za-z0-9_-]{43}$","description":"Second call only: the token from the first call's answer."}},"additionalProperties":false}`

func definition() *mcp.Tool {
	no := false
	return &mcp.Tool{
		Name: ToolName, Title: "Recover the lease", Description: description, InputSchema: json.RawMessage(schema),
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no},
		Meta:        mcp.Meta{"anthropic/alwaysLoad": true, "anthropic/maxResultSizeChars": maxAnswer},
	}
}

// tool carries out the calls.
type tool struct {
	ctx    context.Context // the server's life, which the library keeps from its handlers
	broker *client.Client
	turn   chan struct{} // one call at a time, so that documents are in memory once
}

// introduce makes the broker pin this process before the first call, so that no
// other child of the host can be the first. A broker that doesn't answer, or
// refuses, will say so when it is asked in earnest.
func (t *tool) introduce() { _, _ = t.broker.Do(t.ctx, wire.Control{Verb: wire.VerbContext}, nil) }

// handle is called by the library, in a goroutine for each call. Whatever goes
// wrong is an answer: a server that ended would leave the session without
// recovery.
func (t *tool) handle(ctx context.Context, req *mcp.CallToolRequest) (res *mcp.CallToolResult, err error) {
	defer func() {
		if recover() != nil {
			res, err = answer(failure(errPanic), true), nil
		}
	}()
	text, callErr := t.call(ctx, req.Params.Arguments)
	if callErr != nil {
		return answer(failure(callErr), true), nil
	}
	return answer(text, false), nil
}

func answer(text string, failed bool) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, IsError: failed}
}

// call carries out one call and returns the text for the model.
func (t *tool) call(ctx context.Context, arguments []byte) (string, error) {
	token, err := decode(arguments)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if token == "" {
		return t.begin(ctx)
	}
	return t.promote(ctx, token)
}

func (t *tool) begin(ctx context.Context) (string, error) {
	d, err := t.broker.Grant(ctx, wire.Control{Verb: wire.VerbRecoverBegin})
	if err != nil {
		return "", err
	}
	if g := d.Grant; g.State != "PENDING_VERIFICATION" || !wellFormed(g.Token) || g.TokenInS < 1 {
		return "", fmt.Errorf("%w: a begin without a token", client.ErrAnswer)
	}
	return delivered(d), nil
}

func (t *tool) promote(ctx context.Context, token string) (string, error) {
	d, err := t.broker.Grant(ctx, wire.Control{Verb: wire.VerbRecoverPromote, Token: token})
	if err != nil {
		return "", err
	}
	if g := d.Grant; g.State != "VERIFIED" || g.ExpiresInS < 1 {
		return "", fmt.Errorf("%w: a promotion without a lease", client.ErrAnswer)
	}
	return promoted(d.Grant), nil
}

var errPanic = errors.New("the recovery tool failed inside")
