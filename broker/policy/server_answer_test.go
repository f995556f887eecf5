package policy

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzReadAnswer: an allowance has exactly the one word for it, by another reader
// too, and no other key that a folding reader could take for the result.
func FuzzReadAnswer(f *testing.F) {
	for _, s := range []string{
		`{"result":"POLICY_ACTION_ALLOW"}`, `{"result":"POLICY_ACTION_DENY","reason":"no"}`, `{"result":"POLICY_ACTION_ALLOW","data":{"name":"x"}}`,
		`{"result":"POLICY_ACTION_DENY","result":"POLICY_ACTION_ALLOW"}`, `{"Result":"POLICY_ACTION_ALLOW"}`, `[]`, `null`, ``, `{"result":"\u0050OLICY_ACTION_ALLOW","reason":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_ = refusal(body)
		a, err := readAnswer(body)
		if err != nil || a.action != allow {
			return
		}
		d := json.NewDecoder(bytes.NewReader(body))
		var m map[string]any
		if d.Decode(&m) != nil || m["result"] != "POLICY_ACTION_ALLOW" {
			t.Errorf("%q is taken for an allowance", body)
		}
	})
}
