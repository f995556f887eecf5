package zvmsim

import (
	"net/http"
	"strings"
)

// route is one operation. A * in the path is an identifier; the API's own
// segments fit in any case, those of the token endpoint only as they stand.
type route struct {
	method, path string
	op           string
	handler      func(*Server, *call) reply
}

const tokenPath = "/auth/realms/zerto/protocol/openid-connect/token" //nolint:gosec // a path, no credential

var routes = []route{
	{"POST", tokenPath, OpToken, (*Server).token},
	{"POST", "/v1/session/add", OpToken, (*Server).addSession},
	{"DELETE", "/v1/session", OpToken, (*Server).endSession},
	{"GET", "/v1/vms", OpVMs, (*Server).listVMs},
	{"GET", "/v1/vms/*", OpVMs, (*Server).oneVM},
	{"GET", "/v1/vpgs", OpVPGs, (*Server).listVPGs},
	{"GET", "/v1/vpgs/statuses", OpSites, nameList(statusNames)},
	{"GET", "/v1/vpgs/substatuses", OpSites, nameList(subStatusNames)},
	{"GET", "/v1/vpgs/entitytypes", OpSites, nameList(entityNames)},
	{"GET", "/v1/vpgs/priorities", OpSites, nameList(priorityNames)},
	{"GET", "/v1/vpgs/*", OpVPGs, (*Server).oneVPG},
	{"GET", "/v1/vpgs/*/checkpoints", OpList, (*Server).listCheckpoints},
	{"GET", "/v1/vpgs/*/checkpoints/stats", OpList, (*Server).checkpointStats},
	{"POST", "/v1/vpgs/*/checkpoints", OpInsert, (*Server).insertCheckpoint},
	{"GET", "/v1/tasks/*", OpTask, (*Server).oneTask},
	{"GET", "/v1/localsite", OpSites, (*Server).localSite},
	{"GET", "/v1/peersites", OpSites, (*Server).listPeers},
	{"GET", "/v1/peersites/*", OpSites, (*Server).onePeer},
	{"GET", "/v1/serverdatetime/serverdatetimeutc", OpSites, (*Server).serverTime},
	{"GET", "/v1/serverdatetime/datetimeargument", OpSites, (*Server).echoTime},
}

// route finds the operation and what can be said of the request without doing
// it. Without an operation its reply is the answer.
func (s *Server) route(c *call) reply {
	c.op = OpOther
	if s.now.Settings.InCloud && c.r.URL.Path != tokenPath {
		return inCloud(c)
	}
	rep := message(http.StatusNotFound, "No HTTP resource was found that matches the request URI")
	for _, r := range routes {
		arg, fits := match(r.path, c.r.URL.Path)
		if !fits {
			continue
		}
		if !s.offers(r) {
			c.op = r.op
			return rep
		}
		if r.method != c.r.Method {
			rep = message(http.StatusMethodNotAllowed, "The requested resource does not support http method")
			continue
		}
		query, err := parseQuery(c.r.URL)
		if err != nil {
			return message(http.StatusBadRequest, "the query is malformed")
		}
		c.op, c.handler, c.arg, c.query = r.op, r.handler, arg, query
		c.group = s.groupOf(c)
		return reply{}
	}
	return rep
}

// offers says whether this kind of ZVM has the operation: an appliance logs in
// by tokens, Windows by sessions.
func (s *Server) offers(r route) bool {
	if r.op != OpToken {
		return true
	}
	return s.now.Settings.Windows == (r.path != tokenPath)
}

func match(pattern, path string) (arg string, fits bool) {
	if pattern == tokenPath {
		return "", path == pattern
	}
	want, have := strings.Split(pattern, "/"), strings.Split(strings.ToLower(path), "/")
	if len(want) != len(have) {
		return "", false
	}
	for i, w := range want {
		switch {
		case w == "*" && have[i] != "":
			arg = have[i]
		case w != have[i]:
			return "", false
		}
	}
	return arg, true
}

// groupOf returns the VPG that the request is about, nil for none.
func (s *Server) groupOf(c *call) *group {
	switch c.op {
	case OpVPGs, OpList, OpInsert:
		return s.groupByID(c.arg)
	case OpTask:
		if i := s.insertByTask(c.arg); i != nil {
			return i.vpg
		}
	}
	return nil
}

// inCloud answers as the In-Cloud product does: another path, an insert that
// is accepted without a body. No client of ours has business there.
func inCloud(c *call) reply {
	path := strings.ToLower(c.r.URL.Path)
	switch {
	case !strings.HasPrefix(path, "/zic/api/v1/"):
		return reply{status: http.StatusNotFound, body: "<html><body>404 Not Found</body></html>"}
	case c.r.Method == http.MethodPost:
		return reply{status: http.StatusAccepted}
	default:
		return ok([]byte("[]"))
	}
}

func (s *Server) groupByID(id string) *group {
	for _, g := range s.groups {
		if id != "" && g.spec.ID == id {
			return g
		}
	}
	return nil
}

func (s *Server) groupByName(name string) *group {
	for _, g := range s.groups {
		if g.spec.Name == name {
			return g
		}
	}
	return nil
}

func (s *Server) insertByTask(task string) *insert {
	for _, i := range s.inserts {
		if i.task == task {
			return i
		}
	}
	return nil
}

// malformed is what a build says to an argument that it can't parse.
func (s *Server) malformed(format string, args ...any) reply {
	if s.now.Settings.OldBuild {
		return message(http.StatusInternalServerError, format, args...)
	}
	return message(http.StatusBadRequest, format, args...)
}
