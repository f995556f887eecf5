package policy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"leaseguard.internal/internal/safepath"
)

// rootFiles are where distributions keep the roots that this machine trusts. The
// library would look where the environment tells it.
var rootFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/tls/cacert.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

func machineRoots() (*x509.CertPool, error) {
	const most = 8 << 20
	roots := x509.NewCertPool()
	for _, path := range rootFiles {
		if pem, err := safepath.ReadFile(path, 0, most); err == nil && roots.AppendCertsFromPEM(pem) {
			return roots, nil
		}
	}
	return nil, fmt.Errorf("setting up TLS to the policy server: this machine has no root certificates at %s; install the package ca-certificates", strings.Join(rootFiles, ", "))
}

// newHTTP returns a client without proxy, redirects, compression and cookies.
func newHTTP(connect time.Duration, roots *x509.CertPool) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	dialer := net.Dialer{Timeout: connect}
	return &http.Client{
		Transport: &http.Transport{
			Protocols: &protocols, DialContext: dialer.DialContext, TLSHandshakeTimeout: connect,
			TLSClientConfig:    &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
			DisableCompression: true, MaxIdleConnsPerHost: 32, IdleConnTimeout: 30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// exchange is one attempt: what was answered, or why nothing was.
type exchange struct {
	status   int
	header   http.Header
	body     []byte
	err      error
	sent     bool // the server may know of the evaluation
	late     bool // the budget ended first
	gone     bool // who asked did
	dropped  bool // the connection ended, or there was none: the same may be sent again
	distrust bool // the server is not who it should be
}

// post makes one attempt.
func (e *Evaluator) post(ctx context.Context, address string, body []byte, token string) (x exchange) {
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	defer func() { x.sent = sent.Load() }()
	req, err := http.NewRequestWithContext(traced, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		x.err = err
		return x
	}
	for name, value := range e.cfg.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "guard")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := e.http.Do(req)
	if err != nil {
		x.fail(ctx, err, sent.Load())
		return x
	}
	defer func() { _ = resp.Body.Close() }()
	x.status, x.header = resp.StatusCode, resp.Header
	x.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		x.fail(ctx, err, true)
	case len(x.body) > maxAnswer:
		x.body, x.err = nil, fmt.Errorf("its answer is longer than %d bytes", maxAnswer)
	}
	return x
}

// fail takes an error of the connection apart.
func (x *exchange) fail(ctx context.Context, err error, sent bool) {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // what it wraps around says method and URL again
	}
	x.err, x.body = err, nil
	// A connection that takes too long has an error that looks like the budget's.
	x.late, x.gone = errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(ctx.Err(), context.Canceled)
	if _, x.distrust = errors.AsType[*tls.CertificateVerificationError](err); x.distrust || x.late || x.gone {
		return
	}
	x.dropped = !sent
	for _, cut := range []error{io.EOF, io.ErrUnexpectedEOF, unix.ECONNRESET, unix.EPIPE} {
		x.dropped = x.dropped || errors.Is(err, cut)
	}
}

// logins are the words in the path of a page where people log in.
var logins = []string{"oidc", ".auth", "login", "signin", "sign-in", "sso", "saml", "saml2", "oauth", "oauth2", "authorize"}

// lapsed says whether the server took the credential for none, in any of the ways
// that servers and what stands before them have to say so.
func (x exchange) lapsed() bool {
	switch {
	case x.err != nil:
		return false
	case x.status == http.StatusUnauthorized:
		return true
	case x.status == http.StatusForbidden:
		said := strings.ToLower(x.header.Get("WWW-Authenticate") + " " + string(x.body[:min(len(x.body), 4096)]))
		for _, words := range []string{"invalid token", "invalid_token", "invalid access token", "token expired", "token_expired", "expired token", "token has expired", "token is expired"} {
			if strings.Contains(said, words) {
				return true
			}
		}
		return false
	case x.status >= 300 && x.status < 400:
		return toLogin(x.header.Get("Location"))
	}
	return x.status < 300 && x.page()
}

func toLogin(location string) bool {
	u, err := url.Parse(location)
	if err != nil {
		return false
	}
	for part := range strings.SplitSeq(strings.ToLower(u.Path), "/") {
		for _, word := range logins {
			if part == word || strings.TrimSuffix(part, ".html") == word {
				return true
			}
		}
	}
	return false
}

// page says whether the body is a page for people.
func (x exchange) page() bool {
	return strings.HasPrefix(strings.ToLower(x.header.Get("Content-Type")), "text/html") || strings.HasPrefix(strings.TrimSpace(string(x.body[:min(len(x.body), 64)])), "<")
}
