package hookfile

import (
	"fmt"
	"strings"
	"testing"
)

func oldRecord(n int, change ...string) string {
	text := fmt.Sprintf(`{"definitionHash":"sha256:%064x","source":"project","projectIdentity":"workspace:/srv/app","trustedAt":1700000000000.5}`, n)
	for i := 0; i < len(change); i += 2 {
		text = strings.Replace(text, change[i], change[i+1], 1)
	}
	return text
}

func oldFile(records ...string) string {
	return `{"version":1,"trustedDefinitions":[` + strings.Join(records, ",") + `]}`
}

func TestM12_OldTrustFile(t *testing.T) {
	many := make([]string, maxOldTrusts+1)
	for i := range many {
		many[i] = oldRecord(i)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"none", oldFile(), ""},
		{"two", oldFile(oldRecord(1), oldRecord(2, "project\"", "user\"", "workspace:/srv/app", "user")), ""},
		{"equal hashes", oldFile(oldRecord(1), oldRecord(1)), "Duplicate"},
		{"capitals", oldFile(oldRecord(10, "a\",\"source", "A\",\"source")), "lower case"},
		{"no prefix", oldFile(oldRecord(1, "sha256:", "")), "lower case"},
		{"another source", oldFile(oldRecord(1, "project\"", "managed\"")), "source must be"},
		{"no identity", oldFile(oldRecord(1, "workspace:/srv/app", "")), "projectIdentity must have"},
		{"long identity", oldFile(oldRecord(1, "workspace:/srv/app", strings.Repeat("a", 8193))), "projectIdentity must have"},
		{"before 1970", oldFile(oldRecord(1, "17000", "-17000")), "0 or more"},
		{"time is text", oldFile(oldRecord(1, "1700000000000.5", `"1"`)), "trustedAt must be a number"},
		{"time beyond numbers", oldFile(oldRecord(1, "1700000000000.5", `1e999`)), "trustedAt must be a number"},
		{"a field less", oldFile(oldRecord(1, `,"trustedAt":1700000000000.5`, "")), "a record needs"},
		{"a field more", oldFile(oldRecord(1, `"source"`, `"id":"x","source"`)), "unknown field"},
		{"another version", strings.Replace(oldFile(), "1", "2", 1), "version must be 1"},
		{"no list", `{"version":1}`, "are needed"},
		{"no version", `{"trustedDefinitions":[]}`, "are needed"},
		{"cut off", `{"version":1,"trustedDefinitions":[{`, "too early"},
		{"behind it", oldFile() + "x", "text after"},
		{"a thousand", oldFile(many[:1000]...), ""},
		{"over 1 MiB", oldFile(many...) + strings.Repeat(" ", MaxFile), "exceeds 1 MiB"},
	} {
		got, err := ParseOldTrust([]byte(tt.text))
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || got != nil):
			t.Errorf("%s: %d records, %v; want %q", tt.name, len(got), err, tt.want)
		}
	}
	got, err := ParseOldTrust([]byte(oldFile(oldRecord(7))))
	if err != nil || len(got) != 1 || got[0].Source != Project || got[0].Identity != ProjectIdentity("/srv/app") || got[0].At != 1700000000000.5 {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzParseOldTrust(f *testing.F) {
	f.Add([]byte(oldFile(oldRecord(1), oldRecord(2))))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ParseOldTrust(data)
		for _, r := range got {
			if err != nil || !oldHash().MatchString(r.Hash) || r.Identity == "" || r.At < 0 {
				t.Fatalf("%+v, %v", r, err)
			}
		}
	})
}
