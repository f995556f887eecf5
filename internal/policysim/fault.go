package policysim

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"leaseguard.internal/internal/clock"
)

// Status answers with a status and a body.
func Status(status int, body string) Fault {
	return With(status, body, "Content-Type", "application/json")
}

// With answers with a status, a body and headers: name, value, name, value …
func With(status int, body string, headers ...string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

// Page answers with a page for people.
func Page(status int) Fault {
	return With(status, "<!doctype html><html><form action=/login></form></html>", "Content-Type", "text/html; charset=utf-8")
}

// Redirect leads elsewhere.
func Redirect(to string) Fault { return With(http.StatusFound, "", "Location", to) }

// Hang takes the request and never answers.
func Hang() Fault {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	}
}

// Late answers as usual, after so long.
func Late(d time.Duration) Fault {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		return clock.Sleep(r.Context(), d) != nil
	}
}

// Raw writes bytes that need be no HTTP, and ends the connection; no bytes: only
// that.
func Raw(bytes string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, bytes)
			_ = conn.Close()
		}
		return true
	}
}

// Drip begins an answer and never ends it.
func Drip() Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.WriteString(w, `{"result":"POLICY_ACTION_ALLOW"`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return true
	}
}

// Flood answers without end.
func Flood() Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		chunk := bytes.Repeat([]byte(" "), 64<<10)
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				break
			}
		}
		return true
	}
}

// Fine is no fault: it keeps a place among some that are.
func Fine() Fault { return func(http.ResponseWriter, *http.Request) bool { return false } }
