package runtime

import (
	"slices"
	"strings"
)

// Why an option of Codex is refused.
const (
	whyTrust     = "hooks of projects and plugins would run that nobody has looked at, and may change a call after it was judged"
	whyRemote    = "it opens the session in another process than the one that guard holds"
	whyWorktree  = "it moves the session to a directory that is made only then; make the worktree yourself, and launch there"
	whyElsewhere = "hooks would run in a directory that the broker doesn't watch; change to it, and launch there"
	whyPersist   = "it has the client trust the project from now on, with its servers and hooks"
	whyKey       = "that key is not among those that change no hook, tool or server; what is meant for good goes into the user's config.toml, which guard looks through"
	whyFeature   = "that feature is not among those that change no hook, tool or server; what is meant for good goes into the user's config.toml, which guard looks through"
	whySandboxed = `launch.codex_sandbox = "read-only" has chosen the sandbox`
)

// codexCommands are the words that make the client something else than a session
// of its own. A session is begun by none, exec, e, review, resume or fork.
var codexCommands = strings.Fields(`agents login logout mcp plugin app-server remote-control completion update doctor
	sandbox debug apply a queue archive delete migrate-rollouts migrate-nfs-db unarchive cloud exec-server features help
	app cloud-tasks execpolicy proto responses-api-proxy stdio-to-uds mcp-server`)

// codexKeys are the first words of what -c may set. model_providers isn't among
// them: a provider may have a program print its credential.
var codexKeys = []string{
	"model", "model_provider", "model_reasoning_*", "model_verbosity", "model_context_window", "model_auto_compact_*", "model_instructions_file", "model_catalog_json",
	"review_model", "oss_provider", "service_tier", "personality", "plan_mode_reasoning_effort",
	"approval_policy", "approvals_reviewer", "web_search", "tools", "tool_output_token_limit",
	"developer_instructions", "instructions", "compact_prompt", "experimental_compact_prompt_file", "project_doc_*",
	"tui", "history", "file_opener", "hide_agent_reasoning", "show_raw_agent_reasoning", "check_for_update_on_startup", "analytics", "log_dir",
	"openai_base_url",
}

// codexSandboxKeys may be set unless guard has chosen the sandbox.
var codexSandboxKeys = []string{"sandbox_mode", "sandbox_workspace_write", "default_permissions", "permissions"}

// codexFeatures are what --enable and --disable may name.
var codexFeatures = strings.Fields(`apps fast_mode ultrafast_mode goals memories multi_agent personality prevent_idle_sleep
	tool_suggest undo view_image web_search_cached web_search_request workspace_dependencies`)

// CodexTable is what the tested version takes, at all commands that begin a
// session together. readOnly: guard has chosen the sandbox.
func CodexTable(readOnly bool) Table {
	sandboxed, keys := "", codexKeys
	if readOnly {
		sandboxed = whySandboxed
	} else {
		keys = append(slices.Clone(keys), codexSandboxKeys...)
	}
	t := Table{Runtime: "codex", Version: CodexTested, Commands: codexCommands, Alone: []string{"exec", "e", "review"}}
	add := func(arity Arity, why, lines string) {
		t.Options = append(t.Options, rows(lines, Option{Arity: arity, Why: why})...)
	}
	add(None, "", codexLetFlags)
	add(One, "", codexLetOne)
	add(Many, "", "-i --image")
	add(One, sandboxed, "-s --sandbox")
	add(None, sandboxed, "--dangerously-bypass-approvals-and-sandbox\n--approve-for-me")
	add(None, whyTrust, "--dangerously-bypass-hook-trust")
	add(One, whyRemote, "--remote\n--remote-auth-token-env")
	add(None, whyWorktree, "--worktree")
	add(One, whyElsewhere, "-C --cd")
	add(None, whyPersist, "--trust")
	t.Options = append(t.Options,
		Option{Names: []string{"-c", "--config"}, Arity: One, Check: func(v string) string {
			key, _, _ := strings.Cut(v, "=")
			key = strings.TrimSpace(key)
			first, second, _ := strings.Cut(key, ".")
			// One of these moves the session too, and a whole table may hold it.
			if first == "tui" && (second == "" || second == "resume_cwd" || strings.ContainsAny(second, "\"'")) {
				return whyElsewhere
			}
			return unless(fits(first, keys), whyKey)
		}},
		Option{Names: []string{"--enable"}, Arity: One, Check: codexFeature},
		Option{Names: []string{"--disable"}, Arity: One, Check: codexFeature},
	)
	return t
}

func codexFeature(name string) string {
	return unless(slices.Contains(codexFeatures, name), whyFeature)
}

func unless(ok bool, why string) string {
	if ok {
		return ""
	}
	return why
}

// Options that pass, one a line with all its names.
const (
	codexLetFlags = `
		--all
		--ephemeral
		-h --help
		--ignore-rules
		--ignore-user-config
		--include-non-interactive
		--json
		--last
		--no-alt-screen
		--no-daemon
		--oss
		--search
		--skip-git-repo-check
		--strict-config
		--uncommitted
		-V --version`
	codexLetOne = `
		--add-dir
		-a --ask-for-approval
		--base
		--color
		--commit
		--cyber-access-program
		--local-provider
		-m --model
		-o --output-last-message
		--output-schema
		-p --profile
		--thread-source
		--title`
)
