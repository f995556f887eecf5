package runtime

import (
	"strings"
	"testing"

	"leaseguard.internal/internal/verdict"
)

// TestCodexService: settings for members of an organisation come from the service
// alone, since they can put the gate's hooks out of effect.
func TestCodexService(t *testing.T) {
	for config, refused := range map[string]bool{
		"":                      false,
		`chatgpt_base_url = ""`: false,
		`chatgpt_base_url = "https://chatgpt.com/backend-api/"`:    false,
		`chatgpt_base_url = "https://gov.chatgpt.com/backend-api"`: false,
		`chatgpt_base_url = "http://chatgpt.com/backend-api"`:      true,
		`chatgpt_base_url = "https://chatgpt.com.example/x"`:       true,
		`chatgpt_base_url = "https://notchatgpt.com/"`:             true,
		`chatgpt_base_url = "https://chatgpt.com@127.0.0.1/"`:      true,
		`chatgpt_base_url = "http://127.0.0.1:1"`:                  true,
		`chatgpt_base_url = "https://%zz"`:                         true,
		"[profiles.x]\nchatgpt_base_url = \"http://127.0.0.1:1\"":  true,
	} {
		for _, file := range []string{"config.toml", "work.config.toml"} {
			env, _ := codexHome(t, map[string]string{file: config})
			_, err := LoadCodex(env, []string{"work"}, nil)
			if (err != nil) != refused || refused && (!strings.Contains(err.Error(), string(verdict.ConfigInvalid)) || !strings.Contains(err.Error(), file)) {
				t.Errorf("%s: %s: %v", file, config, err)
			}
		}
	}
}

// TestCodexMember: whoever isn't known to have a key alone may be sent settings.
func TestCodexMember(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"no log-in":          {nil, false},
		"a key":              {map[string]string{"auth.json": `{"auth_mode":"apikey","OPENAI_API_KEY":"k","tokens":null,"last_refresh":null}`}, false},
		"an older key":       {map[string]string{"auth.json": `{"OPENAI_API_KEY":"k"}`}, false},
		"tokens":             {map[string]string{"auth.json": `{"OPENAI_API_KEY":null,"tokens":{"id_token":"x"}}`}, true},
		"a mode":             {map[string]string{"auth.json": `{"auth_mode":"chatgpt"}`}, true},
		"what nobody knows":  {map[string]string{"auth.json": `{"OPENAI_API_KEY":"k","agent":{}}`}, true},
		"no JSON":            {map[string]string{"auth.json": `{`}, true},
		"in a file":          {map[string]string{"config.toml": `cli_auth_credentials_store = "file"`}, false},
		"in the keyring":     {map[string]string{"config.toml": `cli_auth_credentials_store = "keyring"`}, true},
		"keyring by profile": {map[string]string{"work.config.toml": `cli_auth_credentials_store = "auto"`}, true},
	} {
		env, _ := codexHome(t, c.files)
		u, err := LoadCodex(env, []string{"work"}, nil)
		if err != nil || u.Member != c.want {
			t.Errorf("%s: %v, %v; want %v", name, u.Member, err, c.want)
		}
	}
}
