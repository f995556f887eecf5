package policy

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/policysim"
	"leaseguard.internal/internal/testproc"
)

// TestServerIsVerified: only a server that the roots speak for is asked, whatever
// the environment says of roots and proxies; and where a redirect leads nobody goes.
func TestServerIsVerified(t *testing.T) {
	sim := &policysim.Server{}
	server := httptest.NewUnstartedServer(sim)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are meant to fail
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	path := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", path)
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:9")
	ask := func(url string, roots *x509.CertPool) Opinion {
		t.Helper()
		e, err := NewEvaluator(config.PolicyServer{URL: url + policysim.Path, ConnectTimeout: time.Second, Budget: 3 * time.Second}, 0, clock.System{}, roots)
		if err != nil && roots == nil {
			testproc.Lacks(t, "needs the machine's own roots: "+err.Error())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if e.http.Transport.(*http.Transport).Proxy != nil { // to this host no proxy would be asked anyway
			t.Error("proxies are asked")
		}
		return e.Judge(context.Background(), bash)
	}
	if o := ask(server.URL, roots); o.Denied {
		t.Errorf("%+v", o)
	}
	for name, roots := range map[string]*x509.CertPool{"none": x509.NewCertPool(), "the machine's": nil} {
		before := len(sim.Seen())
		if o := ask(server.URL, roots); !o.Denied || !strings.Contains(o.Cause, "certificate is not trusted") {
			t.Errorf("%s: %+v", name, o)
		}
		if len(sim.Seen()) != before {
			t.Errorf("%s: a server that isn't trusted was asked", name)
		}
	}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer other.Close()
	sim.Fail(policysim.With(http.StatusTemporaryRedirect, "", "Location", other.URL))
	if o := ask(server.URL, roots); !o.Denied || !strings.Contains(o.Cause, "isn't followed") {
		t.Errorf("%+v", o)
	}
}
