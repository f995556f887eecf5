package zvmsim

import (
	"net/http"
	"time"
)

// A Windows ZVM knows no tokens: POST /v1/session/add takes the account by HTTP
// Basic and answers with a session in a header, which then comes with each
// request, until it has not come for half an hour.
const (
	sessionHeader = "x-zerto-session"
	sessionIdle   = 30 * time.Minute
)

// addSession serves POST /v1/session/add.
func (s *Server) addSession(c *call) reply {
	user, password, given := c.r.BasicAuth()
	if !given || !same(user, s.info.Username) || !same(password, s.info.Password) {
		return message(http.StatusUnauthorized, "Unauthorized")
	}
	id := random()
	s.tokens[id] = token{ends: c.now.Add(sessionIdle), openID: true, session: true}
	return reply{status: http.StatusOK, header: map[string]string{sessionHeader: id}}
}

// endSession serves DELETE /v1/session.
func (s *Server) endSession(c *call) reply {
	if !s.inSession(c) {
		return message(http.StatusUnauthorized, "Unauthorized")
	}
	delete(s.tokens, c.r.Header.Get(sessionHeader))
	return reply{status: http.StatusOK}
}

// inSession says whether the request's session lives, and lets it live on.
func (s *Server) inSession(c *call) bool {
	id := c.r.Header.Get(sessionHeader)
	t, known := s.tokens[id]
	if !known || !t.session || t.ends <= c.now {
		return false
	}
	t.ends = c.now.Add(sessionIdle)
	s.tokens[id] = t
	return true
}
