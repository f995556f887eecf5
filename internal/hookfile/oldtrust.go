package hookfile

import (
	"bytes"
	"math"
	"regexp"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
)

// OldTrust is one record of hook-trust.json of the system that the format comes
// from. It covers no file's bytes, so that nothing is trusted by it here.
type OldTrust struct {
	Hash     string // a definition's OldHash
	Source   Source
	Identity string
	At       float64 // milliseconds since 1970
}

// Bounds of such a file beside those of its size.
const (
	maxOldTrusts = 4096
	maxIdentity  = 8192
)

var oldHash = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256:[0-9a-f]{64}$`) })

// ParseOldTrust reads a whole such file. Its error is an *Error.
func ParseOldTrust(data []byte) ([]OldTrust, error) {
	if len(data) > MaxFile {
		return nil, &Error{Problem: "exceeds 1 MiB"}
	}
	p := &oldParser{reader: reader{data: data, d: jsontext.NewDecoder(bytes.NewReader(data))}, known: map[string]bool{}}
	version, list := false, false
	err := p.object("the file", func(key string) error {
		switch key {
		case "version":
			version = true
			return p.one()
		case "trustedDefinitions":
			list = true
			return p.array(key, p.record)
		}
		return p.unknown(key)
	})
	if err == nil && (!version || !list) {
		err = p.fault("version and trustedDefinitions are needed")
	}
	if err == nil {
		err = p.end()
	}
	if err != nil {
		return nil, err
	}
	return p.found, nil
}

type oldParser struct {
	reader
	known map[string]bool
	found []OldTrust
}

func (p *oldParser) record() error {
	at := p.next()
	var r OldTrust
	fields := 0
	err := p.object("a record", func(key string) (err error) {
		fields++
		switch key {
		case "definitionHash":
			r.Hash, err = p.text(key)
		case "source":
			var word string
			word, err = p.text(key)
			r.Source = Source(word)
		case "projectIdentity":
			r.Identity, err = p.text(key)
		case "trustedAt":
			if r.At, err = p.number(); err != nil {
				err = p.fault("trustedAt must be a number")
			}
		default:
			err = p.unknown(key)
		}
		return err
	})
	if err != nil {
		return err
	}
	p.at = at
	switch {
	case fields != 4: // no key twice, and no other
		return p.fault("a record needs definitionHash, source, projectIdentity and trustedAt")
	case !oldHash().MatchString(r.Hash):
		return p.fault("definitionHash must be sha256: and 64 digits in lower case")
	case r.Source != User && r.Source != Project:
		return p.fault("source must be user or project")
	case r.Identity == "" || units(r.Identity) > maxIdentity:
		return p.fault("projectIdentity must have 1 to %d characters", maxIdentity)
	case r.At < 0 || math.IsInf(r.At, 0):
		return p.fault("trustedAt must be 0 or more")
	case p.known[r.Hash]:
		return p.fault("Duplicate definitionHash %s", verdict.Object(r.Hash))
	case len(p.found) == maxOldTrusts:
		return p.fault("there are more than %d records", maxOldTrusts)
	}
	p.known[r.Hash] = true
	p.found = append(p.found, r)
	return nil
}
