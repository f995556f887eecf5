package launcher

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"leaseguard.internal/internal/verdict"
	host "leaseguard.internal/launcher/runtime"
)

// maxAnswer bounds a line of the client's app-server.
const maxAnswer = 4 << 20

// hello is what the client's app-server is told first.
const hello = `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"guard","version":"1"},"capabilities":{"experimentalApi":true}}}` +
	"\n" + `{"method":"initialized"}` + "\n"

// codexAnswer is what the client says of the hooks that it has found.
type codexAnswer struct {
	ID     int `json:"id"`
	Result struct {
		Data []struct {
			Hooks  []host.CodexHook `json:"hooks"`
			Errors []jsontext.Value `json:"errors"`
		} `json:"data"`
	} `json:"result"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
}

// listHooks asks the client which hooks it would run in this directory. It skips
// one that it doesn't trust, or can't read, without a word; and one that runs
// beside the gate may change a call after it was judged.
func (c *codex) listHooks(ctx context.Context, in host.CodexInstall, p *proof) error {
	args, err := in.Args(c.user)
	if err != nil {
		return err
	}
	dir, err := workingDir()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	answer, err := c.askHooks(ctx, append(args, "app-server"), dir)
	switch {
	case err != nil:
		return p.unproved("it doesn't say which hooks it would run: " + errors.Join(err, ctx.Err()).Error())
	case len(answer.Result.Data) != 1 || len(answer.Result.Data[0].Errors) > 0:
		said := answer.Error.Message
		for _, d := range answer.Result.Data {
			said += fmt.Sprintf("%s", d.Errors)
		}
		return p.unproved("it can't say which hooks it would run: " + verdict.Object(said))
	}
	if cause, next := in.CheckHooks(answer.Result.Data[0].Hooks); cause != "" {
		return p.unproved(cause, next)
	}
	return nil
}

// askHooks runs the client's app-server for one question, and ends it.
func (c *codex) askHooks(ctx context.Context, args []string, dir string) (codexAnswer, error) {
	cmd := together(ctx, c.client.Path, args...)
	cmd.Args[0], cmd.Env = "codex", c.env.Vars // as the session: it may ask the service
	said := &tail{}
	cmd.Stderr = said
	question, err := json.Marshal(map[string]any{"id": 2, "method": "hooks/list", "params": map[string]any{"cwds": []string{dir}}})
	if err != nil {
		return codexAnswer{}, err
	}
	in, err := cmd.StdinPipe() // open until the answer is there: at its end the client ends
	if err != nil {
		return codexAnswer{}, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return codexAnswer{}, err
	}
	_, _ = io.WriteString(in, hello+string(question)+"\n") // less than a pipe holds; if the client is gone, so is its answer
	answer, err := readAnswer(out)
	if err != nil {
		err = errors.New(err.Error() + ": " + said.last())
	}
	_ = cmd.Cancel()
	_ = cmd.Wait() // it was killed
	return answer, err
}

// readAnswer finds the answer to question 2 among what the client says.
func readAnswer(out io.Reader) (codexAnswer, error) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		var a codexAnswer
		if json.Unmarshal(lines.Bytes(), &a) == nil && a.ID == 2 {
			return a, nil
		}
	}
	if err := lines.Err(); err != nil {
		return codexAnswer{}, err
	}
	return codexAnswer{}, errors.New("it ended without an answer")
}
