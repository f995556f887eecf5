package zerto

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
)

// Most bytes that an answer may have. A list of checkpoints of a whole day,
// from a server that ignores startDate, has 2 MB.
const (
	maxObject = 256 << 10
	maxList   = 8 << 20
)

// Query asks for machines by exactly one of its fields.
type Query struct{ Name, Identifier string }

// IsIdentifier reports whether s has the form of a VM identifier. The ZVM
// answers 400 for an identifier that hasn't.
func IsIdentifier(s string) bool { return identifierForm().MatchString(s) }

// VMs returns the rows that the ZVM gives for q, one for each machine and VPG.
// The ZVM's filter is a hint: it ignores case, and may be ignored itself, so
// the caller compares.
func (c *Client) VMs(ctx context.Context, q Query) ([]VM, error) {
	req := request{route: routeVMs, limit: maxList, query: url.Values{}}
	switch {
	case q.Name != "" && q.Identifier == "":
		req.op = "looking up VM " + verdict.Object(q.Name)
		req.query.Set("vmName", q.Name)
	case q.Name == "" && IsIdentifier(q.Identifier):
		req.op = "looking up VM identifier " + verdict.Object(q.Identifier)
		req.query.Set("vmIdentifier", q.Identifier)
	default:
		return nil, fmt.Errorf("looking up VM %s %s: want a name, or an identifier of the form GUID.moref",
			verdict.Object(q.Name), verdict.Object(q.Identifier))
	}
	return get(ctx, c.lookUp, req, list(decodeVM))
}

// VPG returns the VPG with that identifier; an answer about another one is an
// error.
func (c *Client) VPG(ctx context.Context, id string) (VPG, error) {
	req := request{op: "reading VPG " + verdict.Object(id), route: routeVPG, id: id, limit: maxObject}
	return get(ctx, c.lookUp, req, func(v jsontext.Value) (VPG, error) {
		g, err := decodeVPG(v)
		if err == nil && g.ID != id {
			err = fmt.Errorf("it is about VPG %s", verdict.Object(g.ID))
		}
		return whole(g, err)
	})
}

// Site returns what the ZVM knows of a site.
func (c *Client) Site(ctx context.Context, ref SiteRef) (Site, error) {
	req := request{op: "reading the local site", route: routeLocalSite, limit: maxObject}
	switch {
	case ref.Local():
	case ref.Peer():
		req.op, req.route, req.id = "reading site "+verdict.Object(ref.ID), routePeerSite, ref.ID
	default:
		return Site{}, fmt.Errorf("reading site %s of type %s: it is neither the local site nor a peer",
			verdict.Object(ref.ID), verdict.Object(ref.Type))
	}
	return get(ctx, c.lookUp, req, decodeSite)
}

// Now returns the ZVM's own time, which is the only one that its checkpoints
// can be compared with.
func (c *Client) Now(ctx context.Context) (time.Time, error) {
	req := request{op: "reading the ZVM's time", route: routeNow, limit: maxObject}
	return get(ctx, c.lookUp, req, func(v jsontext.Value) (time.Time, error) {
		var s string
		if err := text(&s)(v); err != nil {
			return time.Time{}, err
		}
		return parseTime(s, true)
	})
}

// Task returns a task's state. It asks once: whoever polls asks again.
func (c *Client) Task(ctx context.Context, id string) (Task, error) {
	req := request{op: "reading task " + verdict.Object(id), route: routeTask, id: id, limit: maxObject}
	return get(ctx, c.ask, req, decodeTask)
}

// Checkpoints returns the checkpoints of a VPG since a ZVM time, in no certain
// order. It asks once: whoever polls asks again.
func (c *Client) Checkpoints(ctx context.Context, vpgID string, since time.Time) ([]Checkpoint, error) {
	req := request{
		op: "listing checkpoints of VPG " + verdict.Object(vpgID), route: routeCheckpoints, id: vpgID, limit: maxList,
		query: url.Values{"startDate": {queryTime(since)}},
	}
	return get(ctx, c.ask, req, list(decodeCheckpoint))
}

// get asks by how and returns what decode makes of the answer.
func get[T any](ctx context.Context, how func(context.Context, request, setter) error, req request,
	decode func(jsontext.Value) (T, error)) (T, error) {
	var v T
	err := how(ctx, req, into(&v, decode))
	return whole(v, err)
}

// tagForm is what a tag of ours looks like. The ZVM publishes no limits.
var tagForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._:-]{1,80}$`) })

// InsertCheckpoint asks for a tagged checkpoint and returns the task that makes
// it. Success means accepted, not made. It is sent once; an error whose Unknown
// is set leaves open whether the ZVM executed it.
func (c *Client) InsertCheckpoint(ctx context.Context, vpgID, tag string) (task string, err error) {
	op := "inserting checkpoint " + verdict.Object(tag) + " into VPG " + verdict.Object(vpgID)
	if !tagForm().MatchString(tag) {
		return "", &Error{Op: op, Err: errors.New("the tag isn't 1 to 80 of A-Z a-z 0-9 . _ : -")}
	}
	name, err := jsontext.AppendQuote(nil, tag)
	if err != nil {
		return "", &Error{Op: op, Err: err}
	}
	body := `{"checkpointName":` + string(name) + `}`
	data, err := c.authorized(ctx, request{
		op: op, route: routeInsert, id: vpgID, limit: maxObject, body: body, contentType: "application/json",
	})
	if err != nil {
		return "", err
	}
	task, err = decodeTaskID(data)
	if err != nil {
		return "", &Error{Op: op, Status: http.StatusOK, Err: err, Unknown: true}
	}
	return task, nil
}

// errorMessage finds the ZVM's own words in the body of a failed request. What
// a proxy says in HTML is of no use to anybody.
func errorMessage(body []byte) string {
	var m [6]string
	err := parse(body, fields{
		"message": text(&m[0]), "error_description": text(&m[1]), "errorMessage": text(&m[2]),
		"detail": text(&m[3]), "title": text(&m[4]), "error": text(&m[5]),
	}.object)
	if err == nil {
		for _, s := range m {
			if s != "" {
				return verdict.Cut(s, 300)
			}
		}
		return ""
	}
	if s := strings.TrimSpace(string(body)); !strings.HasPrefix(s, "<") {
		return verdict.Cut(s, 300)
	}
	return ""
}
