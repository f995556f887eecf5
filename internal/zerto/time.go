package zerto

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	"leaseguard.internal/internal/verdict"
)

// aspDate is the form of old releases: milliseconds since 1970 in UTC, whatever
// the offset behind them says.
var aspDate = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/Date\((-?[0-9]{1,15})(?:[+-][0-9]{4})?\)/$`) })

// zoneless is an ISO time without a zone. It means UTC only where the question
// says so.
const zoneless = "2006-01-02T15:04:05.999999999"

// parseTime reads the forms in which ZVMs send a time. A time without a zone is
// the server's local one and so says nothing, except where utc is known.
func parseTime(s string, utc bool) (time.Time, error) {
	if m := aspDate().FindStringSubmatch(s); m != nil {
		ms, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("reading time %s: %w", verdict.Object(s), err)
		}
		return time.UnixMilli(ms).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t.UTC(), nil
	}
	if utc {
		if t, err := time.Parse(zoneless, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("reading time %s: want ISO 8601 with a zone, or /Date(ms)/", verdict.Object(s))
}

// queryTime writes a time for a query: in UTC and marked so, since the ZVM reads
// an unmarked one as its local time.
func queryTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
