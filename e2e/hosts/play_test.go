//go:build hosts

package hosts

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// record writes data as a new file of dir, whole or not at all. Names sort by
// time.
func record(dir, kind string, data []byte) error {
	f, err := os.CreateTemp(dir, ".*")
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(dir, fmt.Sprintf("%020d-%d-%s", time.Now().UnixNano(), os.Getpid(), kind)))
}

// playHook is a hook: play-hook DIR TOOL REASON. It records its payload, and
// denies calls of TOOL ("*" for any; PreToolUse only) in the form that the gate
// uses.
func playHook(args []string) int {
	dir, tool, reason := args[0], args[1], args[2]
	payload, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = record(dir, "hook", payload)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "recording hook:", err)
		return 2
	}
	var p struct {
		Event string `json:"hook_event_name"`
		Tool  string `json:"tool_name"`
	}
	if err := json.Unmarshal(payload, &p, lenient); err != nil {
		fmt.Fprintln(os.Stderr, "reading payload:", err)
		return 2
	}
	if p.Event != "PreToolUse" || tool != "*" && tool != p.Tool {
		return 0
	}
	out, err := json.Marshal(denyJSON(reason))
	if err != nil {
		return 2
	}
	_, _ = os.Stdout.Write(out)
	fmt.Fprint(os.Stderr, reason)
	return 2
}

// playRewrite is another's hook, which changes what a tool is called with:
// play-rewrite INPUT.
func playRewrite(args []string) int {
	_, _ = io.Copy(io.Discard, os.Stdin)
	out, err := json.Marshal(map[string]any{"hookSpecificOutput": map[string]any{
		"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": jsontext.Value(args[0]),
	}})
	if err != nil {
		return 2
	}
	_, _ = os.Stdout.Write(out)
	return 0
}

func denyJSON(reason string) any {
	return map[string]any{"hookSpecificOutput": map[string]any{
		"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason,
	}}
}

// playMCP is an MCP server on stdio: play-mcp DIR TOOL... Each tool takes any
// object, records it, and says what it was called with. A tool whose name ends
// in "_fails" answers with an error.
func playMCP(args []string) int {
	dir, tools := args[0], args[1:]
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var m struct {
			ID     jsontext.Value `json:"id"`
			Method string         `json:"method"`
			Params jsontext.Value `json:"params"`
		}
		if err := json.Unmarshal(in.Bytes(), &m, lenient); err != nil || m.ID == nil {
			continue // a notification
		}
		answer := map[string]any{"jsonrpc": "2.0", "id": m.ID}
		if result, err := serveMCP(dir, tools, m.Method, m.Params); err != nil {
			answer["error"] = map[string]any{"code": -32601, "message": err.Error()}
		} else {
			answer["result"] = result
		}
		out, err := json.Marshal(answer, lenient)
		if err != nil {
			return 1
		}
		fmt.Fprintf(os.Stdout, "%s\n", out)
	}
	return 0
}

func serveMCP(dir string, tools []string, method string, params jsontext.Value) (any, error) {
	var p struct {
		Version   string         `json:"protocolVersion"`
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if params != nil {
		if err := json.Unmarshal(params, &p, lenient); err != nil {
			return nil, err
		}
	}
	switch method {
	case "initialize":
		return map[string]any{
			"protocolVersion": p.Version, "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "stub", "version": "1"},
		}, nil
	case "tools/list":
		var list []any
		for _, name := range tools {
			list = append(list, map[string]any{"name": name, "description": "stub " + name, "inputSchema": map[string]any{"type": "object", "additionalProperties": true}})
		}
		return map[string]any{"tools": list}, nil
	case "tools/call":
		if err := record(dir, "mcp-"+p.Name, p.Arguments); err != nil {
			return nil, err
		}
		return map[string]any{
			"content": []any{map[string]any{"type": "text", "text": "ran " + p.Name + " " + string(p.Arguments)}},
			"isError": strings.HasSuffix(p.Name, "_fails"),
		}, nil
	default:
		return nil, fmt.Errorf("no method %q", method)
	}
}
