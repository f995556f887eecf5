package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// TestSecretsArePrintedNowhere: a request with a passphrase shows it in JSON and
// in no other form.
func TestSecretsArePrintedNowhere(t *testing.T) {
	ctl := Control{Verb: VerbPassphrase, Passphrase: "old words here", NewPassphrase: "new words here"}
	text := fmt.Sprint(ctl, &ctl, ctl.Passphrase) + fmt.Sprintf("%v %+v %#v %s %q %x %X", ctl, ctl, ctl, ctl.Passphrase, ctl.Passphrase, ctl.Passphrase, []Secret{ctl.NewPassphrase})
	for _, secret := range []string{"words", fmt.Sprintf("%x", "words"), fmt.Sprintf("%X", "words")} {
		if strings.Contains(text, secret) {
			t.Errorf("printed: %s", text)
		}
	}
	out, err := json.Marshal(ctl)
	if want := `{"verb":"passphrase","passphrase":"old words here","new_passphrase":"new words here"}`; err != nil || string(out) != want {
		t.Errorf("JSON is %s, %v; want %s", out, err, want)
	}
	if out, err := json.Marshal(Control{Verb: VerbStop}); err != nil || string(out) != `{"verb":"stop"}` {
		t.Errorf("JSON without secrets is %s, %v", out, err)
	}
}
