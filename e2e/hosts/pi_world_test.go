//go:build hosts

package hosts

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/fakemodel"
)

// piFlags make Pi ask the scripted model, and nothing else of the network.
var piFlags = []string{"--model", "fake/fake", "--offline"}

// agentDir is where Pi looks for its user's configuration.
const agentDir = "home/.pi/agent"

// newPi makes a guarded world in which Pi and its node are in PATH.
func newPi(t *testing.T, config string) *guarded {
	t.Helper()
	return newGuarded(t, config).ofPi()
}

func (g *guarded) ofPi() *guarded {
	g.t.Helper()
	g.runtime = "pi"
	g.forPi()
	return g
}

func (w *world) forPi() {
	w.t.Helper()
	bin := filepath.Join(w.Dir, "pibin")
	must(w.t, os.Mkdir(bin, 0o755))
	must(w.t, os.Symlink(piScript, filepath.Join(bin, "pi")))
	must(w.t, os.Symlink(piNode, filepath.Join(bin, "node")))
	w.Env = append(w.Env, "PATH="+bin+":/usr/local/bin:/usr/bin:/bin")
}

// piSteps starts the model with a script, and makes it one of Pi's.
func (w *world) piSteps(steps ...fakemodel.Step) {
	w.t.Helper()
	w.piScript(fakemodel.Script{Steps: steps})
}

func (w *world) piScript(s fakemodel.Script) {
	w.t.Helper()
	w.script(s)
	w.write(filepath.Join(w.Dir, agentDir, "models.json"), object{"providers": object{"fake": object{
		"baseUrl": w.Model.URL(), "apiKey": w.Model.Key(), "api": "anthropic-messages",
		"models": []any{object{"id": "fake", "contextWindow": 200000, "maxTokens": 4096}},
	}}})
}

// piAs runs Pi itself, without guard, with exactly these arguments.
func (w *world) piAs(args ...string) outcome {
	w.t.Helper()
	return w.as(piNode, append([]string{piScript}, args...)...)
}

// launchPi runs Pi in print mode under guard.
func (g *guarded) launchPi(args ...string) outcome {
	g.t.Helper()
	return g.launchAs(slices.Concat([]string{"--"}, piFlags, []string{"-p", "go"}, args)...)
}

// rpc is a Pi that takes commands on its standard input.
type rpc struct {
	w     *world
	cmd   *exec.Cmd
	in    *os.File
	lines chan jsontext.Value
	said  strings.Builder
}

// rpcPi starts Pi in RPC mode, without guard.
func (w *world) rpcPi(args ...string) *rpc {
	w.t.Helper()
	return w.startRPC(piNode, slices.Concat([]string{piScript, "--mode", "rpc"}, piFlags, args)...)
}

// rpcGuarded starts it under guard.
func (g *guarded) rpcGuarded() *rpc {
	g.t.Helper()
	return g.startRPC(filepath.Join(g.bin, "guard"), append([]string{"launch", "pi", "--", "--mode", "rpc"}, piFlags...)...)
}

func (w *world) startRPC(program string, args ...string) *rpc {
	w.t.Helper()
	read, in, err := os.Pipe()
	must(w.t, err)
	r := &rpc{w: w, cmd: exec.Command(program, args...), in: in, lines: make(chan jsontext.Value, 1024)}
	r.cmd.Dir, r.cmd.Env, r.cmd.Stdin, r.cmd.Stderr = w.Project, w.environ(), read, &r.said
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := r.cmd.StdoutPipe()
	must(w.t, err)
	must(w.t, r.cmd.Start())
	must(w.t, read.Close())
	go func() {
		defer close(r.lines)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 16<<20)
		for s.Scan() {
			r.lines <- slices.Clone(s.Bytes())
		}
	}()
	w.t.Cleanup(r.end)
	return r
}

// message is what these tests read of a line.
type message struct {
	Type    string         `json:"type"`
	ID      string         `json:"id"`
	Success bool           `json:"success"`
	Error   string         `json:"error"`
	Data    jsontext.Value `json:"data"`
	raw     string
}

// until reads lines up to the first that is wanted.
func (r *rpc) until(what string, want func(message) bool) message {
	r.w.t.Helper()
	over := time.After(patience)
	for {
		select {
		case line, ok := <-r.lines:
			if !ok {
				_ = r.cmd.Wait()
				r.w.t.Fatalf("Pi ended (%v) before %s: %s", r.cmd.ProcessState, what, r.said.String())
			}
			m := message{raw: string(line)}
			must(r.w.t, json.Unmarshal(line, &m, lenient))
			if want(m) {
				return m
			}
		case <-over:
			r.w.t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// do sends a command and waits for its answer.
func (r *rpc) do(command string, fields object) message {
	r.w.t.Helper()
	r.send(command, fields)
	return r.until("the answer to "+command, func(m message) bool { return m.Type == "response" && m.ID == command })
}

func (r *rpc) send(command string, fields object) {
	r.w.t.Helper()
	all := object{"type": command, "id": command}
	for k, v := range fields {
		all[k] = v
	}
	_, err := r.in.Write(append(toJSON(r.w.t, all), '\n'))
	must(r.w.t, err)
}

// prompt makes the model's next turns, to their end.
func (r *rpc) prompt(text string) {
	r.w.t.Helper()
	r.send("prompt", object{"message": text})
	r.until("the end of the turn", func(m message) bool { return m.Type == "agent_settled" })
}

// end lets Pi end by itself, as it does when its input ends.
func (r *rpc) end() {
	_ = r.in.Close()
	kill := time.AfterFunc(5*time.Second, func() { _ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) })
	defer kill.Stop()
	for range r.lines { // what it still says
	}
	_ = r.cmd.Wait()
}

// program writes an executable file below the world's directory.
func (w *world) program(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.Dir, name)
	w.write(path, text)
	must(w.t, os.Chmod(path, 0o755))
	return path
}

func readAll(path string) (string, error) {
	text, err := os.ReadFile(path)
	return string(text), err
}
