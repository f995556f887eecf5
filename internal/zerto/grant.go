package zerto

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

// fetchToken asks the token endpoint. Its form always asks for the scope
// openid: without it some releases issue a token that their own API refuses.
func (c *Client) fetchToken(ctx context.Context) (string, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, getTime)
	defer cancel()
	req := request{
		op: "getting a token for the ZVM", route: routeToken, limit: maxObject,
		body: c.grant.Encode(), contentType: "application/x-www-form-urlencoded",
	}
	data, err := c.send(ctx, req, "")
	if err != nil {
		return "", 0, err
	}
	value, life, err := decodeToken(data)
	if err != nil {
		return "", 0, &Error{Op: req.op, Status: http.StatusOK, Err: err, Token: true}
	}
	return value, life, nil
}

// tokenForm is what RFC 6750 allows in a bearer token; maxToken is what a header
// can carry.
var tokenForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`) })

const maxToken = 16 << 10

func decodeToken(data []byte) (value string, life time.Duration, err error) {
	var kind string
	var seconds int64
	err = parse(data, fields{
		"access_token": text(&value), "expires_in": number(&seconds), "token_type": text(&kind),
	}.object)
	switch {
	case err != nil:
		return "", 0, ErrAnswer // the parser's words may quote the token
	case len(value) > maxToken || !tokenForm().MatchString(value):
		return "", 0, errNoToken
	case kind != "" && !strings.EqualFold(kind, "bearer"):
		return "", 0, errNoBearer
	case seconds <= 0:
		return "", 0, errNoLife
	}
	return value, time.Duration(min(seconds, int64(maxLife/time.Second))) * time.Second, nil
}

// grantForm is what the token endpoint is sent.
func grantForm(cfg Config) url.Values {
	if cfg.Username != "" {
		id := cfg.ClientID
		if id == "" {
			id = "zerto-client" // the public client that every ZVM has
		}
		return url.Values{
			"grant_type": {"password"}, "client_id": {id}, "scope": {"openid"},
			"username": {cfg.Username}, "password": {cfg.Password},
		}
	}
	return url.Values{
		"grant_type": {"client_credentials"}, "client_id": {cfg.ClientID}, "scope": {"openid"},
		"client_secret": {cfg.Secret},
	}
}
