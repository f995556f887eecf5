package zvmsim

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"leaseguard.internal/internal/strictjson"
)

// Estate is what a simulated ZVM knows: its own site, its peers, the VPGs
// between them and the machines in those. docs/simulator.md describes the file.
type Estate struct {
	Site  Site   `json:"site"`
	Peers []Site `json:"peers"`
	VPGs  []VPG  `json:"vpgs"`
	VMs   []VM   `json:"vms"`
}

// Site is one Zerto site. Type is as the API says it: VCenter, VCD, SCVMM, AWS
// or Azure; the entity numbers of a VPG follow from it.
type Site struct {
	Name string `json:"name"`
	Type string `json:"type"`
	ID   string `json:"id,omitempty"` // GUID, made from the name when empty
}

// VPG is a virtual protection group. Only its name is needed.
type VPG struct {
	Name           string `json:"name"`
	ID             string `json:"id,omitempty"`              // GUID, made from the name when empty
	ProtectedSite  string `json:"protected_site,omitempty"`  // default: the estate's own site
	RecoverySite   string `json:"recovery_site,omitempty"`   // default: the first peer
	Protected      *int   `json:"protected,omitempty"`       // entity number, where it shouldn't follow from the site
	Status         *int   `json:"status,omitempty"`          // default 1, MeetingSLA
	SubStatus      int    `json:"sub_status,omitempty"`      // 24 to 26: replication stands, no checkpoint is made
	JournalMinutes int    `json:"journal_minutes,omitempty"` // default 60; 1440 gives 17,280 checkpoints
}

// VM is a machine. Two of one name are two machines.
type VM struct {
	Name string   `json:"name"`
	ID   string   `json:"id,omitempty"` // <server GUID>.<moref>, made from the position when empty
	VPGs []string `json:"vpgs"`         // one to three
}

// Limits of an estate, so that a file can't make the simulator unusable.
const (
	maxEstate  = 1 << 20
	maxObjects = 1000
	maxJournal = 30 * 1440
)

var (
	guidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	vmForm   = regexp.MustCompile(`^[0-9a-fA-F-]{36}\.[A-Za-z0-9._-]+$`)
	entities = map[string]int{"VCenter": 0, "VCD": 2, "AWS": 3, "SCVMM": 4, "Azure": 5}
)

// ParseEstate reads an estate file: one JSON object, no unknown keys, every
// reference resolved and every default filled in.
func ParseEstate(data []byte) (*Estate, error) {
	if len(data) > maxEstate {
		return nil, fmt.Errorf("reading estate: %d bytes, at most %d are allowed", len(data), maxEstate)
	}
	var e Estate
	if err := strictjson.Decode(data, &e); err != nil {
		return nil, fmt.Errorf("reading estate: %w", err)
	}
	if err := e.complete(); err != nil {
		return nil, fmt.Errorf("reading estate: %w", err)
	}
	return &e, nil
}

// complete fills in defaults and checks the references. It may be called twice.
func (e *Estate) complete() error {
	if len(e.VPGs) > maxObjects || len(e.VMs) > maxObjects || len(e.Peers) > maxObjects {
		return fmt.Errorf("more than %d vpgs, vms or peers: give fewer", maxObjects)
	}
	if e.Site.Name == "" {
		e.Site.Name = "HQ"
	}
	if len(e.Peers) == 0 {
		e.Peers = []Site{{Name: "DR"}}
	}
	ids := map[string]string{}
	if err := e.Site.complete(ids); err != nil {
		return err
	}
	for i := range e.Peers {
		if err := e.Peers[i].complete(ids); err != nil {
			return err
		}
	}
	for i := range e.VPGs {
		if err := e.VPGs[i].complete(e, ids); err != nil {
			return err
		}
	}
	for i := range e.VMs {
		if err := e.VMs[i].complete(e, i, ids); err != nil {
			return err
		}
	}
	return nil
}

func (s *Site) complete(ids map[string]string) error {
	if s.Type == "" {
		s.Type = "VCenter"
	}
	if _, ok := entities[s.Type]; !ok {
		return fmt.Errorf("site %q has type %q: want VCenter, VCD, SCVMM, AWS or Azure", s.Name, s.Type)
	}
	return claim(ids, "site", s.Name, &s.ID)
}

func (v *VPG) complete(e *Estate, ids map[string]string) error {
	if v.ProtectedSite == "" {
		v.ProtectedSite = e.Site.Name
	}
	if v.RecoverySite == "" {
		v.RecoverySite = e.Peers[0].Name
	}
	for _, name := range []string{v.ProtectedSite, v.RecoverySite} {
		if e.site(name) == nil {
			return fmt.Errorf("vpg %q names site %q: add it to peers", v.Name, name)
		}
	}
	if v.Protected == nil {
		n := entities[e.site(v.ProtectedSite).Type]
		v.Protected = &n
	}
	if v.Status == nil {
		n := 1
		v.Status = &n
	}
	if v.JournalMinutes == 0 {
		v.JournalMinutes = 60
	}
	if v.JournalMinutes < 1 || v.JournalMinutes > maxJournal {
		return fmt.Errorf("vpg %q has journal_minutes %d: want 1 to %d", v.Name, v.JournalMinutes, maxJournal)
	}
	return claim(ids, "vpg", v.Name, &v.ID)
}

func (v *VM) complete(e *Estate, i int, ids map[string]string) error {
	if v.Name == "" {
		return fmt.Errorf("vm number %d has no name", i+1)
	}
	if v.ID == "" {
		v.ID = fmt.Sprintf("%s.vm-%d", guid("server", e.Site.Name), 101+i)
	}
	if !vmForm.MatchString(v.ID) {
		return fmt.Errorf("vm %q has id %q: want <server GUID>.<moref>", v.Name, v.ID)
	}
	if other, taken := ids[v.ID]; taken {
		return fmt.Errorf("vm %q has the id of %s: give it another", v.Name, other)
	}
	ids[v.ID] = "vm " + v.Name
	if len(v.VPGs) < 1 || len(v.VPGs) > 3 {
		return fmt.Errorf("vm %q is in %d vpgs: want one to three", v.Name, len(v.VPGs))
	}
	for k, name := range v.VPGs {
		if !slices.ContainsFunc(e.VPGs, func(g VPG) bool { return g.Name == name }) {
			return fmt.Errorf("vm %q names vpg %q: add it to vpgs", v.Name, name)
		}
		if slices.Contains(v.VPGs[:k], name) {
			return fmt.Errorf("vm %q names vpg %q twice", v.Name, name)
		}
	}
	return nil
}

// claim checks a name and gives the object its GUID; both are unique.
func claim(ids map[string]string, kind, name string, id *string) error {
	if name == "" {
		return errors.New("a " + kind + " has no name")
	}
	if *id == "" {
		*id = guid(kind, name)
	}
	if !guidForm.MatchString(*id) {
		return fmt.Errorf("%s %q has id %q: want a GUID in lower case", kind, name, *id)
	}
	for _, key := range []string{*id, kind + " " + name} {
		if other, taken := ids[key]; taken {
			return fmt.Errorf("%s %q has the name or id of %s: give it another", kind, name, other)
		}
		ids[key] = kind + " " + name
	}
	return nil
}

func (e *Estate) site(name string) *Site {
	if e.Site.Name == name {
		return &e.Site
	}
	for i := range e.Peers {
		if e.Peers[i].Name == name {
			return &e.Peers[i]
		}
	}
	return nil
}

// guid derives an identifier from a name, so that it is the same in each run.
func guid(kind, name string) string {
	sum := sha256.Sum256([]byte(kind + "/" + name))
	sum[6] = sum[6]&0x0f | 0x50
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func (e *Estate) vpgNames() []string {
	names := make([]string, 0, len(e.VPGs))
	for _, g := range e.VPGs {
		names = append(names, g.Name)
	}
	return names
}
