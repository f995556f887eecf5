package zvmsim

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFilesAndPin(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(dir, FileSecret)); err != nil {
		t.Fatal(err)
	}
	m := begin(t, func(o *Options) { o.Dir = dir })
	for name, want := range map[string]struct {
		mode os.FileMode
		text string
	}{
		FileCA: {0o644, "-----BEGIN CERTIFICATE-----"}, FileSecret: {0o600, m.Info().ClientSecret},
		FilePassword: {0o600, m.Info().Password},
	} {
		st, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || st.Mode() != want.mode {
			t.Errorf("%s: %v, %v", name, st, err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.HasPrefix(string(text), want.text) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if text, err := os.ReadFile(victim); err != nil || len(text) != 0 {
		t.Errorf("the link was followed: %q, %v", text, err)
	}
	data, err := os.ReadFile(m.Info().CAFile)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	if m.SPKI() != base64.StdEncoding.EncodeToString(sum[:]) {
		t.Error("the pin isn't the certificate's")
	}
	if _, err := http.Get(m.Info().URL + "/v1/vms"); err == nil { //nolint:bodyclose,noctx // there is no body
		t.Error("a client without the CA file connects")
	}
}

func TestStartRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"no directory":       {},
		"a file for it":      {Dir: file},
		"a bad address":      {Dir: t.TempDir(), Listen: "127.0.0.1:x"},
		"a bad estate":       {Dir: t.TempDir(), Estate: &Estate{VMs: []VM{{Name: "x"}}}},
		"a bad behaviour":    {Dir: t.TempDir(), Behaviour: &Behaviour{}},
		"faults of no VPG":   {Dir: t.TempDir(), Behaviour: &Behaviour{Settings: Settings{TokenLife: Span(1e9)}, Faults: map[string]Faults{"x": {}}}},
		"a latency too long": {Dir: t.TempDir(), Behaviour: &Behaviour{Settings: Settings{TokenLife: Span(1e9)}, Latency: Latency{OpVMs: Fixed(1e15)}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Start(o)
			if err == nil {
				t.Fatal(s.Close())
			}
		})
	}
}

// TestOnTheSystemClock inserts in real time.
func TestOnTheSystemClock(t *testing.T) {
	m := begin(t, func(o *Options) {
		b, err := Preset("fast")
		if err != nil {
			t.Fatal(err)
		}
		o.Clock, o.Behaviour = nil, &b
	})
	task := m.insert("VPG-A", "t")
	for len(m.tagged("VPG-A")) == 0 {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
	if got := m.task(task); got.Status.State != taskCompleted {
		t.Errorf("task %+v", got)
	}
	if got := m.Timings()[0]; got.Read < got.Visible || got.ReadBy == 0 {
		t.Errorf("timing %+v", got)
	}
}

func TestInfoAsJSON(t *testing.T) {
	m := begin(t, nil)
	var got map[string]string
	answer{text: string(jsonText(m.Info()))}.decode(t, &got)
	want := map[string]string{
		"url": m.Info().URL, "ca_file": m.Info().CAFile, "client_id": "guard", "client_secret": m.Info().ClientSecret,
		"username": m.Info().Username, "password": m.Info().Password,
	}
	if diff := cmp.Diff(want, got); diff != "" || !filepath.IsAbs(m.Info().CAFile) {
		t.Errorf("%s in %s", diff, got["ca_file"])
	}
}
