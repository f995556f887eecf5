package zvmsim

import (
	"crypto/subtle"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"leaseguard.internal/internal/clock"
)

// publicClient is the client id that an appliance has for the password grant.
const publicClient = "zerto-client"

// refreshLife is how long a refresh token can be used.
const refreshLife = 30 * time.Minute

type token struct {
	ends    clock.Instant
	openID  bool
	refresh bool
	session bool // of a Windows ZVM
}

// denied is an error as the token endpoint tells it.
func denied(status int, code, text string) reply {
	return reply{status: status, body: jsonText(map[string]string{"error": code, "error_description": text})}
}

// token serves the token endpoint. It reads the form in the body alone.
func (s *Server) token(c *call) reply {
	kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return denied(http.StatusBadRequest, "invalid_request", "Missing form parameter: grant_type")
	}
	form, err := url.ParseQuery(string(c.body))
	if err != nil {
		return denied(http.StatusBadRequest, "invalid_request", "The form is malformed")
	}
	c.rec.Grant = form.Get("grant_type")
	openID := hasWord(form.Get("scope"), "openid")
	if !s.clientKnown(form, c.rec.Grant) {
		return denied(http.StatusUnauthorized, "unauthorized_client", "Invalid client or Invalid client credentials")
	}
	switch c.rec.Grant {
	case "client_credentials":
		return s.grant(c.now, openID, false)
	case "password":
		if !same(form.Get("username"), s.info.Username) || !same(form.Get("password"), s.info.Password) {
			return denied(http.StatusUnauthorized, "invalid_grant", "Invalid user credentials")
		}
		return s.grant(c.now, openID, true)
	case "refresh_token":
		old, known := s.tokens[form.Get("refresh_token")]
		if !known || !old.refresh || old.ends <= c.now {
			return denied(http.StatusBadRequest, "invalid_grant", "Invalid refresh token")
		}
		return s.grant(c.now, old.openID, true)
	case "":
		return denied(http.StatusBadRequest, "invalid_request", "Missing form parameter: grant_type")
	default:
		return denied(http.StatusBadRequest, "unsupported_grant_type", "Unsupported grant_type")
	}
}

// clientKnown checks the client: the confidential one needs its secret, the
// public one can't ask for a token of its own.
func (s *Server) clientKnown(form url.Values, grant string) bool {
	if form.Get("client_id") == publicClient {
		return grant != "client_credentials"
	}
	return same(form.Get("client_id"), s.info.ClientID) && same(form.Get("client_secret"), s.info.ClientSecret)
}

func (s *Server) grant(now clock.Instant, openID, refresh bool) reply {
	for text, t := range s.tokens {
		if t.ends <= now {
			delete(s.tokens, text)
		}
	}
	life := time.Duration(s.now.Settings.TokenLife)
	access := random()
	s.tokens[access] = token{ends: now.Add(life), openID: openID}
	body := map[string]any{
		"access_token": access, "expires_in": int(life.Seconds()), "refresh_expires_in": 0,
		"token_type": "Bearer", "not-before-policy": 0, "scope": "profile email",
	}
	if openID {
		body["scope"] = "openid profile email"
	}
	if refresh {
		text := random()
		s.tokens[text] = token{ends: now.Add(refreshLife), openID: openID, refresh: true}
		body["refresh_token"], body["refresh_expires_in"] = text, int(refreshLife.Seconds())
		body["session_state"] = guid("session", text)
	}
	return ok(jsonText(body))
}

// authorize checks the bearer token or the session of an API request.
func (s *Server) authorize(c *call) (reply, bool) {
	if s.now.Settings.Windows {
		return message(http.StatusUnauthorized, "Unauthorized"), !s.inSession(c)
	}
	kind, text, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	t, known := s.tokens[text]
	if strings.EqualFold(kind, "Bearer") && known && !t.refresh && !t.session && c.now < t.ends &&
		(t.openID || s.now.Settings.AnyScope) {
		return reply{}, false
	}
	rep := message(http.StatusUnauthorized, "Unauthorized")
	rep.header = map[string]string{"WWW-Authenticate": "Bearer"}
	return rep, true
}

// ExpireTokens ends every token that has been given out.
func (s *Server) ExpireTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func hasWord(list, word string) bool {
	for w := range strings.FieldsSeq(list) {
		if w == word {
			return true
		}
	}
	return false
}

// jsonText encodes what the server's style has no say in.
func jsonText(v any) []byte {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic("zvmsim: encoding an answer: " + err.Error()) // a fault of this package
	}
	return data
}
