//go:build hosts

package hosts

import (
	"bytes"
	"context"
	_ "embed" // for the harness
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	host "leaseguard.internal/launcher/runtime"
)

//go:embed testdata/pi_harness.mjs
var piHarness string

// stage is guard's extension alone, under the pinned node, as the loader of the
// pinned Pi loads it; Pi is played, and its gate is a shell script.
type stage struct {
	t         *testing.T
	dir, gate string
	with      object // over the defaults of GUARD_PI
	env       []string
	exit      int // of the played Pi
}

func newStage(t *testing.T, gate string) *stage {
	t.Helper()
	dir, err := os.MkdirTemp("", "x")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &stage{t: t, dir: dir, gate: filepath.Join(dir, "gate"), with: object{}}
	must(t, os.WriteFile(s.extension(), host.PiExtension, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "harness.mjs"), []byte(piHarness), 0o644))
	if gate != "" {
		must(t, os.WriteFile(s.gate, []byte("#!/bin/sh\n"+strings.ReplaceAll(gate, "LOG", filepath.Join(dir, "log"))), 0o755))
	}
	return s
}

func (s *stage) extension() string { return filepath.Join(s.dir, "guard.js") }

// log is what the gate has written down, line by line.
func (s *stage) log() []string {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// answer is what a step came to: nothing, which lets a call pass, or more.
type answer struct {
	Block   bool   `json:"block"`
	Reason  string `json:"reason"`
	Threw   string `json:"threw"`
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	Result struct {
		Output   string `json:"output"`
		ExitCode int    `json:"exitCode"`
	} `json:"result"`
	raw string
}

func (a answer) passed() bool { return a.raw == "null" }

// settings are what the launcher puts into GUARD_PI.
func (s *stage) settings() object {
	all := object{"gate": s.gate, "args": []string{"pi", "--socket", "/s"}, "deadline": 20, "guard": "/bin/false", "server": ""}
	for k, v := range s.with {
		all[k] = v
	}
	return all
}

// play carries steps out and returns what came of each, as far as Pi lived.
func (s *stage) play(steps ...any) (answers []answer) {
	s.t.Helper()
	jiti := filepath.Join(filepath.Dir(piScript), "../../../../jiti/lib/jiti.mjs")
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, piNode, filepath.Join(s.dir, "harness.mjs"), jiti, s.extension(), string(toJSON(s.t, steps)))
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=/home/u", "JITI_FS_CACHE=false", "GUARD_PI=" + string(toJSON(s.t, s.settings()))}, s.env...)
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	s.exit = cmd.ProcessState.ExitCode()
	for _, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		if line == "" {
			continue
		}
		a := answer{raw: line}
		if line[0] == '{' {
			must(s.t, json.Unmarshal([]byte(line), &a, lenient))
		}
		answers = append(answers, a)
	}
	if len(answers) == 0 {
		s.t.Fatalf("the played Pi said nothing: %v\n%s", err, errs.String())
	}
	return answers
}

var (
	load    = object{"load": true}
	bashRan = object{"event": "tool_result", "arg": object{"toolName": "bash", "toolCallId": "c1", "input": object{"command": "id"}, "content": []any{object{"type": "text", "text": "uid"}}}}
)

func toolCall(tool string, input any) object {
	return object{"event": "tool_call", "arg": object{"toolName": tool, "toolCallId": "c1", "input": input}}
}

// judge asks about one call, with steps before it, after the extension was loaded.
func (s *stage) judge(before ...any) answer {
	s.t.Helper()
	answers := s.play(append(append([]any{load}, before...), toolCall("bash", object{"command": "id"}))...)
	if answers[0].raw != `"loaded"` {
		s.t.Fatalf("not loaded: %s", answers[0].raw)
	}
	return answers[len(answers)-1]
}

// observed is a gate that takes what it is told and answers calls with the rest.
func observed(gate string) string {
	return "cat >/dev/null; case \"$*\" in *observe*) exit 0;; esac\n" + gate
}
