//go:build hosts

package hosts

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leaseguard.internal/internal/fakemodel"
	host "leaseguard.internal/launcher/runtime"
)

// organisation writes the log-in of somebody whom the service sends settings, and
// has the client itself fetch them from here: it keeps a copy for an hour, which
// it signs with a key that is the same everywhere.
func (g *guarded) organisation(requirements string) {
	g.t.Helper()
	part := base64.RawURLEncoding.EncodeToString
	token := strings.Join([]string{part([]byte(`{"alg":"none","typ":"JWT"}`)), part(toJSON(g.t, object{
		"email": "a@example.com", "exp": time.Now().Add(time.Hour * 24 * 30).Unix(),
		"https://api.openai.com/auth": object{"chatgpt_plan_type": "enterprise", "chatgpt_account_id": "a", "chatgpt_user_id": "u", "user_id": "u"},
	})), part([]byte("unsigned"))}, ".")
	g.write(g.codexHome("auth.json"), object{
		"auth_mode": "chatgpt", "last_refresh": time.Now().UTC().Format(time.RFC3339),
		"tokens": object{"id_token": token, "access_token": token, "refresh_token": "r", "account_id": "a"},
	})
	fragments := []any{}
	if requirements != "" {
		fragments = []any{object{"id": "x", "name": "x", "contents": requirements}}
	}
	bundle := toJSON(g.t, object{"config_toml": object{"enterprise_managed": []any{}}, "requirements_toml": object{"enterprise_managed": fragments}})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/config/bundle") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(bundle)
	}))
	defer service.Close()
	must(g.t, os.RemoveAll(g.codexHome("cloud-config-bundle-cache.json")))
	g.codex("-c", fmt.Sprintf("chatgpt_base_url=%q", service.URL), "-c", fmt.Sprintf("model_providers.scripted.base_url=%q", service.URL)) // which is no model
	if text, err := readAll(g.codexHome("cloud-config-bundle-cache.json")); err != nil || requirements != "" && !strings.Contains(text, "contents") {
		g.t.Fatalf("the client keeps no copy: %v, %s", err, text)
	}
}

// TestCodexOrganisation: settings that the service sends put the gate's hooks out
// of effect, also where it was proved a moment ago.
func TestCodexOrganisation(t *testing.T) {
	for id, requirements := range map[string]string{
		"service_managed_only": "allow_managed_hooks_only = true\n",
		"service_hooks_off":    "[features]\nhooks = false\n",
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			codexHole(id, "settings of the service's for an organisation, or the client's copy of them, say "+strings.TrimSpace(strings.ReplaceAll(requirements, "\n", " ")), "closed",
				"who may be sent such settings has the hooks listed at each launch").report(t)
			g := newCodex(t, "")
			// One model and one configuration, so that nothing but what is sent changes.
			g.codexSteps("[features]\napps = false\n", g.mark(), fakemodel.Say("done"), g.mark(), fakemodel.Say("done"))
			g.organisation("")
			g.ok(g.launchCodex())
			if !g.denied() {
				t.Fatal("so it is with nothing sent")
			}
			g.organisation(requirements)
			o := g.launchCodex()
			if g.marked() || o.Exit != 3 || !strings.Contains(o.Stderr, "guard: wiring_unproved: ") || !strings.Contains(o.Stderr, "settings that the service sends") {
				t.Errorf("marked %v, exit %d: %s", g.marked(), o.Exit, o.Stderr)
			}
			if g.ok(g.codex()); !g.marked() {
				t.Errorf("without guard the model was told %q", g.results())
			}
		})
	}
}

// TestCodexOutside: what an administrator's requirements don't hold where somebody
// starts Codex without guard. It needs no call that guard has passed: the files are
// that user's own.
func TestCodexOutside(t *testing.T) {
	const deny = "allow_managed_hooks_only = true\n[features]\nhooks = true\n[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = \"" + denyAll + "\"\ntimeout = 60\n"
	if err := os.WriteFile(host.CodexRequirements, []byte(deny), 0o644); err != nil {
		t.Skipf("this run has no /etc of its own, since it wasn't started by root: %v", err)
	}
	t.Cleanup(func() { must(t, os.Remove(host.CodexRequirements)) })
	for id, c := range map[string]struct {
		what string
		set  func(g *guarded) // nil: nothing, and the hook holds
	}{
		"": {},
		"outside_dotenv": {"a Codex that guard didn't launch has a .env whose BASH_ENV answers managed hooks", func(g *guarded) {
			g.write(filepath.Join(g.Dir, "pass.sh"), "[ -n \"$CODEX_TOOL_CALL_ID\" ] || exit 0\n") // not for the command itself
			g.write(g.codexHome(".env"), "BASH_ENV="+filepath.Join(g.Dir, "pass.sh")+"\n")
		}},
		"outside_service_settings": {"a Codex that guard didn't launch believes a copy of the service's settings in which features.hooks = false beats the administrator's", func(g *guarded) {
			g.organisation("[features]\nhooks = false\n")
		}},
	} {
		t.Run(id, func(t *testing.T) {
			g := newCodex(t, "")
			g.codexSteps("[features]\napps = false\n", g.mark())
			if c.set != nil {
				codexHole(id, c.what, "open", "nobody launches it: have guard-lint look for starts without guard, and start Codex by guard launch alone, which refuses both").report(t)
				c.set(g)
			}
			if g.ok(g.codex()); g.marked() != (c.set != nil) {
				t.Errorf("marked %v, the model was told %q", g.marked(), g.results())
			}
		})
	}
}
