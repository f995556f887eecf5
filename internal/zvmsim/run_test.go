package zvmsim

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/internal/strictjson"
)

// TestRunPrintsItsAddressAndEnds plays the command: one line, then service
// until stdin ends or the context does.
func TestRunPrintsItsAddressAndEnds(t *testing.T) {
	for _, how := range []string{"stdin ends", "context ends"} {
		t.Run(how, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			ended := make(chan error)
			dir := filepath.Join(t.TempDir(), "new", "dir")
			go func() { ended <- Run(ctx, Options{Dir: dir}, inR, outW) }()
			line, err := bufio.NewReader(outR).ReadBytes('\n')
			if err != nil {
				t.Fatal(err)
			}
			var info Info
			if err := strictjson.Decode(line, &info); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if info.CAFile != filepath.Join(dir, FileCA) || !strings.HasPrefix(info.URL, "https://127.0.0.1:") {
				t.Errorf("info %+v", info)
			}
			if how == "context ends" {
				cancel()
			} else if err := inW.Close(); err != nil {
				t.Error(err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			_ = inW.Close()
			if _, err := tls.Dial("tcp", strings.TrimPrefix(info.URL, "https://"), &tls.Config{InsecureSkipVerify: true}); err == nil { //nolint:gosec // it is about nobody being there
				t.Error("the port still answers")
			}
		})
	}
}

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
		FileCA: {0o644, "-----BEGIN CERTIFICATE-----"}, FileSecret: {0o600, m.Info().ClientSecret + "\n"},
		FilePassword: {0o600, m.Info().Password + "\n"},
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
