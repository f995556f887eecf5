package zerto

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/zvmsim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// simulate starts a simulator without delays and a client for it.
func simulate(t *testing.T, change func(*zvmsim.Behaviour)) (*zvmsim.Server, *Client) {
	t.Helper()
	b, err := zvmsim.Preset("fast")
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&b)
	}
	sim, err := zvmsim.Start(zvmsim.Options{Dir: t.TempDir(), Behaviour: &b})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	return sim, connect(t, configFor(sim))
}

func configFor(sim *zvmsim.Server) Config {
	info := sim.Info()
	return Config{
		URL: info.URL, CAFile: info.CAFile, ClientID: info.ClientID, Secret: info.ClientSecret,
		UID: uint32(os.Getuid()),
	}
}

func connect(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg, clock.System{})
	if err != nil {
		t.Fatal(err)
	}
	c.patience = []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond}
	t.Cleanup(c.Close)
	return c
}

// mock serves handler beside a token endpoint, for answers that no ZVM gives.
func mock(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == routeToken.prefix {
			_, _ = w.Write([]byte(`{"access_token":"t","expires_in":60}`))
			return
		}
		handler(w, r)
	}))
	t.Cleanup(srv.Close)
	pin := sha256.Sum256(srv.Certificate().RawSubjectPublicKeyInfo)
	return connect(t, Config{
		URL: srv.URL, SPKISHA256: base64.StdEncoding.EncodeToString(pin[:]), ClientID: "guard", Secret: "s",
	})
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
