package zvmsim

import (
	"net/http"
	"strings"
)

const version = "10.9.10"

// localSite serves GET /v1/localsite.
func (s *Server) localSite(*call) reply {
	site := s.estate.Site
	return ok(obj{
		{"SiteIdentifier", site.ID},
		{"SiteName", site.Name},
		{"SiteType", site.Type},
		{"SiteTypeVersion", "8.0"},
		{"Location", "lab"},
		{"Version", version},
		{"DisplayVersion", version},
		{"ZvmApiVersion", version},
		{"IpAddress", "127.0.0.1"},
		{"UtcOffsetInMinutes", 0},
		{"IsReplicationToSelfEnabled", false},
		{"IsLoginBannerEnabled", false},
		{"Link", s.siteLink(site.Name)},
	})
}

// listPeers serves GET /v1/peersites.
func (s *Server) listPeers(c *call) reply {
	rows := []obj{}
	for _, p := range s.estate.Peers {
		if name := c.query["peername"]; name == "" || name == p.Name { // case-sensitive, says the specification
			rows = append(rows, s.peerObject(p))
		}
	}
	return ok(rows)
}

// onePeer serves GET /v1/peersites/ID.
func (s *Server) onePeer(c *call) reply {
	if !guidForm.MatchString(c.arg) {
		return s.malformed("failed parsing %q as a valid site identifier", c.arg)
	}
	for _, p := range s.estate.Peers {
		if strings.EqualFold(p.ID, c.arg) {
			return ok(s.peerObject(p))
		}
	}
	return message(http.StatusNotFound, "site with identifier %s was not found", c.arg)
}

func (s *Server) peerObject(p Site) obj {
	return obj{
		{"SiteIdentifier", p.ID},
		{"PeerSiteName", p.Name},
		{"PairingStatus", 0},
		{"Location", "lab"},
		{"HostName", "192.0.2.10"},
		{"Port", 9081},
		{"Version", version},
		{"SiteType", p.Type},
		{"Link", s.siteLink(p.Name)},
	}
}

// serverTime serves GET /v1/serverDateTime/serverDateTimeUtc.
func (s *Server) serverTime(c *call) reply {
	return ok(stamp(s.zvmTime(c.now)))
}

// echoTime serves GET /v1/serverDateTime/dateTimeArgument: how a date was read.
func (s *Server) echoTime(c *call) reply {
	t, err := s.parseDate(c.query["datetime"])
	if err != nil {
		return s.malformed("failed parsing %q as a date", c.query["datetime"])
	}
	return ok(stamp(t))
}
