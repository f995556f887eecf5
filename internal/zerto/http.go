package zerto

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"leaseguard.internal/internal/clock"
)

// request is one request to be made of the ZVM.
type request struct {
	op          string
	route       route
	id          string
	query       url.Values
	body        string
	contentType string
	limit       int64 // most bytes of the answer
}

// getTime bounds one GET. An insert has only its caller's deadline: giving up
// on it early makes its outcome unknown.
const getTime = 30 * time.Second

// patience is how long a look-up waits before it asks again.
var patience = []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}

// lookUp is ask with patience for overload and broken connections. Whether the
// server faults on this request or on everything can't be told from a 500, so
// that is asked again only once.
func (c *Client) lookUp(ctx context.Context, req request, set setter) error {
	for try := 0; ; try++ {
		err := c.ask(ctx, req, set)
		e, ok := errors.AsType[*Error](err)
		if !ok || !e.Temporary() || try == len(c.patience) {
			return err
		}
		if e.Status == http.StatusInternalServerError && try > 0 {
			return err
		}
		if clock.Sleep(ctx, c.patience[try]) != nil {
			return err
		}
	}
}

// ask makes a GET and hands its answer to set.
func (c *Client) ask(ctx context.Context, req request, set setter) error {
	ctx, cancel := context.WithTimeout(ctx, getTime)
	defer cancel()
	data, err := c.authorized(ctx, req)
	if err != nil {
		return err
	}
	if err := parse(data, set); err != nil {
		return &Error{Op: req.op, Status: http.StatusOK, Err: err}
	}
	return nil
}

// authorized sends req with a token. A token that the ZVM refuses is renewed
// once, and the request repeated: what was refused wasn't executed.
func (c *Client) authorized(ctx context.Context, req request) ([]byte, error) {
	for try := 0; ; try++ {
		b, err := c.tokens.get(ctx)
		if err != nil {
			return nil, err
		}
		data, err := c.send(ctx, req, b.value)
		e, ok := errors.AsType[*Error](err)
		if !ok || !e.Unauthorized() || try > 0 {
			return data, err
		}
		c.tokens.refuse(b)
	}
}

// send makes one exchange. bearer is empty for the token endpoint.
func (c *Client) send(ctx context.Context, req request, bearer string) ([]byte, error) {
	fail := &Error{Op: req.op, Token: req.route == routeToken}
	path, err := req.route.path(req.id)
	if err != nil {
		fail.Err = err
		return nil, fail
	}
	// An insert counts as sent from its headers on: what failed before can't
	// have been executed.
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	hr, err := http.NewRequestWithContext(ctx, req.route.method, c.base+path, strings.NewReader(req.body))
	if err != nil {
		fail.Err = err
		return nil, fail
	}
	hr.URL.RawQuery = req.query.Encode()
	hr.Header.Set("Accept", "application/json")
	if req.contentType != "" {
		hr.Header.Set("Content-Type", req.contentType)
	}
	if bearer != "" {
		hr.Header.Set("Authorization", "Bearer "+bearer)
	}
	data, status, err := c.exchange(hr, req.limit)
	if err == nil && status == http.StatusOK {
		return data, nil
	}
	fail.Status, fail.Err = status, err
	if err == nil {
		fail.Message = errorMessage(data)
	}
	// A 4xx and "not implemented" are refusals. Anything else may hide an insert
	// that was executed.
	refused := status >= 400 && status < 500 || status == http.StatusNotImplemented
	fail.Unknown = req.route == routeInsert && sent.Load() && !refused
	return nil, fail
}

// exchange returns the answer's body, which has at most limit bytes, and its
// status, 0 when none came.
func (c *Client) exchange(req *http.Request, limit int64) (data []byte, status int, err error) {
	resp, err := c.http.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // what it wraps around says method and URL again
		}
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			err = fmt.Errorf("%w: %w", ErrUntrusted, err)
		}
		return nil, 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, 0, fmt.Errorf("reading its answer: %w", err)
	}
	if int64(len(data)) > limit {
		return nil, resp.StatusCode, fmt.Errorf("%w: it is longer than %d bytes", ErrAnswer, limit)
	}
	return data, resp.StatusCode, nil
}
