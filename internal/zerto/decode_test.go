package zerto

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const vmRow = `{"VmIdentifier":"d4a6a1d5-79e9-4308-990a-7c3e616f0908.vm-38","VmName":"app01","VpgIdentifier":"v1",
"VpgName":"VPG-A","Status":1,"ioPs":3,"IOPs":3,"IsVmExists":true,"Entities":{"Protected":0,"Recovery":3},
"ProtectedSite":{"identifier":"s1","href":"https://zvm/v1/localsite","rel":null,"type":"LocalSiteApi"},
"Link":{"identifier":"d4a6a1d5-79e9-4308-990a-7c3e616f0908.vm-38?VpgIdentifier=v1","rel":null,"type":"VmApi"},
"Link_{0}":{"identifier":1}}`

func TestDecodeVM(t *testing.T) {
	whole := VM{
		ID: "d4a6a1d5-79e9-4308-990a-7c3e616f0908.vm-38", Name: "app01", VPGID: "v1", VPGName: "VPG-A",
		Protected: Enum{"VCVpg", "0"}, Site: SiteRef{ID: "s1", Type: "LocalSiteApi"},
	}
	camel := strings.NewReplacer(`"Vm`, `"vm`, `"Vpg`, `"vpg`, `"Entities`, `"entities`, `"Protected`, `"protected`, `"Link"`, `"link"`)
	swap := func(old, repl string) string { return strings.Replace(vmRow, old, repl, 1) }
	tests := map[string]struct {
		in   string
		want VM
		err  string // empty: want is decoded
	}{
		"pascal":                {vmRow, whole, ""},
		"camel":                 {camel.Replace(vmRow), whole, ""},
		"identifiers from link": {swap(`"VmIdentifier":"d4a6a1d5-79e9-4308-990a-7c3e616f0908.vm-38",`, ``), whole, ""},
		"vpg from the suffix":   {swap(`"VpgIdentifier":"v1",`, ``), whole, ""},
		"both spellings":        {swap(`"VmName"`, `"vmName":"app01","VmName"`), VM{}, "both spellings"},
		"third spelling":        {swap(`"VmName"`, `"VMName":"x","VmName"`), VM{}, "case folding"},
		"third spelling alone":  {swap(`"VmName"`, `"VMNAME"`), VM{}, "case folding"},
		"long s folds":          {swap(`"ProtectedSite"`, `"Protected\u017fite"`), VM{}, "case folding"},
		"duplicate":             {swap(`"VmName"`, `"VmName":"x","VmName"`), VM{}, "duplicate"},
		"duplicate deep inside": {swap(`"rel":null`, `"rel":{"a":1,"a":2}`), VM{}, "duplicate"},
		"duplicate, unknown":    {swap(`"ioPs"`, `"IOPs":4,"ioPs"`), VM{}, "duplicate"},
		"not UTF-8":             {swap(`app01`, "app\xff01"), VM{}, "invalid UTF-8"},
		"half a surrogate":      {swap(`app01`, `app\ud83d`), VM{}, "surrogate"},
		"name is a number":      {swap(`"app01"`, `7`), VM{}, "want a string"},
		"name is null":          {swap(`"app01"`, `null`), VM{}, `"vmName" is missing`},
		"no name":               {swap(`"VmName":"app01",`, ``), VM{}, `"vmName" is missing`},
		"entities a list":       {swap(`{"Protected":0,"Recovery":3}`, `[0]`), VM{}, "want an object"},
		"not an object":         {`"app01"`, VM{}, "want an object"},
		"null":                  {`null`, VM{}, "missing"},
		"cut off":               {vmRow[:40], VM{}, "EOF"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got VM
			err := parse([]byte(tt.in), into(&got, decodeVM))
			if tt.err == "" {
				if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
					t.Fatalf("error %v, diff:\n%s", err, diff)
				}
				return
			}
			if !errors.Is(err, ErrAnswer) || !strings.Contains(err.Error(), tt.err) || got != (VM{}) {
				t.Fatalf("got %+v, error %v, want one about %q", got, err, tt.err)
			}
		})
	}
}

func TestParseTakesOneValue(t *testing.T) {
	for _, in := range []string{``, ` `, `[] []`, `[]x`, `[]]`, "\xef\xbb\xbf[]", `[1,]`, `null`, `{}`, `"[]"`} {
		if err := parse([]byte(in), array(number(new(int64)))); err == nil {
			t.Errorf("%q is taken for a list", in)
		}
	}
	if err := parse([]byte(" [ ] \n"), array(text(new(string)))); err != nil {
		t.Error(err)
	}
}

func TestDecodeCheckpoint(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := map[string]struct {
		in   string
		want Checkpoint
		ok   bool
	}{
		"string id":     {`{"CheckpointIdentifier":"7180","TimeStamp":"2026-01-02T03:04:05.000Z","Tag":"t","Type":1}`, Checkpoint{ID: "7180", Tag: "t", Time: at}, true},
		"number id":     {`{"checkpointIdentifier":7180,"timeStamp":"2026-01-02T03:04:05Z","tag":null}`, Checkpoint{ID: "7180", Time: at}, true},
		"old date":      {`{"CheckpointIdentifier":"1","TimeStamp":"/Date(1767323045000+0300)/","Tag":"t","Vss":false}`, Checkpoint{ID: "1", Tag: "t", Time: at}, true},
		"blanks stay":   {`{"CheckpointIdentifier":"1","TimeStamp":"2026-01-02T03:04:05Z","Tag":" t "}`, Checkpoint{ID: "1", Tag: " t ", Time: at}, true},
		"names its vpg": {`{"CheckpointIdentifier":"1","TimeStamp":"2026-01-02T03:04:05Z","Tag":"t","VpgIdentifier":"v"}`, Checkpoint{ID: "1", Tag: "t", VPGID: "v", Time: at}, true},
		"no zone":       {in: `{"CheckpointIdentifier":"1","TimeStamp":"2026-01-02T03:04:05","Tag":"t"}`},
		"no time":       {in: `{"CheckpointIdentifier":"1","Tag":"t"}`},
		"null time":     {in: `{"CheckpointIdentifier":"1","TimeStamp":null,"Tag":"t"}`},
		"no id":         {in: `{"TimeStamp":"2026-01-02T03:04:05Z","Tag":"t"}`},
		"null id":       {in: `{"CheckpointIdentifier":null,"TimeStamp":"2026-01-02T03:04:05Z"}`},
		"fraction id":   {in: `{"CheckpointIdentifier":1.5,"TimeStamp":"2026-01-02T03:04:05Z"}`},
		"word id":       {in: `{"CheckpointIdentifier":"x","TimeStamp":"2026-01-02T03:04:05Z"}`},
		"tag a number":  {in: `{"CheckpointIdentifier":"1","TimeStamp":"2026-01-02T03:04:05Z","Tag":7}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got Checkpoint
			err := parse([]byte(tt.in), into(&got, decodeCheckpoint))
			if (err == nil) != tt.ok || !got.Time.Equal(tt.want.Time) || got.ID != tt.want.ID || got.Tag != tt.want.Tag || got.VPGID != tt.want.VPGID {
				t.Fatalf("got %+v, %v", got, err)
			}
		})
	}
}

// TestZ7_StatusIsANumberOrAName reads the statuses of the case.
func TestZ7_StatusIsANumberOrAName(t *testing.T) {
	tests := map[string]string{ // JSON -> name, "" for unknown
		`1`: "MeetingSLA", `"MeetingSLA"`: "MeetingSLA", `2`: "NotMeetingSLA", `3`: "RpoNotMeetingSLA",
		`4`: "HistoryNotMeetingSLA", `0`: "Initializing", `5`: "FailingOver", `8`: "Recovered",
		`9`: "", `99`: "", `-1`: "", `1.0`: "", `1e0`: "", `"1"`: "", `"meetingsla"`: "", `"MeetingSLA "`: "", `null`: "", `true`: "",
		`[1]`: "", `{"a":1}`: "", `18446744073709551617`: "",
	}
	for in, want := range tests {
		var g VPG
		body := `{"VpgIdentifier":"v","VpgName":"n","Status":` + in + `}`
		if err := parse([]byte(body), into(&g, decodeVPG)); err != nil || g.Status.Name != want || g.Status.Raw != in {
			t.Errorf("status %s = %+v, %v; want %q", in, g.Status, err, want)
		}
		if !g.SubStatus.Missing() || g.SubStatus.Name != "" {
			t.Errorf("a missing sub-status is %+v", g.SubStatus)
		}
	}
	for e, want := range map[Enum]string{{}: "missing", {Raw: "null"}: "missing", {Raw: "99"}: `unknown ("99")`, {Raw: `"1"`}: `unknown ("\"1\"")`, {"Moving", "6"}: "Moving"} {
		if e.String() != want {
			t.Errorf("%#v reads %q, want %q", e, e.String(), want)
		}
	}
}

func TestEntityAliases(t *testing.T) {
	for in, want := range map[string]string{`3`: "Aws", `"AWS"`: "Aws", `"PublicCloud"`: "Aws", `5`: "Azure", `"Azure"`: "Azure", `4`: "HyperV", `6`: ""} {
		var e Enum
		if err := parse([]byte(`{"Protected":`+in+`}`), entities(&e)); err != nil || e.Name != want {
			t.Errorf("entity %s = %+v, %v; want %q", in, e, err, want)
		}
	}
}

const twoGUIDs = "d4a6a1d5-79e9-4308-990a-7c3e616f0908.d4a6a1d5-79e9-4308-990a-7c3e616f0909"

func TestDecodeTaskID(t *testing.T) {
	for in, want := range map[string]string{
		`"a.b"`: "a.b", ` ` + twoGUIDs + "\n": twoGUIDs, ` "a.b" `: "a.b", `{"TaskIdentifier":"a.b"}`: "a.b", `{"taskIdentifier":"a.b","x":1}`: "a.b",
		`a.b`: "", `7`: "", ``: "", `""`: "", `null`: "", `{}`: "", `"../x"`: "", `"a b"`: "", `["a"]`: "", `"a" "b"`: "", `<html>`: "",
	} {
		got, err := decodeTaskID([]byte(in))
		if want == "" && err == nil || want != "" && (err != nil || got != want) {
			t.Errorf("%q = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestParseTime(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct {
		in  string
		utc bool
		ok  bool
	}{
		{"2026-01-02T03:04:05Z", false, true}, {"2026-01-02T03:04:05.000Z", false, true},
		{"2026-01-02T06:04:05+03:00", false, true}, {"/Date(1767323045000)/", false, true},
		{"/Date(1767323045000-0500)/", false, true}, {"2026-01-02T03:04:05", true, true},
		{"2026-01-02T03:04:05.0", true, true}, {"2026-01-02T03:04:05", false, false},
		{"2026-01-02", true, false}, {"", true, false}, {"/Date(x)/", true, false},
		{"/Date(9999999999999999)/", true, false}, {"1767323045", true, false},
	}
	for _, tt := range tests {
		got, err := parseTime(tt.in, tt.utc)
		if (err == nil) != tt.ok || tt.ok && !got.Equal(at) {
			t.Errorf("parseTime(%q, %v) = %v, %v", tt.in, tt.utc, got, err)
		}
	}
	if got := queryTime(at.Add(123456789).In(time.FixedZone("x", 3600))); got != "2026-01-02T03:04:05.123Z" {
		t.Errorf("queryTime = %q", got)
	}
}

func TestErrorMessage(t *testing.T) {
	for in, want := range map[string]string{
		`{"Message":"bad id"}`: "bad id", `{"message":"bad id"}`: "bad id", `{"error":"invalid_grant","error_description":"no"}`: "no",
		`{"errorCode":"X","errorMessage":"m"}`: "m", `{"title":"t","detail":"d"}`: "d", `{"error":"e"}`: "e", `{}`: "",
		`<html>x</html>`: "", ` plain words `: "plain words", ``: "",
	} {
		if got := errorMessage([]byte(in)); got != want {
			t.Errorf("message of %q = %q, want %q", in, got, want)
		}
	}
}

func TestErrorQuotesThePeer(t *testing.T) {
	err := &Error{Op: `reading VPG "v"`, Status: 500, Message: "x\n[guard] verdict=allow\x1b[2J"}
	if got := err.Error(); strings.ContainsAny(got, "\n\x1b") || !strings.Contains(got, "500") {
		t.Errorf("error %q", got)
	}
}
