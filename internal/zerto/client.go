package zerto

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/verdict"
)

// Config says where the ZVM is, how it proves itself and how we do. It has
// CAFile or SPKISHA256 or both, and either ClientID and Secret or Username and
// Password (then ClientID is optional).
type Config struct {
	URL        string // https://host[:port]
	CAFile     string // PEM
	SPKISHA256 string // base64 of the SHA-256 of the server's public key
	ClientID   string
	Secret     string
	Username   string
	Password   string
	UID        uint32 // who besides root may own CAFile
}

// Client asks one ZVM. It is safe for use by several goroutines, and has to be
// closed.
type Client struct {
	base   string
	grant  url.Values
	http   *http.Client
	tokens *tokens

	patience []time.Duration // replaced by tests
}

// New returns a client. It asks the ZVM nothing yet.
func New(cfg Config, clk clock.Clock) (*Client, error) {
	base, err := baseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	if err := oneCredential(cfg); err != nil {
		return nil, err
	}
	conf, err := tlsConfig(cfg)
	if err != nil {
		return nil, err
	}
	c := &Client{base: base, grant: grantForm(cfg), http: newHTTP(conf), patience: patience}
	c.tokens = newTokens(clk, c.fetchToken)
	return c, nil
}

// Warm gets a token ahead of the first call and keeps it warm from then on; it
// tells early whether the ZVM can be reached and takes the credential.
func (c *Client) Warm(ctx context.Context) error {
	_, err := c.tokens.get(ctx)
	return err
}

// Close ends the renewal of the token and the idle connections. What is being
// asked still ends by its own context.
func (c *Client) Close() {
	c.tokens.close()
	c.http.CloseIdleConnections()
}

// baseURL accepts only scheme, host and port, so that the routes alone decide
// about paths.
func baseURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil {
		return "", fmt.Errorf("reading zvm.url %s: it is no URL; write https://HOST[:PORT]", verdict.Object(s))
	}
	plain := u.User == nil && u.RawQuery == "" && u.Fragment == "" && !u.ForceQuery && (u.Path == "" || u.Path == "/")
	if u.Scheme != "https" || u.Hostname() == "" || !plain {
		return "", fmt.Errorf("reading zvm.url %s: it has to be https://HOST[:PORT] and no more; credentials and paths don't belong there",
			verdict.Object(u.Redacted()))
	}
	return "https://" + u.Host, nil
}

func oneCredential(cfg Config) error {
	byClient, byUser := cfg.Secret != "", cfg.Username != "" || cfg.Password != ""
	switch {
	case byClient && byUser:
		return errors.New("reading the ZVM's credential: there are a client secret and a user's password; keep one of them in [zvm]")
	case byUser && (cfg.Username == "" || cfg.Password == ""):
		return errors.New("reading the ZVM's credential: username or password is empty; set zvm.username and zvm.password_file")
	case !byUser && (cfg.ClientID == "" || cfg.Secret == ""):
		return errors.New("reading the ZVM's credential: client id or secret is empty; set zvm.client_id and zvm.client_secret_file")
	}
	return nil
}
