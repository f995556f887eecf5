package zerto

import (
	"fmt"
	"net/http"
	"regexp"
	"sync"

	"leaseguard.internal/internal/verdict"
)

// route is one thing that this client may ask: a method and a path, with an
// identifier between prefix and suffix when takesID.
type route struct {
	method         string
	prefix, suffix string
	takesID        bool
}

// The whole list. Anything that changes a VPG other than by a tag is absent on
// purpose: the credential could do it, this client can't.
var (
	routeToken       = route{method: http.MethodPost, prefix: "/auth/realms/zerto/protocol/openid-connect/token"}
	routeVMs         = route{method: http.MethodGet, prefix: "/v1/vms"}
	routeVPG         = route{method: http.MethodGet, prefix: "/v1/vpgs/", takesID: true}
	routeCheckpoints = route{method: http.MethodGet, prefix: "/v1/vpgs/", suffix: "/checkpoints", takesID: true}
	routeInsert      = route{method: http.MethodPost, prefix: "/v1/vpgs/", suffix: "/checkpoints", takesID: true}
	routeTask        = route{method: http.MethodGet, prefix: "/v1/tasks/", takesID: true}
	routeLocalSite   = route{method: http.MethodGet, prefix: "/v1/localsite"}
	routePeerSite    = route{method: http.MethodGet, prefix: "/v1/peersites/", takesID: true}
	routeNow         = route{method: http.MethodGet, prefix: "/v1/serverDateTime/serverDateTimeUtc"}
)

// safeID is what an identifier in a path looks like: a GUID, or two with a dot.
// It starts with a letter or digit, so that it is never "." or "..".
var safeID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$`) })

// identifierForm is the form of a VM identifier, <server GUID>.<moref>; the ZVM
// answers 400 (old ones 500) for anything else. A task's has it too.
var identifierForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-fA-F-]{36}\.[A-Za-z0-9._-]{1,160}$`) })

// path is the route's path for an identifier that is known to be safe in one.
func (r route) path(id string) (string, error) {
	if !r.takesID {
		return r.prefix, nil
	}
	if !safeID().MatchString(id) {
		return "", fmt.Errorf("identifier %s isn't one that a path may hold", verdict.Object(id))
	}
	return r.prefix + id + r.suffix, nil
}
