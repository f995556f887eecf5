package runtime

import (
	"net/url"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
)

// The service sends settings to those who belong to an organisation, and the
// client keeps a copy for an hour that it believes whoever wrote it. Measured:
// allow_managed_hooks_only or features.hooks = false there puts out of effect what
// guard's arguments say. So for them a proof of yesterday says nothing of today,
// and what sends such settings has to be the service.

// codexService are the hosts of the service, with all below them.
var codexService = []string{"chatgpt.com", "openai.com"}

// checkService refuses another address of the service.
func (c codexConfig) checkService(path string) error {
	all := []string{c.Service}
	for _, p := range c.Profiles {
		all = append(all, p.Service)
	}
	for _, address := range all {
		if err := checkAddress(path, address); err != nil {
			return err
		}
	}
	return nil
}

func checkAddress(path, address string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err == nil && u.Scheme == "https" {
		for _, host := range codexService {
			if name := u.Hostname(); name == host || strings.HasSuffix(name, "."+host) {
				return nil
			}
		}
	}
	return refuse(verdict.ConfigInvalid, "reading", path, "its chatgpt_base_url "+verdict.Object(address)+" is not the service's: settings that switch the gate off could come from there, after it was proved",
		"remove chatgpt_base_url from "+shellWord(path)+", or use openai_base_url or a model provider of your own")
}

// member says whether the client's user may be sent settings: all whose log-in
// isn't known to be a key alone.
func (u *CodexUser) member() (bool, error) {
	f, err := readFile(filepath.Join(u.Home, "auth.json"), maxSettings)
	if err != nil || f.data == nil {
		return false, err
	}
	var login map[string]jsontext.Value
	if err := json.Unmarshal(f.data, &login); err != nil {
		return true, nil //nolint:nilerr // what can't be read may be a member's
	}
	for name, value := range login {
		key := name == "OPENAI_API_KEY" || name == "auth_mode" && string(value) == `"apikey"`
		if !key && value.Kind() != jsontext.KindNull {
			return true, nil
		}
	}
	return false, nil
}
