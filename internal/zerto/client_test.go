package zerto

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/clock"
	"leaseguard.internal/internal/zvmsim"
)

func TestNewRefuses(t *testing.T) {
	ok := Config{URL: "https://zvm.example", SPKISHA256: base64.StdEncoding.EncodeToString(make([]byte, 32)), ClientID: "guard", Secret: "s"}
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		change func(*Config)
		want   string
	}{
		"no url":             {func(c *Config) { c.URL = "" }, "zvm.url"},
		"plain http":         {func(c *Config) { c.URL = "http://zvm.example" }, "https://HOST"},
		"path":               {func(c *Config) { c.URL = "https://zvm.example/v1" }, "no more"},
		"query":              {func(c *Config) { c.URL = "https://zvm.example?x=1" }, "no more"},
		"password in url":    {func(c *Config) { c.URL = "https://u:hunter2@zvm.example" }, "no more"},
		"no host":            {func(c *Config) { c.URL = "https://:443" }, "https://HOST"},
		"no trust":           {func(c *Config) { c.SPKISHA256 = "" }, "zvm.ca_file"},
		"pin of 31 bytes":    {func(c *Config) { c.SPKISHA256 = base64.StdEncoding.EncodeToString(make([]byte, 31)) }, "32 bytes"},
		"pin not base64":     {func(c *Config) { c.SPKISHA256 = "%" }, "32 bytes"},
		"ca file missing":    {func(c *Config) { c.CAFile = filepath.Join(t.TempDir(), "none.pem") }, "zvm.ca_file"},
		"ca file empty":      {func(c *Config) { c.CAFile, c.UID = empty, uint32(os.Getuid()) }, "no certificate"},
		"no credential":      {func(c *Config) { c.Secret = "" }, "zvm.client_secret_file"},
		"no client id":       {func(c *Config) { c.ClientID = "" }, "zvm.client_id"},
		"two credentials":    {func(c *Config) { c.Username, c.Password = "u", "p" }, "keep one"},
		"user, no password":  {func(c *Config) { c.Secret, c.Username = "", "u" }, "zvm.password_file"},
		"password, no user":  {func(c *Config) { c.Secret, c.Password = "", "p" }, "zvm.username"},
		"everything missing": {func(c *Config) { *c = Config{} }, "zvm.url"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := ok
			tt.change(&cfg)
			c, err := New(cfg, clock.System{})
			if err == nil {
				c.Close()
				t.Fatal("New accepts it")
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Fatalf("error %q, want one that names %q", err, tt.want)
			}
		})
	}
}

func TestTLSTrust(t *testing.T) {
	other, _ := simulate(t, nil)
	wrong := base64.StdEncoding.EncodeToString(make([]byte, sha256.Size))
	tests := map[string]struct {
		trust func(*Config, *zvmsim.Server)
		ok    bool
	}{
		"ca":                {func(*Config, *zvmsim.Server) {}, true},
		"pin":               {func(c *Config, s *zvmsim.Server) { c.CAFile, c.SPKISHA256 = "", s.SPKI() }, true},
		"ca and pin":        {func(c *Config, s *zvmsim.Server) { c.SPKISHA256 = s.SPKI() }, true},
		"other ca":          {func(c *Config, _ *zvmsim.Server) { c.CAFile = other.Info().CAFile }, false},
		"other pin":         {func(c *Config, _ *zvmsim.Server) { c.CAFile, c.SPKISHA256 = "", wrong }, false},
		"ca, other pin":     {func(c *Config, _ *zvmsim.Server) { c.SPKISHA256 = wrong }, false},
		"pin, other ca":     {func(c *Config, s *zvmsim.Server) { c.CAFile, c.SPKISHA256 = other.Info().CAFile, s.SPKI() }, false},
		"ca, not that name": {func(c *Config, _ *zvmsim.Server) { c.URL = strings.Replace(c.URL, "127.0.0.1", "127.0.0.2", 1) }, false},
		"pin, whatever name": {func(c *Config, s *zvmsim.Server) {
			c.CAFile, c.SPKISHA256 = "", s.SPKI()
			c.URL = strings.Replace(c.URL, "127.0.0.1", "localhost", 1)
		}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			// An agent that sets the broker's environment mustn't get the link.
			t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
			t.Setenv("SSL_CERT_FILE", other.Info().CAFile)
			sim, _ := simulate(t, nil)
			cfg := configFor(sim)
			tt.trust(&cfg, sim)
			_, err := connect(t, cfg).Now(soon(t))
			if tt.ok {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil {
				t.Fatal("an untrusted server is believed")
			}
			if !strings.HasPrefix(name, "ca, not") && !errors.Is(err, ErrUntrusted) {
				t.Fatalf("error %v isn't ErrUntrusted", err)
			}
			if n := len(sim.Requests()); n != 0 {
				t.Fatalf("%d requests reached an untrusted server", n)
			}
		})
	}
}

func TestReadsEveryStyle(t *testing.T) {
	styles := map[string]func(*zvmsim.Settings){
		"pascal":     func(*zvmsim.Settings) {},
		"camel":      func(s *zvmsim.Settings) { s.CamelCase = true },
		"enum names": func(s *zvmsim.Settings) { s.EnumNames = true },
		"old build":  func(s *zvmsim.Settings) { s.OldBuild = true },
		"substring":  func(s *zvmsim.Settings) { s.Filters = "substring" },
	}
	for name, style := range styles {
		t.Run(name, func(t *testing.T) {
			sim, c := simulate(t, func(b *zvmsim.Behaviour) { style(&b.Settings) })
			readAll(t, c)
			allowed(t, sim)
		})
	}
}

// readAll takes one checkpoint by every route that there is.
func readAll(t *testing.T, c *Client) {
	t.Helper()
	ctx := soon(t)
	vms, err := c.VMs(ctx, Query{Name: "app-01"})
	if err != nil || len(vms) != 1 || vms[0].Name != "app-01" || vms[0].VPGName != "VPG-LOCAL" {
		t.Fatalf("VMs = %+v, %v", vms, err)
	}
	vm := vms[0]
	if !IsIdentifier(vm.ID) || vm.Protected.Name != "VCVpg" || !vm.Site.Local() {
		t.Fatalf("VM = %+v", vm)
	}
	if again, err := c.VMs(ctx, Query{Identifier: vm.ID}); err != nil || len(again) != 1 || again[0] != vm {
		t.Fatalf("VMs by identifier = %+v, %v", again, err)
	}
	group, err := c.VPG(ctx, vm.VPGID)
	if err != nil || group.Name != "VPG-LOCAL" || group.Status.Name != "MeetingSLA" || group.SubStatus.Name != "None" {
		t.Fatalf("VPG = %+v, %v", group, err)
	}
	if site, err := c.Site(ctx, group.Site); err != nil || site.Type != "VCenter" || site.Cloud() {
		t.Fatalf("Site = %+v, %v", site, err)
	}
	aws, err := c.VMs(ctx, Query{Name: "win-aws-01"})
	if err != nil || len(aws) != 1 || aws[0].Protected.Name != "Aws" || !aws[0].Site.Peer() {
		t.Fatalf("VMs = %+v, %v", aws, err)
	}
	if site, err := c.Site(ctx, aws[0].Site); err != nil || !site.Cloud() || site.Name != "AWS-EU" {
		t.Fatalf("Site = %+v, %v", site, err)
	}
	now, err := c.Now(ctx)
	if err != nil || now.IsZero() {
		t.Fatalf("Now = %v, %v", now, err)
	}
	task, err := c.InsertCheckpoint(ctx, vm.VPGID, "guard:x:1")
	if err != nil {
		t.Fatal(err)
	}
	state, err := c.Task(ctx, task)
	if err != nil || state.State.Name == "" {
		t.Fatalf("Task = %+v, %v", state, err)
	}
	for ctx.Err() == nil {
		list, err := c.Checkpoints(ctx, vm.VPGID, now.Add(-time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		for _, cp := range list {
			if cp.Tag == "guard:x:1" && cp.ID != "" && !cp.Time.Before(now.Truncate(time.Second)) {
				return
			}
		}
	}
	t.Fatal("the tag never appeared")
}

// allowed holds that nothing but the list of routes was asked, nowhere with the
// header by which the In-Cloud product picks an action.
func allowed(t *testing.T, sim *zvmsim.Server) {
	t.Helper()
	for _, r := range sim.Requests() {
		if r.Method != "GET" && r.Op != zvmsim.OpToken && r.Op != zvmsim.OpInsert || r.Op == zvmsim.OpOther {
			t.Errorf("asked %s %s", r.Method, r.Path)
		}
		if strings.Contains(strings.Join(r.Headers, " "), "Zic-") {
			t.Errorf("%s %s carries %q", r.Method, r.Path, r.Headers)
		}
	}
}

func TestIdentifiersStayInTheirPlace(t *testing.T) {
	sim, c := simulate(t, nil)
	for _, id := range []string{"", ".", "..", "../vpgs", "a/b", "a?b", "a#b", "a%2fb", "a b", "ä", strings.Repeat("a", 201), "a\n"} {
		if _, err := c.VPG(soon(t), id); err == nil {
			t.Errorf("VPG %q is asked for", id)
		}
		if _, err := c.InsertCheckpoint(soon(t), id, "tag"); err == nil {
			t.Errorf("VPG %q is tagged", id)
		}
	}
	for _, tag := range []string{"", "two words", "a\"b", strings.Repeat("a", 81)} {
		if _, err := c.InsertCheckpoint(soon(t), "v", tag); err == nil {
			t.Errorf("tag %q is sent", tag)
		}
	}
	for _, q := range []Query{{}, {Name: "a", Identifier: "b"}, {Identifier: "app-01"}, {Identifier: "../x"}} {
		if _, err := c.VMs(soon(t), q); err == nil {
			t.Errorf("query %+v is asked", q)
		}
	}
	if _, err := c.Site(soon(t), SiteRef{ID: "x", Type: "Other"}); err == nil {
		t.Error("a site that is neither local nor a peer is asked for")
	}
	for _, r := range sim.Requests() {
		if r.Op != zvmsim.OpToken {
			t.Errorf("asked %s %s", r.Method, r.Path)
		}
	}
}

func TestContextEndsEverything(t *testing.T) {
	sim, c := simulate(t, nil)
	if err := sim.Answer(zvmsim.Answer{Op: zvmsim.OpVMs, Delay: zvmsim.Span(3600e9)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(soon(t))
	done := make(chan error, 1)
	go func() {
		_, err := c.VMs(ctx, Query{Name: "app-01"})
		done <- err
	}()
	for sim.Count(zvmsim.OpVMs) == 0 && soon(t).Err() == nil {
		_ = clock.Sleep(soon(t), 1e6)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want context.Canceled", err)
	}
}
