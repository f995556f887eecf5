package runtime

import (
	"slices"
	"strings"
	"testing"
)

func TestCheckArgs(t *testing.T) {
	for _, c := range []struct {
		args       string // blank between
		refused    string // the name that the reason quotes
		unattended bool
	}{
		{args: ""},
		{args: "hello"},
		{args: "-p hi", unattended: true},
		{args: "--print hi --output-format=json", unattended: true},
		{args: "-c -r 1 --resume --model opus --add-dir a b c -- x"},
		{args: "-pc hi", unattended: true},
		{args: "-dhooks hi"},
		{args: "-rabc"},
		{args: "--allowedTools Bash mcp --allowed-tools agents"},
		{args: "--debug agents"},
		{args: "--append-system-prompt -p"},
		{args: "--append-system-prompt --nosuch"},
		{args: "-n"},
		{args: "-"},

		{args: "--bare", refused: "--bare"},
		{args: "--bare=1", refused: "--bare"},
		{args: "hi --safe-mode", refused: "--safe-mode"},
		{args: "-p-bare", refused: "--bare", unattended: true},
		{args: "-pc-settings=x", refused: "--settings"},
		{args: "-p -- --bare", refused: "--bare"},
		{args: "-- hi --settings=x", refused: "--settings"},
		{args: "--model --settings", refused: "--settings"},
		{args: "--resume=x --settings x", refused: "--settings"},
		{args: "--allowedTools Bash --mcp-config x", refused: "--mcp-config"},
		{args: "--add-dir --bg", refused: "--bg"},
		{args: "--background", refused: "--background"},
		{args: "--setting-sources user", refused: "--setting-sources"},
		{args: "--strict-mcp-config", refused: "--strict-mcp-config"},
		{args: "--plugin-dir x", refused: "--plugin-dir"},
		{args: "--plugin-url=x", refused: "--plugin-url"},
		{args: "--permission-prompt-tool x", refused: "--permission-prompt-tool"},
		{args: "--agents {}", refused: "--agents"},
		{args: "--cloud", refused: "--cloud"},
		{args: "--teleport", refused: "--teleport"},
		{args: "--desktop", refused: "--desktop"},
		{args: "--remote-control", refused: "--remote-control"},
		{args: "--rc", refused: "--rc"},
		{args: "--tmux=classic", refused: "--tmux"},
		{args: "--managed-settings {}", refused: "--managed-settings"},
		{args: "--nosuch", refused: "--nosuch"},
		{args: "--nosuch=value", refused: "--nosuch"},
		{args: "--prin", refused: "--prin"},
		{args: "--PRINT", refused: "--PRINT"},
		{args: "-P", refused: "-P"},
		{args: "-pX", refused: "-X"},
		{args: "-Xp", refused: "-X"},
		{args: "-p --input-format stream-json", refused: "--input-format", unattended: true},
		{args: "-p --input-format=stream-json", refused: "--input-format", unattended: true},
		{args: "agents", refused: "agents"},
		{args: "-p agents", refused: "agents", unattended: true},
		{args: "-- mcp serve", refused: "mcp"},
		{args: "--model opus respawn x", refused: "respawn"},
		{args: "--resume agents mcp", refused: "mcp"},
		{args: "-p x daemon", refused: "daemon"},
		{args: "cc://host/x", refused: "cc://"},
	} {
		t.Run(c.args, func(t *testing.T) { checkArgs(t, Claude, c.args, c.refused, c.unattended) })
	}
}

// checkArgs has a table look at words, of which it refuses the one that is named,
// if one is.
func checkArgs(t *testing.T, table Table, words, refused string, unattended bool) {
	t.Helper()
	args := strings.Fields(words)
	before := slices.Clone(args)
	use, err := table.CheckArgs(args, nil)
	if !slices.Equal(args, before) {
		t.Errorf("the arguments were changed to %q", args)
	}
	if refused == "" {
		if err != nil || use.Unattended != unattended {
			t.Errorf("got %+v, %v", use, err)
		}
		return
	}
	reason := refusal(t, err, "flag_refused")
	if !strings.Contains(reason, `"`+refused) {
		t.Errorf("reason %q", reason)
	}
	if strings.Contains(reason, "value") {
		t.Errorf("reason %q tells the option's value", reason)
	}
}

// TestAllowFlags: an operator lets an unknown option through, never one that is
// known to silence the gate; what follows it is still read.
func TestAllowFlags(t *testing.T) {
	allow := []string{"--new", "--bare", "-X", "--settings"}
	for _, args := range []string{"--new", "--new=x", "--new x y", "-X", "-Xabc", "-p --new hi"} {
		if _, err := Claude.CheckArgs(strings.Fields(args), allow); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
	for _, args := range []string{"--bare", "--settings=x", "--new --bare", "--new x mcp", "--newer", "--new -Y"} {
		_, err := Claude.CheckArgs(strings.Fields(args), allow)
		refusal(t, err, "flag_refused")
	}
	_, err := Claude.CheckArgs([]string{"--other"}, nil)
	if reason := refusal(t, err, "flag_refused"); !strings.Contains(reason, "launch.allow_flags") {
		t.Errorf("reason %q", reason)
	}
}

func TestTableIsSound(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range Claude.Options {
		for _, name := range o.Names {
			if seen[name] || !dashed(name) || strings.Contains(name, "=") {
				t.Errorf("%q stands twice, or is no option", name)
			}
			seen[name] = true
		}
	}
}

// FuzzCheckArgs: no arrangement of words around a refused option hides it where
// the client would take it for one.
func FuzzCheckArgs(f *testing.F) {
	f.Add("-p\x00hi")
	f.Add("-p-bare\x00--\x00mcp")
	f.Fuzz(func(t *testing.T, text string) {
		args := strings.Split(text, "\x00")
		before := slices.Clone(args)
		_, err := Claude.CheckArgs(args, nil)
		if !slices.Equal(args, before) {
			t.Error("the arguments were changed")
		}
		if err == nil && (slices.Contains(args, "--bare") || slices.Contains(args, "--settings")) {
			t.Errorf("%q passes", args)
		}
	})
}
