package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leaseguard.internal/internal/config"
	"leaseguard.internal/internal/hookrun"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/wire"
)

func TestDoctorPolicyServer(t *testing.T) {
	token := &config.PolicyServer{TokenFile: "/t"}
	tests := []struct {
		name   string
		server *config.PolicyServer
		mode   string
		says   *wire.PolicyServer
		want   []string
	}{
		{"none", nil, paths.User, nil, nil},
		{"answers", &config.PolicyServer{}, paths.User, &wire.PolicyServer{Host: "p"}, []string{"policies ok"}},
		{"doesn't", &config.PolicyServer{}, paths.User, &wire.PolicyServer{Host: "p\x1b", Fault: "it answered 401\n"}, []string{"policies fail"}},
		{"the agent's uid reads the token", token, paths.User, &wire.PolicyServer{Host: "p"}, []string{"policies ok", "policies warn"}},
		{"it doesn't", token, paths.System, &wire.PolicyServer{Host: "p"}, []string{"policies ok"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDoctor(t)
			d.config, d.paths.Mode = &config.Config{PolicyServer: tt.server}, tt.mode
			d.judgePolicyServer(tt.says)
			if diff := cmp.Diff(tt.want, statesOf(t, d)); diff != "" {
				t.Error(diff)
			}
			for _, f := range d.out.Checks {
				if strings.ContainsAny(f.Text, "\x1b\n") {
					t.Errorf("it prints %q", f.Text)
				}
			}
		})
	}
	d := newDoctor(t)
	d.config, d.status = &config.Config{PolicyServer: token}, nil
	d.inspect()
	if diff := cmp.Diff("policies unknown", statesOf(t, d)[0]); diff != "" {
		t.Error(diff)
	}
}

// TestDoctorPolicyHook: what counts are the bytes, not when they were put there.
func TestDoctorPolicyHook(t *testing.T) {
	program := filepath.Join(t.TempDir(), "hook")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	files, err := hookrun.Digest(program, nil)
	if err != nil {
		t.Fatal(err)
	}
	trusted := func(stamp, sum string) *wire.HookTrust {
		return &wire.HookTrust{Files: []wire.HookFile{{Arg: files[0].Arg, SHA256: sum, Stamp: stamp}}}
	}
	tests := []struct {
		name    string
		command string
		trust   *wire.HookTrust
		want    []string
	}{
		{"as it was trusted", program, trusted(files[0].Stamp, files[0].SHA256), nil},
		{"the same bytes, put there again", program, trusted("another", files[0].SHA256), nil},
		{"other bytes", program, trusted(files[0].Stamp, "00"), []string{"policies fail"}},
		{"gone", program + "x", trusted("", files[0].SHA256), []string{"policies warn"}},
		{"not trusted", program, nil, []string{"policies warn"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDoctor(t)
			good := d.policyHook(wire.HookDefinition{ID: "h", Command: tt.command, Trust: tt.trust}, false)
			if diff := cmp.Diff(tt.want, statesOf(t, d)); diff != "" || good != (tt.want == nil) {
				t.Errorf("good %v, %s", good, diff)
			}
		})
	}
}
