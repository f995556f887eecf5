package zvmsim

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

// tokenForm makes a token request of "key=value" pairs; SECRET and PASSWORD stand
// for what the simulator made up.
func tokenForm(m *sim, pairs string) url.Values {
	pairs = strings.NewReplacer("SECRET", m.Info().ClientSecret, "PASSWORD", m.Info().Password).Replace(pairs)
	v, err := url.ParseQuery(pairs)
	if err != nil {
		m.t.Fatal(err)
	}
	return v
}

func TestTokenEndpoint(t *testing.T) {
	m := begin(t, nil)
	for _, c := range []struct{ name, form, want string }{
		{"client credentials", "grant_type=client_credentials&client_id=guard&client_secret=SECRET&scope=openid", "200 access_token"},
		{"password with the public client", "grant_type=password&client_id=zerto-client&username=guard-user&password=PASSWORD&scope=openid", "200 refresh_token"},
		{"password with the confidential client", "grant_type=password&client_id=guard&client_secret=SECRET&username=guard-user&password=PASSWORD", "200 refresh_token"},
		{"a lifetime that is asked for is ignored", "grant_type=client_credentials&client_id=guard&client_secret=SECRET&expires_in=3600", `200 "expires_in":60`},
		{"wrong secret", "grant_type=client_credentials&client_id=guard&client_secret=x", "401 unauthorized_client"},
		{"no secret", "grant_type=password&client_id=guard&username=guard-user&password=PASSWORD", "401 unauthorized_client"},
		{"wrong client", "grant_type=client_credentials&client_id=other&client_secret=SECRET", "401 unauthorized_client"},
		{"the public client has no account", "grant_type=client_credentials&client_id=zerto-client", "401 unauthorized_client"},
		{"wrong password", "grant_type=password&client_id=zerto-client&username=guard-user&password=x", "401 invalid_grant"},
		{"wrong user", "grant_type=password&client_id=zerto-client&username=x&password=PASSWORD", "401 invalid_grant"},
		{"no grant", "client_id=guard&client_secret=SECRET", "400 invalid_request"},
		{"unknown grant", "grant_type=implicit&client_id=guard&client_secret=SECRET", "400 unsupported_grant_type"},
		{"unknown refresh token", "grant_type=refresh_token&client_id=zerto-client&refresh_token=x", "400 invalid_grant"},
	} {
		t.Run(c.name, func(t *testing.T) { m.want(t, m.form(tokenForm(m, c.form)), c.want) })
	}
	t.Run("parameters in the query don't count", func(t *testing.T) {
		form := tokenForm(m, "grant_type=client_credentials&client_id=guard&client_secret=SECRET")
		a, err := m.do("POST", tokenPath+"?"+form.Encode(), "application/x-www-form-urlencoded", "")
		if err != nil {
			t.Fatal(err)
		}
		m.want(t, a, "401 unauthorized_client")
	})
	t.Run("a JSON body doesn't count", func(t *testing.T) {
		m.want(t, m.post(tokenPath, `{"grant_type":"client_credentials"}`), "400 invalid_request")
	})
	t.Run("GET", func(t *testing.T) { m.want(t, m.get(tokenPath), "405 ") })
	t.Run("the path is case-sensitive", func(t *testing.T) {
		m.want(t, m.post(strings.ToUpper(tokenPath), ""), "404 ")
	})
}

// want compares a status and a part of the text, "200 part".
func (m *sim) want(t *testing.T, a answer, want string) {
	t.Helper()
	code, part, _ := strings.Cut(want, " ")
	if got := a.codeText(); got != code || !strings.Contains(a.text, part) {
		t.Errorf("got %s %.300s, want %s", got, a.text, want)
	}
}

func TestTokensExpire(t *testing.T) {
	m := begin(t, nil)
	m.want(t, m.get("/v1/localsite"), "200 ")
	m.clk.Advance(59 * time.Second)
	m.want(t, m.get("/v1/localsite"), "200 ")
	m.clk.Advance(time.Second)
	m.want(t, m.get("/v1/localsite"), "401 ")
	m.login()
	m.want(t, m.get("/v1/localsite"), "200 ")
	m.ExpireTokens()
	m.want(t, m.get("/v1/localsite"), "401 ")
}

func TestScopeAndRefresh(t *testing.T) {
	m := begin(t, nil)
	var got struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	m.form(tokenForm(m, "grant_type=password&client_id=zerto-client&username=guard-user&password=PASSWORD")).decode(t, &got)
	m.token = got.Access
	m.want(t, m.get("/v1/localsite"), "401 ")
	set := m.Behaviour().Settings
	set.AnyScope = true
	if err := m.SetSettings(set); err != nil {
		t.Fatal(err)
	}
	m.want(t, m.get("/v1/localsite"), "200 ")
	m.token = got.Refresh
	m.want(t, m.get("/v1/localsite"), "401 ")
	m.want(t, m.form(tokenForm(m, "grant_type=refresh_token&client_id=zerto-client&refresh_token="+got.Refresh)), "200 access_token")
}

func TestNothingSecretIsRecorded(t *testing.T) {
	var log strings.Builder
	m := begin(t, func(o *Options) { o.Log = &log })
	m.get("/v1/vms")
	a, err := m.do("GET", "/_sim/requests", "", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{m.token, m.Info().ClientSecret, m.Info().Password} {
		if strings.Contains(a.text, secret) || strings.Contains(log.String(), secret) {
			t.Error("a secret is in the record or in the log")
		}
	}
	if !strings.Contains(log.String(), `vms "GET /v1/vms" 200`) || !strings.Contains(a.text, `"Authorization"`) {
		t.Errorf("log %q, record %s", log.String(), a.text)
	}
}
