package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leaseguard.internal/internal/config"
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
	d.zvm()
	if diff := cmp.Diff("policies unknown", statesOf(t, d)[0]); diff != "" {
		t.Error(diff)
	}
}
