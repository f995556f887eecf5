package zerto

import (
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzAnswers holds of every decoder that it takes only what a strict reader
// takes, and that what it takes is whole.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{
		vmRow, "[" + vmRow + "]", `[]`, `null`, `{}`, `"a.b"`, `{"TaskIdentifier":"a.b"}`,
		`{"VpgIdentifier":"v","VpgName":"n","Status":1,"SubStatus":"None","Link":{"identifier":"v"}}`,
		`[{"CheckpointIdentifier":"7","TimeStamp":"2026-01-02T03:04:05.000Z","Tag":null}]`,
		`{"Status":{"State":6,"Progress":100},"CompleteReason":""}`, `{"SiteType":"VCenter","SiteName":"HQ"}`,
		`{"access_token":"a","expires_in":60,"token_type":"Bearer"}`, `{"Message":"x"}`, `{"vmName":"a","VmName":"b"}`,
		`"2026-01-02T03:04:05Z"`, "{\"vmName\":\"\xff\"}", `{"\u017fiteType":"x"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		strict := jsontext.Value(data).IsValid() && utf8.Valid(data)
		hold := func(what string, err error, whole bool) {
			if err == nil && (!strict || !whole) {
				t.Errorf("%s is decoded from %q", what, data)
			}
		}
		vms, err := decodeAll(data, list(decodeVM))
		ok := true
		for _, vm := range vms {
			ok = ok && vm.ID != "" && vm.Name != "" && vm.VPGID != "" && vm.VPGName != ""
		}
		hold("a list of machines", err, ok)
		g, err := decodeAll(data, decodeVPG)
		hold("a VPG", err, g.ID != "" && g.Name != "")
		cps, err := decodeAll(data, list(decodeCheckpoint))
		ok = true
		for _, cp := range cps {
			ok = ok && cp.ID != "" && !cp.Time.IsZero()
		}
		hold("a list of checkpoints", err, ok)
		_, err = decodeAll(data, decodeTask)
		hold("a task", err, true)
		_, err = decodeAll(data, decodeSite)
		hold("a site", err, true)
		value, life, err := decodeToken(data)
		hold("a token", err, value != "" && life > 0 && life <= maxLife)
		if id, err := decodeTaskID(data); err == nil && !safeID().MatchString(id) {
			t.Errorf("task identifier %q", id)
		}
		if m := errorMessage(data); len(m) > 300 {
			t.Errorf("message of %d bytes", len(m))
		}
	})
}

func decodeAll[T any](data []byte, decode func(jsontext.Value) (T, error)) (v T, err error) {
	err = parse(data, into(&v, decode))
	return v, err
}

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2026-01-02T03:04:05.000Z", "2026-01-02T03:04:05", "/Date(1767323045000+0300)/", "/Date(-1)/", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseTime(s, false)
		if err != nil {
			return
		}
		if got.Location() != time.UTC {
			t.Errorf("%q isn't read as UTC", s)
		}
		if loose, err := parseTime(s, true); err != nil || !loose.Equal(got) {
			t.Errorf("%q is %v and %v", s, got, loose)
		}
	})
}
