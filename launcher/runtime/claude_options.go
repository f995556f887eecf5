package runtime

import "strings"

// Why an option of Claude is refused.
const (
	whyHooks    = "it runs the client without guard's hooks"
	whySettings = "guard's own settings must be the only ones given"
	whyServers  = "guard gives the list of MCP servers; put yours into the user's configuration with: claude mcp add --scope user"
	whyPlugin   = "a plugin brings hooks and servers that were not proved"
	whyAgents   = "agents given so may bring hooks and servers of their own"
	whyAway     = "it runs or opens the session outside of the process that guard holds"
	whyControl  = "its stream takes orders that replace hooks and start servers"
	whyConfig   = "guard's own flags come first: guard launch claudex --config-dir DIR -- ARGS"
	whyPrompts  = "it would answer the client's permission prompts in a person's place"
)

// Claude is the table of the tested version. What an older or newer client
// understands beside it is refused as unknown.
var Claude = Table{Runtime: "claude", Version: Tested, Options: claudeOptions(), Commands: claudeCommands}

// Claudex is the same client; its directory is guard's to choose.
var Claudex = Table{
	Runtime: "claudex", Version: Tested, Commands: claudeCommands,
	Options: append(claudeOptions(), Option{Names: []string{"--config-dir"}, Arity: One, Why: whyConfig, Hidden: true}),
}

// claudeCommands are the words that the client takes for a command wherever its
// first operand stands, those that --help doesn't show included.
var claudeCommands = strings.Fields(`agents attach auth auto-mode doctor gateway import install logs mcp plugin plugins purge
	respawn rm setup-token stop kill ultrareview update upgrade
	bridge daemon import-conversations open ps rc remote remote-control self-hosted-agent-proxy self-hosted-runner server ssh sync`)

func claudeOptions() []Option {
	var all []Option
	add := func(arity Arity, why string, hidden bool, lines string) {
		all = append(all, rows(lines, Option{Arity: arity, Why: why, Hidden: hidden})...)
	}
	add(None, "", false, letFlags)
	add(One, "", false, letOne)
	add(Optional, "", false, letOptional)
	add(Many, "", false, letMany)
	add(One, "", true, letHidden)
	add(None, whyHooks, false, "--bare\n--safe-mode")
	add(One, whySettings, false, "--settings\n--setting-sources")
	add(One, whySettings, true, "--managed-settings")
	add(None, whySettings, true, "--managed-settings-in-initialize")
	add(Many, whyServers, false, "--mcp-config")
	add(None, whyServers, false, "--strict-mcp-config")
	add(One, whyPlugin, false, "--plugin-dir\n--plugin-url")
	add(One, whyPlugin, true, "--plugin-dir-no-mcp")
	add(One, whyAgents, false, "--agents")
	add(One, whyControl, false, "--input-format")
	add(One, whyPrompts, true, "--permission-prompt-tool")
	add(None, whyAway, false, "--bg --background\n--desktop\n--tmux")
	add(Optional, whyAway, false, "--cloud\n--teleport\n--remote-control")
	add(One, whyAway, false, "--environment\n--remote-control-session-name-prefix")
	add(Optional, whyAway, true, "--remote\n--rc")
	add(One, whyAway, true, "--sdk-url\n--attach-serve\n--handle-uri\n--exec\n--teammate-mode")
	return all
}

// Options that pass, one a line with all its names.
const (
	letFlags = `
		--allow-dangerously-skip-permissions
		--ax-screen-reader
		--brief
		--chrome
		-c --continue
		--dangerously-skip-permissions
		--disable-slash-commands
		--exclude-dynamic-system-prompt-sections
		--fork-session
		--forward-subagent-text
		-h --help
		--ide
		--include-hook-events
		--include-partial-messages
		--no-chrome
		--no-session-persistence
		-p --print
		--replay-user-messages
		--restricted
		--verbose
		-v --version`
	letOne = `
		--agent
		--append-system-prompt
		--autocompact
		--debug-file
		--effort
		--fallback-model
		--json-schema
		--max-budget-usd
		--model
		-n --name
		--output-format
		--permission-mode
		--permission-prompts
		--session-id
		--system-prompt
		--system-prompt-snapshot`
	letOptional = `
		-d --debug
		--from-pr
		--prompt-suggestions
		-r --resume
		-w --worktree`
	letMany = `
		--add-dir
		--allowedTools --allowed-tools
		--betas
		--disallowedTools --disallowed-tools
		--file
		--tools`
	letHidden = `
		--append-system-prompt-file
		--max-thinking-tokens
		--max-turns
		--system-prompt-file
		--thinking`
)
