package cli

import (
	"os"
	"strings"
	"testing"

	host "leaseguard.internal/launcher/runtime"
)

// TestPurgeKnowsTheDropIn: a package that is purged takes the hooks of a gate
// that is gone with it, by the name and the mark that init writes.
func TestPurgeKnowsTheDropIn(t *testing.T) {
	script, err := os.ReadFile("../../../packaging/scripts/postremove")
	if err != nil {
		t.Fatal(err)
	}
	text, err := host.Install{}.DropInText()
	if err != nil {
		t.Fatal(err)
	}
	const written = "Written by guard init --system"
	if !strings.Contains(string(script), host.DropIn) || !strings.Contains(string(script), `"`+written+`"`) || !strings.Contains(string(text), written) {
		t.Errorf("postremove doesn't remove %s by its mark", host.DropIn)
	}
}

func TestManagedFault(t *testing.T) {
	own := []byte(`{"allowManagedHooksOnly":true}`)
	later := host.Managed{Path: "/etc/claude-code/managed-settings.d/zzz.json", Data: []byte(`{"allowManagedHooksOnly":false}`)}
	earlier := host.Managed{Path: "/etc/claude-code/managed-settings.d/10.json", Data: later.Data}
	if err := managedFault(host.WithDropIn([]host.Managed{earlier}, own)); err != nil {
		t.Errorf("a file that guard's comes after: %v", err)
	}
	if err := managedFault(host.WithDropIn([]host.Managed{earlier, later}, own)); err == nil || !strings.Contains(err.Error(), "zzz.json") {
		t.Errorf("a file that comes after guard's: %v", err)
	}
	stale := host.Managed{Path: host.DropIn, Data: []byte(`{"disableAllHooks":true}`)}
	if err := managedFault(host.WithDropIn([]host.Managed{earlier, stale}, own)); err != nil {
		t.Errorf("guard's own file, which is replaced: %v", err)
	}
	if err := managedFault(host.WithDropIn([]host.Managed{stale}, nil)); err == nil {
		t.Error("with no text, what is there stays")
	}
}
