package broker

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"leaseguard.internal/internal/client"
	"leaseguard.internal/internal/paths"
	"leaseguard.internal/internal/verdict"
	"leaseguard.internal/internal/wire"
)

// raceRole makes the test program play an operator who trusts or revokes as often
// as it can.
const raceRole = "GUARD_TEST_HOOKS_RACE"

// racer is what such an operator is told, and raced what it has seen.
type racer struct {
	Paths  paths.Paths `json:"paths"`
	Key    string      `json:"key"`
	Rounds int         `json:"rounds"` // revocations; 0: it trusts until its stdin ends
}

type raced struct {
	Trusted int      `json:"trusted"`
	Refused int      `json:"refused"`
	Revoked int      `json:"revoked"`
	Undone  int      `json:"undone"` // by the next look it was trusted again, by who knew
	Faults  []string `json:"faults"`
}

func init() {
	if text := os.Getenv(raceRole); text != "" {
		var r racer
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			panic(err)
		}
		out, err := json.Marshal(r.run())
		if err != nil {
			panic(err)
		}
		fmt.Println(string(out))
		os.Exit(0)
	}
}

func (r racer) run() (got raced) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := client.Dial(r.Paths)
	fault := func(format string, args ...any) {
		if len(got.Faults) < 5 {
			got.Faults = append(got.Faults, fmt.Sprintf(format, args...))
		}
	}
	do := func(verb wire.Verb, req wire.HooksRequest) (wire.Hooks, error) {
		res, err := c.Do(ctx, wire.Control{Verb: verb, Hooks: &req}, nil)
		if err != nil || res.Hooks == nil {
			return wire.Hooks{}, err
		}
		// Whatever is trusted was trusted by somebody who had seen every revocation
		// that there has been.
		for _, d := range res.Hooks.Definitions {
			if d.Trust != nil && d.Trust.Seen != res.Hooks.Revocations {
				fault("%s: %d revocations, and trusted by who had seen %d", verb, res.Hooks.Revocations, d.Trust.Seen)
			}
		}
		return *res.Hooks, nil
	}
	files := []wire.HookFile{{SHA256: strings.Repeat("0", 64)}}
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	for range r.Rounds {
		before, err := do(wire.VerbHooks, wire.HooksRequest{})
		for err == nil && before.Definitions[0].Trust == nil {
			before, err = do(wire.VerbHooks, wire.HooksRequest{})
		}
		after := before
		if err == nil {
			after, err = do(wire.VerbHooksRevoke, wire.HooksRequest{Key: r.Key})
		}
		if err != nil || after.Revocations <= before.Revocations {
			fault("revoking: %d after %d, %v", after.Revocations, before.Revocations, err)
			return got
		}
		got.Revoked++
		if after.Definitions[0].Trust != nil {
			got.Undone++
		}
	}
	if r.Rounds > 0 {
		return got
	}
	var over atomic.Bool
	go func() { _, _ = in.ReadString('\n'); over.Store(true) }()
	for !over.Load() && len(got.Faults) == 0 {
		list, err := do(wire.VerbHooks, wire.HooksRequest{})
		if err == nil {
			_, err = do(wire.VerbHooksTrust, wire.HooksRequest{Key: r.Key, Files: files, Seen: list.Revocations})
		}
		switch {
		case err == nil:
			got.Trusted++
		case client.Refused(err, verdict.HookRevoked):
			got.Refused++
		default:
			fault("trusting: %v", err)
		}
	}
	return got
}

// TestM19_W11_NoRevocationIsLostAmongProcesses: 1,000 revocations by four processes, each
// of what another four trust again and again. None is undone by who looked before it, and what
// holds at the end is what a restarted broker reads.
func TestM19_W11_NoRevocationIsLostAmongProcesses(t *testing.T) {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		t.Setenv("TMPDIR", "/dev/shm") // nothing here is about what a disk keeps, and 2,000 commits wait for it
	}
	f := bareFixture(t)
	config := filepath.Join(f.dir, ".config", "guard")
	f.must(os.MkdirAll(config, 0o700))
	f.must(os.WriteFile(filepath.Join(config, "hooks.json"), []byte(`{"version":1,"hooks":{"PreToolUse":[{"hooks":[{"id":"a","type":"command","command":"/bin/true"}]}]}}`), 0o600))
	f.start(nil)
	look := func() wire.Hooks {
		res, err := client.Dial(f.opt.Paths).Do(t.Context(), wire.Control{Verb: wire.VerbHooks}, nil)
		f.must(err)
		if len(res.Hooks.Definitions) != 1 {
			t.Fatalf("%+v", res.Hooks)
		}
		return *res.Hooks
	}
	key := look().Definitions[0].Key
	const each, rounds = 4, 250
	var all raced
	done, over := make(chan raced), make(chan struct{})
	var starts []chan struct{}
	for i := range 2 * each {
		start := make(chan struct{})
		starts = append(starts, start)
		go func() { done <- race(t, racer{f.opt.Paths, key, i % 2 * rounds}, start, over) }()
	}
	for _, start := range starts {
		<-start
	}
	for _, start := range starts {
		start <- struct{}{}
	}
	for n := range 2 * each {
		if n == each {
			close(over) // those that revoke are done
		}
		r := <-done
		all.Trusted, all.Refused, all.Revoked, all.Undone = all.Trusted+r.Trusted, all.Refused+r.Refused, all.Revoked+r.Revoked, all.Undone+r.Undone
		all.Faults = append(all.Faults, r.Faults...)
	}
	t.Logf("trusted %d, refused %d, revoked %d, of these trusted again at once %d", all.Trusted, all.Refused, all.Revoked, all.Undone)
	if len(all.Faults) > 0 || all.Revoked != each*rounds || all.Trusted < rounds || all.Refused == 0 {
		t.Errorf("%+v", all)
	}
	last := look()
	if last.Revocations != each*rounds {
		t.Errorf("%d revocations are kept", last.Revocations)
	}
	f.stop()
	f.start(nil)
	now := look()
	if now.Revocations != last.Revocations || (now.Definitions[0].Trust == nil) != (last.Definitions[0].Trust == nil) {
		t.Errorf("after a restart: %+v, before it: %+v", now, last)
	}
}

// race runs one such process. It says on start when it is ready, begins when it is
// told there, and is told when all is over.
func race(t *testing.T, r racer, start, over chan struct{}) (got raced) {
	fail := func(err error) raced {
		close(start)
		return raced{Faults: []string{err.Error()}}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return fail(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env, cmd.Stderr = append(os.Environ(), raceRole+"="+string(text)), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return fail(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() || lines.Text() != "ready" {
		return fail(fmt.Errorf("it began with %q", lines.Text()))
	}
	start <- struct{}{}
	<-start
	_, _ = in.Write([]byte("\n"))
	if r.Rounds == 0 {
		<-over
	}
	_ = in.Close()
	lines.Scan()
	err = json.Unmarshal(lines.Bytes(), &got)
	if err := cmd.Wait(); err != nil {
		got.Faults = append(got.Faults, err.Error())
	}
	if err != nil {
		got.Faults = append(got.Faults, err.Error())
	}
	return got
}
