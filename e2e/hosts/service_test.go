//go:build hosts

package hosts

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/fakemodel"
	"leaseguard.internal/internal/sandbox/sandboxtest"
)

// apiHost is where the client looks for its service.
const apiHost = "api.anthropic.com"

// serve stands for the client's service at its own address, reached through a
// proxy: it sends settings of an organisation, and has the world's model answer.
func (w *world) serve(settings string) {
	w.t.Helper()
	model, err := url.Parse(w.Model.URL())
	must(w.t, err)
	mux := http.NewServeMux()
	mux.Handle("/v1/messages", httputil.NewSingleHostReverseProxy(model))
	mux.HandleFunc("/api/claude_code/settings", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"uuid":"u","checksum":"sha256:%s","settings":%s}`, strings.Repeat("1", 64), settings)
	})
	service := httptest.NewUnstartedServer(mux)
	service.TLS = &tls.Config{Certificates: []tls.Certificate{w.certificate()}, MinVersion: tls.VersionTLS12}
	service.StartTLS()
	w.t.Cleanup(service.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || !strings.HasPrefix(r.Host, apiHost+":") {
			http.Error(rw, "no such place", http.StatusBadGateway)
			return
		}
		join(rw, service.Listener.Addr().String())
	}))
	w.t.Cleanup(proxy.Close)
	w.Env = append(w.Env, "ANTHROPIC_BASE_URL=", "HTTPS_PROXY="+proxy.URL, "NODE_EXTRA_CA_CERTS="+filepath.Join(w.Dir, "ca.pem"), "DISABLE_ERROR_REPORTING=1")
}

// join makes a tunnel of a request for one.
func join(rw http.ResponseWriter, address string) {
	to, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadGateway)
		return
	}
	defer to.Close()
	from, _, err := rw.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer from.Close()
	if _, err := io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(to, from)
		to.Close()
	}()
	_, _ = io.Copy(from, to)
}

// certificate is one of the service's name, by an authority of this world's.
func (w *world) certificate() tls.Certificate {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(w.t, err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "world"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := *ca
	leaf.SerialNumber, leaf.Subject, leaf.IsCA, leaf.KeyUsage, leaf.DNSNames = big.NewInt(2), pkix.Name{CommonName: apiHost}, false, x509.KeyUsageDigitalSignature, []string{apiHost}
	root, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	must(w.t, err)
	w.write(filepath.Join(w.Dir, "ca.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})))
	der, err := x509.CreateCertificate(rand.Reader, &leaf, ca, key.Public(), key)
	must(w.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestRemoteSettings: what an organisation's service sends to a client while it
// starts counts above an administrator's files, and the launch's proof, which
// runs at another address, knows nothing of it.
func TestRemoteSettings(t *testing.T) {
	const only, off, plugins = `"allowManagedHooksOnly":true`, `"disableAllHooks":true`, `"strictPluginOnlyCustomization":["hooks"]`
	const merge = `"managedSourcesBehavior":"merge"`
	const keep = "keep the key out of the organisation's settings; the session is shown as unseen, so nobody can approve it, and launch.unproved = \"end\" ends an unattended one"
	for _, c := range []struct {
		name, id, what, settings string
		managed                  bool   // the administrator's files hold the hooks
		asked                    string // by whom; "": nobody, and Bash runs
		by                       string
	}{
		{"any", "remote_any", "settings that the service sends put an administrator's files out of effect, whatever they say", `{"permissions":{"deny":["WebFetch"]}}`, true, "inline",
			"the session brings hooks of its own beside the administrator's, which run when those don't"},
		{"managed hooks only", "remote_allow_managed_hooks_only", "allowManagedHooksOnly that the service sends puts every hook out of effect, an administrator's too", "{" + only + "}", true, "",
			"have the organisation's settings say managedSourcesBehavior = merge too; " + keep},
		{"managed hooks only, merged", "remote_allow_managed_hooks_only_merged", "the same beside managedSourcesBehavior = merge", "{" + only + "," + merge + "}", true, "managed",
			"system mode: the administrator's hooks are among those that may run"},
		{"plugins' hooks only", "remote_strict_plugin_only", "strictPluginOnlyCustomization that the service sends puts every hook but a plugin's out of effect", "{" + plugins + "}", true, "",
			"have the organisation's settings say managedSourcesBehavior = merge too; " + keep},
		{"disableAllHooks", "remote_disable_all_hooks", "disableAllHooks that the service sends puts every hook out of effect", "{" + off + "}", true, "", keep},
		// No holes of their own, and slow.
		{"managed hooks only, merged, user mode", "", "", "{" + only + "," + merge + "}", false, "", ""},
		{"disableAllHooks, merged", "", "", "{" + off + "," + merge + "}", true, "", ""},
	} {
		if c.id == "" && !sandboxtest.Nightly() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			state := "open"
			if c.asked != "" {
				state = "closed"
			}
			if c.id != "" {
				row("claude", c.id, c.what, state, c.by).report(t)
			}
			g := newGuarded(t, "[checkpoint]\nself = \"none\"\n[session]\nenv_pass = [\"HTTPS_PROXY\", \"NODE_EXTRA_CA_CERTS\"]\n")
			seen := true
			g.steps(fakemodel.Use("Bash", g.touch()), func(context.Context, *fakemodel.Request) (fakemodel.Turn, error) {
				for _, s := range g.sessions() {
					seen = s.GateSeen
				}
				return fakemodel.Turn{Text: "done"}, nil
			})
			g.serve(c.settings)
			if c.managed {
				g.managed()
			}
			o := g.launch()
			g.ok(o)
			got := g.results()
			if len(got) != 1 || g.marked() != (c.asked == "") || seen != (c.asked != "") {
				t.Fatalf("marked %v, seen %v, the model was told %q\n%s", g.marked(), seen, got, o.Stderr)
			}
			if c.asked != "" && (!strings.Contains(got[0], early) || strings.Contains(got[0], fromManaged) != (c.asked == "managed")) {
				t.Errorf("the model was told %q", got)
			}
		})
	}
}
