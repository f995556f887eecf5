package zerto

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"leaseguard.internal/internal/safepath"
	"leaseguard.internal/internal/verdict"
)

// ErrUntrusted is wrapped by the error of a connection to a server that didn't
// prove to be the ZVM. Nothing was sent to it.
var ErrUntrusted = errors.New("the server didn't prove to be the ZVM")

const (
	maxCAFile   = 1 << 20
	dialTime    = 10 * time.Second
	idleTime    = 30 * time.Second // an idle connection that the ZVM closes first costs an insert its outcome
	connections = 64               // to the ZVM at once, which bounds the answers in memory
)

// CheckTrust reads what New would trust the ZVM by, and says what is wrong with
// it. It connects to nothing.
func CheckTrust(cfg Config) error {
	_, err := tlsConfig(cfg)
	return err
}

// tlsConfig trusts the CA file, the pinned key, or only a server that satisfies
// both. Without either there is no connection: a ZVM's certificate is
// self-signed out of the box, and no public root speaks for it.
func tlsConfig(cfg Config) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if cfg.CAFile == "" && cfg.SPKISHA256 == "" {
		return nil, errors.New("setting up TLS to the ZVM: neither zvm.ca_file nor zvm.spki_sha256 is set; set one of them")
	}
	if cfg.CAFile != "" {
		pem, err := safepath.ReadFile(cfg.CAFile, cfg.UID, maxCAFile)
		if err != nil {
			return nil, fmt.Errorf("reading zvm.ca_file: %w", err)
		}
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("reading zvm.ca_file %s: it holds no certificate; save the ZVM's CA there in PEM form", verdict.Object(cfg.CAFile))
		}
	}
	if cfg.SPKISHA256 != "" {
		pin, err := base64.StdEncoding.DecodeString(cfg.SPKISHA256)
		if err != nil || len(pin) != sha256.Size {
			return nil, fmt.Errorf("reading zvm.spki_sha256 %s: it isn't the base64 of 32 bytes", verdict.Object(cfg.SPKISHA256))
		}
		// With a pin alone the handshake proves possession of the pinned key,
		// which says more than a chain; so the chain isn't asked for.
		conf.InsecureSkipVerify = cfg.CAFile == ""
		conf.VerifyConnection = pinned(pin)
	}
	return conf, nil
}

// pinned accepts only a server whose own key has that digest.
func pinned(pin []byte) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return fmt.Errorf("%w: it has no certificate", ErrUntrusted)
		}
		got := sha256.Sum256(s.PeerCertificates[0].RawSubjectPublicKeyInfo)
		if subtle.ConstantTimeCompare(got[:], pin) != 1 {
			return fmt.Errorf("%w: the digest of its key is %s, not zvm.spki_sha256",
				ErrUntrusted, base64.StdEncoding.EncodeToString(got[:]))
		}
		return nil
	}
}

// newHTTP returns a client without proxy, redirects, compression and cookies.
// It speaks HTTP/1.1: there a request that failed before its headers left is
// known not to have been executed.
func newHTTP(conf *tls.Config) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	dialer := net.Dialer{Timeout: dialTime}
	return &http.Client{
		Transport: &http.Transport{
			Protocols:              &protocols,
			DialContext:            dialer.DialContext,
			TLSClientConfig:        conf,
			TLSHandshakeTimeout:    dialTime,
			DisableCompression:     true,
			MaxConnsPerHost:        connections,
			MaxIdleConnsPerHost:    connections / 2,
			IdleConnTimeout:        idleTime,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
