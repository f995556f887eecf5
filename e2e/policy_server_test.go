package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"leaseguard.internal/internal/policysim"
	"leaseguard.internal/internal/sandbox"
)

// secretToken is what no process and no file but the broker's own may hold.
const secretToken = "bearer-f3a9c1d7e5" // #nosec G101 -- of a simulated server

// TestO13_O15_O16_X7_TheCredentialStaysInTheBroker: while a call waits for the
// policy server, its token is in no argument, environment or file on the agent's
// side, and nothing listens that could be asked in the broker's place.
func TestO13_O15_O16_X7_TheCredentialStaysInTheBroker(t *testing.T) {
	sim := &policysim.Server{Token: secretToken}
	if err := sim.Start(); err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	w := prepare(t, setting{noZVM: true, checkpoint: `self = "none"`})
	file := filepath.Join(filepath.Dir(w.Paths.Config), "policy.token")
	w.Must(os.WriteFile(file, []byte(secretToken+"\n"), 0o600))
	w.configureMore(fmt.Sprintf("\n[policy_server]\nurl = %q\ntoken_file = \"policy.token\"\n", sim.URL()))
	w.Must(w.StartBroker(w.Ctx()))
	w.agent = w.launch()

	asked, look := make(chan struct{}), make(chan struct{})
	sim.Fail(func(http.ResponseWriter, *http.Request) bool {
		close(asked)
		<-look
		return false
	})
	type result struct {
		answer sandbox.Answer
		err    error
	}
	done := make(chan result, 1)
	go func() {
		a, err := w.agent.Call(w.Ctx(), "Read", `{"file_path":"/srv/a"}`)
		done <- result{a, err}
	}()
	select {
	case <-asked:
	case r := <-done:
		t.Fatalf("the server wasn't asked: %d, %s, %v", r.answer.Exit, r.answer.Err, r.err)
	}
	w.nowhere(file)
	w.listensNowhere()
	close(look)
	r := <-done
	w.Must(r.err)
	if r.answer.Exit != 0 {
		t.Errorf("the call ended with %d: %s", r.answer.Exit, r.answer.Err)
	}
	sim.Fail(policysim.Status(http.StatusForbidden, `{"message":"not with `+secretToken+`"}`))
	a, err := w.agent.Call(w.Ctx(), "Read", `{"file_path":"/srv/b"}`)
	w.Must(err)
	if a.Exit != 2 || !strings.Contains(string(a.Err), "policy_unavailable") || strings.Contains(string(a.Err)+string(a.Out), secretToken) {
		t.Errorf("the reason is %s", a.Err)
	}
	w.nowhere(file)
}

// configureMore adds to guard.toml before the broker starts.
func (w *world) configureMore(text string) {
	w.T.Helper()
	old, err := os.ReadFile(w.Paths.Config)
	w.Must(err)
	w.Must(w.Configure(string(old) + text))
}

// nowhere looks for the token in processes and in the world's files.
func (w *world) nowhere(but string) {
	w.T.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	w.Must(err)
	looked := 0
	for _, proc := range all {
		for _, name := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(filepath.Join(proc, name))
			if err == nil {
				looked++
			}
			if bytes.Contains(text, []byte(secretToken)) {
				w.T.Errorf("%s/%s has the token", proc, name)
			}
		}
	}
	if looked < 4 {
		w.T.Errorf("%d files of processes could be read", looked)
	}
	w.Must(filepath.WalkDir(w.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == but {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(secretToken)) {
			w.T.Errorf("%s has the token", path)
		}
		return err
	}))
}

// listening is a row of /proc/net/tcp in the state LISTEN, with its inode.
var listening = regexp.MustCompile(`(?m)^ *[0-9]+: \S+ \S+ 0A \S+ \S+ \S+ +[0-9]+ +[0-9]+ ([0-9]+) `)

// listensNowhere: the broker's sockets are those of the file system.
func (w *world) listensNowhere() {
	w.T.Helper()
	inodes := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/net/" + table)
		w.Must(err)
		for _, m := range listening.FindAllStringSubmatch(string(text), -1) {
			inodes["socket:["+m[1]+"]"] = true
		}
	}
	if len(inodes) == 0 {
		w.T.Error("no listener found, not even the simulated server's")
	}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", w.BrokerPID()))
	w.Must(err)
	if len(fds) == 0 && os.Getuid() == 0 { // others may not look: the broker can't be traced
		w.T.Error("the broker has no descriptors")
	}
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && inodes[target] {
			w.T.Errorf("the broker listens by %s", target)
		}
	}
}
