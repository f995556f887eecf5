package runtime

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A shape says what a value has to be. Claude drops a settings file whole when
// one value of it has another type, and says nothing of it in unattended runs:
// then the user's own denials are gone too. So a file that the client would drop
// ends the launch.
type shape func(v jsontext.Value, at string) *misfit

// misfit is a value that the client doesn't take.
type misfit struct{ at, want string }

func kindOf(want string, kinds ...jsontext.Kind) shape {
	return func(v jsontext.Value, at string) *misfit {
		if slices.Contains(kinds, v.Kind()) {
			return nil
		}
		return &misfit{at, want}
	}
}

var (
	isText    = kindOf("a string", '"')
	isBool    = kindOf("true or false", 't', 'f')
	isNumber  = kindOf("a number", '0')
	isScalar  = kindOf("a string", '"', '0', 't', 'f')
	isObject  = kindOf("an object", '{')
	isTexts   = listOf(isText)
	isEnviron = mapOf(isScalar)
)

func listOf(each shape) shape {
	return func(v jsontext.Value, at string) *misfit {
		var list []jsontext.Value
		if v.Kind() != '[' || json.Unmarshal(v, &list) != nil {
			return &misfit{at, "a list"}
		}
		for i, e := range list {
			if m := each(e, at+"["+strconv.Itoa(i)+"]"); m != nil {
				return m
			}
		}
		return nil
	}
}

func mapOf(each shape) shape {
	return func(v jsontext.Value, at string) *misfit {
		return eachKey(v, at, func(string) shape { return each })
	}
}

// record checks the keys that it knows; need must be there.
func record(known map[string]shape, need ...string) shape {
	return func(v jsontext.Value, at string) *misfit {
		if m := eachKey(v, at, func(key string) shape { return known[key] }); m != nil {
			return m
		}
		var o object
		_ = json.Unmarshal(v, &o) // eachKey has read it
		for _, key := range need {
			if _, ok := o[key]; !ok {
				return &misfit{at, "the key " + key}
			}
		}
		return nil
	}
}

func eachKey(v jsontext.Value, at string, of func(key string) shape) *misfit {
	var o object
	if v.Kind() != '{' || json.Unmarshal(v, &o) != nil {
		return &misfit{at, "an object"}
	}
	keys := make([]string, 0, len(o))
	for key := range o {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		below := key
		if at != "" {
			below = at + "." + key
		}
		if s := of(key); s != nil {
			if m := s(o[key], below); m != nil {
				return m
			}
		}
	}
	return nil
}

// positive is what a hook's timeout has to be.
func positive(v jsontext.Value, at string) *misfit {
	var n float64
	if v.Kind() != '0' || json.Unmarshal(v, &n) != nil || n <= 0 {
		return &misfit{at, "a number above 0"}
	}
	return nil
}

// hookShape is what is known of one hook.
var hookShape = record(map[string]shape{
	"type": isText, "command": isText, "args": isTexts, "timeout": positive, "onFailure": isText, "if": isText,
	"async": isBool, "asyncRewake": isBool, "once": isBool,
}, "type")

// settingsShape is what is known of settings.json. Keys that it doesn't know
// are a newer client's business.
var settingsShape = record(map[string]shape{
	"model": isText, "apiKeyHelper": isText, "outputStyle": isText, "forceLoginMethod": isText, "language": isText,
	"awsAuthRefresh": isText, "awsCredentialExport": isText, "otelHeadersHelper": isText,
	"cleanupPeriodDays": isNumber, "disableAllHooks": isBool, "includeCoAuthoredBy": isBool,
	"effortLevel": isText, "maxEffortLevel": isText, "promptCacheTtl": isText, "attribution": isObject,
	"disableWorkflows": isBool, "disableBundledSkills": isBool,
	"enableAllProjectMcpServers": isBool, "alwaysThinkingEnabled": isBool, "skipDangerousModePermissionPrompt": isBool, "respectGitignore": isBool,
	"enabledMcpjsonServers": isTexts, "disabledMcpjsonServers": isTexts,
	"env": isEnviron, "statusLine": isObject, "enabledPlugins": isObject, "sandbox": isObject,
	"permissions": record(map[string]shape{
		"allow": isTexts, "deny": isTexts, "ask": isTexts, "additionalDirectories": isTexts,
		"defaultMode": isText, "disableBypassPermissionsMode": isText, "disableAutoMode": isText,
	}),
	"hooks": mapOf(listOf(record(map[string]shape{
		"matcher": isText,
		"hooks":   listOf(hookShape),
	}, "hooks"))),
})

// serversShape is what is known of a list of MCP servers.
var serversShape = mapOf(record(map[string]shape{
	"type": isText, "command": isText, "args": isTexts, "env": isEnviron, "url": isText, "headers": isEnviron,
}))

// check applies a shape to a whole file.
func (u *userFile) check(s shape, v jsontext.Value, at string) error {
	m := s(v, at)
	if m == nil {
		return nil
	}
	return u.bad(m.at, "want "+m.want)
}

// text reads a value as the client puts it into an environment.
func text(v jsontext.Value) (string, error) {
	if v.Kind() != '"' {
		return string(v), nil
	}
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return "", fmt.Errorf("reading a string: %w", err)
	}
	return string(b), nil
}

// Names and values that no environment can hold.
var (
	errNUL  = errors.New("it holds a NUL, which no environment can")
	errName = errors.New("want a name without =")
)
