package zerto

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
)

// VM is one machine in one VPG that protects it: a machine in three VPGs comes
// as three.
type VM struct {
	ID, Name       string
	VPGID, VPGName string
	Protected      Enum // what kind of platform protects it
	Site           SiteRef
}

// VPG is a virtual protection group.
type VPG struct {
	ID, Name          string
	Status, SubStatus Enum
	Protected         Enum
	Site              SiteRef // the protected one
}

// SiteRef points at a site: this ZVM's own, or a peer's by its identifier.
type SiteRef struct{ ID, Type string }

// Local reports whether the site is the ZVM's own.
func (r SiteRef) Local() bool { return r.Type == "LocalSiteApi" }

// Peer reports whether the site is one that the ZVM is paired with.
func (r SiteRef) Peer() bool { return r.Type == "PeerSiteApi" && r.ID != "" }

// Site is what a site says of itself.
type Site struct{ Name, Type, Version string }

// Cloud reports whether the site is one whose changes can't be tagged.
func (s Site) Cloud() bool {
	t := strings.ToLower(s.Type)
	return strings.Contains(t, "aws") || strings.Contains(t, "amazon") || strings.Contains(t, "azure")
}

// Checkpoint is one point of a VPG's journal. Its identifier is unique within
// the VPG only; Tag is empty for the automatic ones.
type Checkpoint struct {
	ID    string
	Tag   string
	VPGID string // empty unless the answer names it
	Time  time.Time
}

// Task is the state of something that the ZVM was asked to do.
type Task struct {
	State    Enum
	Progress int64
	Reason   string // why it ended, empty on success
}

// link is the reference that each object carries to itself.
type link struct{ id, vpg string }

func (l *link) fields() fields {
	return fields{"identifier": text(&l.id), "vpg_identifier": text(&l.vpg)}
}

// split takes the VPG off the identifier of a machine's link, which carries it
// as a query.
func (l *link) split() (vm, vpg string) {
	vm, query, _ := strings.Cut(l.id, "?")
	if l.vpg != "" {
		return vm, l.vpg
	}
	vpg, _ = strings.CutPrefix(query, "VpgIdentifier=")
	return vm, vpg
}

func (r *SiteRef) fields() fields {
	return fields{"identifier": text(&r.ID), "type": text(&r.Type)}
}

func entities(p *Enum) setter {
	return fields{"protected": enum(p, entityNames, entityAliases)}.object
}

// required names the first of pairs of name and value whose value is empty.
func required(pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return fmt.Errorf("key %q is missing or empty", pairs[i])
		}
	}
	return nil
}

// whole returns v, or its zero value with an error: nobody gets half of it.
func whole[T any](v T, err error) (T, error) {
	if err != nil {
		return *new(T), err
	}
	return v, nil
}

// list decodes an array, element by element.
func list[T any](decode func(jsontext.Value) (T, error)) func(jsontext.Value) ([]T, error) {
	return func(v jsontext.Value) (all []T, err error) {
		err = array(func(v jsontext.Value) error {
			one, err := decode(v)
			all = append(all, one)
			return err
		})(v)
		return whole(all, err)
	}
}

func decodeVM(v jsontext.Value) (vm VM, err error) {
	var self link
	err = fields{
		"vmIdentifier": text(&vm.ID), "vmName": text(&vm.Name),
		"vpgIdentifier": text(&vm.VPGID), "vpgName": text(&vm.VPGName),
		"entities": entities(&vm.Protected), "protectedSite": vm.Site.fields().object,
		"link": self.fields().object,
	}.object(v)
	if err != nil {
		return VM{}, err
	}
	// The published specification has the identifiers only in the link.
	id, vpg := self.split()
	if vm.ID == "" {
		vm.ID = id
	}
	if vm.VPGID == "" {
		vm.VPGID = vpg
	}
	err = required("vmIdentifier", vm.ID, "vmName", vm.Name, "vpgIdentifier", vm.VPGID, "vpgName", vm.VPGName)
	return whole(vm, err)
}

func decodeVPG(v jsontext.Value) (g VPG, err error) {
	var self link
	err = fields{
		"vpgIdentifier": text(&g.ID), "vpgName": text(&g.Name),
		"status": enum(&g.Status, statusNames, nil), "subStatus": enum(&g.SubStatus, subStatusNames, nil),
		"entities": entities(&g.Protected), "protectedSite": g.Site.fields().object,
		"link": self.fields().object,
	}.object(v)
	if err != nil {
		return VPG{}, err
	}
	if g.ID == "" {
		g.ID = self.id
	}
	return whole(g, required("vpgIdentifier", g.ID, "vpgName", g.Name))
}

func decodeCheckpoint(v jsontext.Value) (c Checkpoint, err error) {
	err = fields{
		"checkpointIdentifier": decimal(&c.ID), "timeStamp": moment(&c.Time),
		"tag": text(&c.Tag), "vpgIdentifier": text(&c.VPGID),
	}.object(v)
	if err == nil && c.Time.IsZero() {
		err = errors.New(`key "timeStamp" is missing or empty`)
	}
	if err == nil {
		err = required("checkpointIdentifier", c.ID)
	}
	return whole(c, err)
}

func decodeTask(v jsontext.Value) (t Task, err error) {
	status := fields{"state": enum(&t.State, taskNames, nil), "progress": number(&t.Progress)}
	err = fields{"status": status.object, "completeReason": text(&t.Reason)}.object(v)
	return whole(t, err)
}

func decodeSite(v jsontext.Value) (s Site, err error) {
	err = fields{
		"siteName": text(&s.Name), "peerSiteName": text(&s.Name),
		"siteType": text(&s.Type), "version": text(&s.Version),
	}.object(v)
	return whole(s, err)
}

// decodeTaskID reads the answer to an insert: the task's identifier as a JSON
// string, in an object, or as the bare text of two GUIDs. Any other answer
// names no task.
func decodeTaskID(data []byte) (id string, err error) {
	if bare := strings.TrimSpace(string(data)); identifierForm().MatchString(bare) {
		return bare, nil
	}
	err = parse(data, func(v jsontext.Value) error {
		if v.Kind() == '{' {
			return fields{"taskIdentifier": text(&id)}.object(v)
		}
		return text(&id)(v)
	})
	if err == nil && !safeID().MatchString(id) {
		err = fmt.Errorf("%w: %s is no task identifier", ErrAnswer, verdict.Object(id))
	}
	return id, err
}
