package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestOperators(t *testing.T) {
	for _, tt := range []struct {
		name, mode, value string
		want              []string
		fault             string
	}{
		{"none", "user", `[]`, nil, ""},
		{"users and groups", "system", `["ann", "%wheel", "svc-1.x_", "machine$"]`, []string{"ann", "%wheel", "svc-1.x_", "machine$"}, ""},
		{"in user mode", "user", `["ann"]`, nil, "refused in user mode"},
		{"empty name", "system", `[""]`, nil, "empty"},
		{"no group", "system", `["%"]`, nil, "no name of a user"},
		{"a uid", "system", `["1000"]`, nil, "no name of a user"},
		{"a blank", "system", `["ann "]`, nil, "no name of a user"},
		{"two in one", "system", `["ann,bob"]`, nil, "no name of a user"},
		{"a line of passwd", "system", `["ann:x:0"]`, nil, "no name of a user"},
		{"negated", "system", `["!ann"]`, nil, "no name of a user"},
		{"no list", "system", `"ann"`, nil, "want a list of strings"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Parse("/x/guard.toml", tt.mode, []byte("[identity]\noperators = "+tt.value+"\n"))
			if tt.fault == "" {
				if err != nil || !slices.Equal(c.Identity.Operators, tt.want) {
					t.Errorf("Parse = %v, want %q", err, tt.want)
				}
				return
			}
			fault, ok := errors.AsType[*Error](err)
			if !ok || fault.Line != 2 || fault.Key != "identity.operators" || !strings.Contains(fault.Problem, tt.fault) {
				t.Errorf("Parse = %v, want line 2, identity.operators: %s", err, tt.fault)
			}
		})
	}
}
