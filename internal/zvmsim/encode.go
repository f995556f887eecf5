package zvmsim

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// obj is a JSON object in the order of its fields, named in PascalCase as the
// wire has it. An absent value isn't written.
type obj []field

type field struct {
	name  string
	value any
}

// link is an object whose keys are lower case in either style.
type link obj

// enum is a number that some servers send as a name.
type enum struct {
	n     int
	names []string
}

// absent marks a field that isn't sent.
type absent struct{}

// stamp is a time, written as the server's build does.
type stamp time.Time

const stampForm = "2006-01-02T15:04:05.000Z"

// style is how a server writes its JSON.
type style struct {
	camel, names, old bool
	dates             string        // of Settings
	offset            time.Duration // of the server's local time
}

// bytes encodes a body; what is text already stays as it is.
func (st style) bytes(body any) []byte {
	switch b := body.(type) {
	case nil:
		return nil
	case []byte:
		return b
	case string:
		return []byte(b)
	}
	var out bytes.Buffer
	if err := st.write(jsontext.NewEncoder(&out), body); err != nil {
		panic("zvmsim: encoding an answer: " + err.Error()) // a fault of this package
	}
	return bytes.TrimRight(out.Bytes(), "\n")
}

func (st style) write(enc *jsontext.Encoder, v any) error {
	switch v := v.(type) {
	case obj:
		return st.object(enc, v, st.key)
	case link:
		return st.object(enc, obj(v), strings.ToLower)
	case []obj:
		return st.array(enc, v)
	case enum:
		if st.names && v.n >= 0 && v.n < len(v.names) {
			return enc.WriteToken(jsontext.String(v.names[v.n]))
		}
		return enc.WriteToken(jsontext.Int(int64(v.n)))
	case stamp:
		return enc.WriteToken(jsontext.String(st.date(time.Time(v))))
	case jsontext.Value:
		return enc.WriteValue(v)
	default:
		return json.MarshalEncode(enc, v)
	}
}

// date writes a time. The milliseconds of the old forms count in UTC, whatever
// zone stands behind them.
func (st style) date(t time.Time) string {
	switch st.dates {
	case "iso":
		return t.UTC().Format("2006-01-02T15:04:05Z")
	case "epoch":
		return fmt.Sprintf("/Date(%d)/", t.UnixMilli())
	case "epoch_zone":
		zone := time.FixedZone("", int(st.offset/time.Second))
		return fmt.Sprintf("/Date(%d%s)/", t.UnixMilli(), t.In(zone).Format("-0700"))
	default:
		return t.UTC().Format(stampForm)
	}
}

func (st style) array(enc *jsontext.Encoder, list []obj) error {
	if err := enc.WriteToken(jsontext.BeginArray); err != nil {
		return err
	}
	for _, o := range list {
		if err := st.write(enc, o); err != nil {
			return err
		}
	}
	return enc.WriteToken(jsontext.EndArray)
}

func (st style) object(enc *jsontext.Encoder, o obj, name func(string) string) error {
	if err := enc.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, f := range o {
		if _, none := f.value.(absent); none {
			continue
		}
		if err := st.member(enc, name(f.name), f.value); err != nil {
			return err
		}
		if _, isLink := f.value.(link); isLink && f.name == "Link" && st.old {
			if err := st.member(enc, "Link_{0}", f.value); err != nil {
				return err
			}
		}
	}
	return enc.WriteToken(jsontext.EndObject)
}

func (st style) member(enc *jsontext.Encoder, name string, v any) error {
	if err := enc.WriteToken(jsontext.String(name)); err != nil {
		return err
	}
	return st.write(enc, v)
}

// key spells a field's name in the server's style.
func (st style) key(name string) string {
	switch {
	case !st.camel:
		return name
	case name == "IOPs":
		return "ioPs"
	default:
		return strings.ToLower(name[:1]) + name[1:]
	}
}
