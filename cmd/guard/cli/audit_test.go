package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leaseguard.internal/broker/store"
	"leaseguard.internal/internal/audit"
)

// chain writes n records and stores the head that head makes of the chain's own.
func chain(t *testing.T, h home, n int, head func(audit.Head) *audit.Head) {
	t.Helper()
	record(t, h, n)
	report, err := audit.Verify(h.paths.AuditDir, nil)
	if err != nil || report.Fault != nil {
		t.Fatal(err, report.Fault)
	}
	stored := head(report.Head)
	if stored == nil {
		return
	}
	s, err := store.Open(h.paths.DB)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutHead(context.Background(), *stored); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAuditVerifyWithoutBroker(t *testing.T) {
	own := func(h audit.Head) *audit.Head { return &h }
	none := func(audit.Head) *audit.Head { return nil }
	for _, tc := range []struct {
		name   string
		head   func(audit.Head) *audit.Head
		damage func(segment []byte) []byte
		code   int
		want   string
	}{
		{"good", own, nil, ExitDone, "head: checked against the store, record 4"},
		{"no store", none, nil, ExitUnfinished, "head: not checked: "},
		{"edit", own, func(b []byte) []byte { return bytes.Replace(b, []byte("code_1"), []byte("code_9"), 1) }, ExitRefused, "chain: broken: edit"},
		{"edit without a head", none, func(b []byte) []byte { return bytes.Replace(b, []byte("code_1"), []byte("code_9"), 1) }, ExitRefused, "chain: broken: edit"},
		{"cut", own, func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] }, ExitRefused, "chain: broken: cut"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHome(t)
			chain(t, h, 4, tc.head)
			if tc.damage != nil {
				damage(t, h.paths.AuditDir, tc.damage)
			}
			got := h.guard("", "audit", "verify")
			if got.code != tc.code || !strings.Contains(got.out, tc.want) || got.stderr != "" {
				t.Errorf("%+v; want exit %d and %q", got, tc.code, tc.want)
			}
			asJSON := h.guard("", "audit", "verify", "--json")
			if why := !strings.Contains(asJSON.out, `"head_why": ""`); why == strings.Contains(asJSON.out, `"head_checked": true`) {
				t.Errorf("head_why: %s", asJSON.out)
			}
			if next := strings.Contains(got.out, "\nNext: keep copies of "); next != (tc.code == ExitRefused) {
				t.Errorf("a remedy and exit %d: %s", tc.code, got.out)
			}
			if good := strings.Contains(asJSON.out, `"good": true`); asJSON.code != tc.code || good != (tc.code == ExitDone) {
				t.Errorf("--json: %+v", asJSON)
			}
		})
	}
}

func damage(t *testing.T, dir string, f func([]byte) []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("segments %v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err == nil {
		err = os.WriteFile(files[0], f(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAuditVerifyNothing(t *testing.T) {
	h := newHome(t)
	if got := h.guard("", "audit", "verify"); got.code != ExitUnfinished || !strings.Contains(got.stderr, "verifying the audit: no records yet in ") {
		t.Errorf("%+v", got)
	}
}
