package zvmsim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Settings hold for the whole server.
type Settings struct {
	TokenLife    Span   `json:"token_life"`     // expires_in; tokens really expire
	AnyScope     bool   `json:"any_scope"`      // accept tokens that were asked for without scope=openid
	CamelCase    bool   `json:"camel_case"`     // keys as in the published specification
	EnumNames    bool   `json:"enum_names"`     // status and the like as names
	OldBuild     bool   `json:"old_build"`      // Link_{0} beside Link, and 500 where newer builds say 400
	Filters      string `json:"filters"`        // exact (default), substring or ignore
	UnknownVM400 bool   `json:"unknown_vm_400"` // a vmName that nobody has: 400 in place of an empty list
	InCloud      bool   `json:"in_cloud"`       // only /zic/api/v1 is there: the other product
	Skew         Span   `json:"skew"`           // ZVM time minus true time
	Windows      bool   `json:"windows"`        // sessions by /v1/session/add in place of tokens
	Viewer       bool   `json:"viewer"`         // the account may look and not insert
	TaskLife     Span   `json:"task_life"`      // a task is gone so long after its end; 0 keeps it
	Dates        string `json:"dates"`          // how times are written: iso_ms (default), iso, epoch or epoch_zone
	LocalOffset  Span   `json:"local_offset"`   // the server's local time minus UTC: dates without a zone are read in it
}

// settingKeys are the settings' names, as --setting takes them.
var settingKeys = func() (keys []string) {
	for f := range reflect.TypeFor[Settings]().Fields() {
		keys = append(keys, f.Tag.Get("json"))
	}
	return keys
}()

var (
	filterModes = []string{"", "exact", "substring", "ignore"}
	dateModes   = []string{"", "iso_ms", "iso", "epoch", "epoch_zone"}
)

func (s Settings) check() error {
	if s.TokenLife < Span(time.Second) || s.TokenLife > Span(24*time.Hour) {
		return fmt.Errorf("token_life %v is out of range: want 1s to 24h", time.Duration(s.TokenLife))
	}
	if !slices.Contains(filterModes, s.Filters) {
		return fmt.Errorf("filters %q isn't known: want %s", s.Filters, strings.Join(filterModes[1:], ", "))
	}
	if !slices.Contains(dateModes, s.Dates) {
		return fmt.Errorf("dates %q isn't known: want %s", s.Dates, strings.Join(dateModes[1:], ", "))
	}
	if s.TaskLife < 0 {
		return fmt.Errorf("task_life %v is negative; 0 keeps tasks", time.Duration(s.TaskLife))
	}
	if offset := time.Duration(s.LocalOffset); offset%time.Minute != 0 || offset.Abs() > 14*time.Hour {
		return fmt.Errorf("local_offset %v isn't a time zone's: want whole minutes up to 14h", offset)
	}
	return nil
}

// style is how a server with these settings writes its JSON.
func (s Settings) style() style {
	return style{s.CamelCase, s.EnumNames, s.OldBuild, s.Dates, time.Duration(s.LocalOffset)}
}
