package main

// codex are promises of what stands between Codex and its gate.
var codex = []mutant{
	{
		name: "codex-anybodys-line", breaks: "only who made the line is the anchor",
		file: "broker/own.go", old: `c.stdin != 0 && c.stdin == anchor.PID() && b.installedGate(c)`, new: `c.stdin != 0 && b.installedGate(c)`,
		pkg: "./broker", test: "TestAttack29_CodexLine",
	},
	{
		name: "codex-far-below", breaks: "a hook stands where Codex starts it",
		file: "broker/own.go", old: `const hookShell = 3`, new: `const hookShell = 30`,
		pkg: "./broker", test: "TestAttack29_CodexLine",
	},
	{
		name: "codex-stdin-is-no-line", breaks: "the gate of a Codex asks its line, not its stdin",
		file: "gate/exchange.go", old: `map[byte]int{hostCodex: lineFD}[c.host]`, new: `map[byte]int{}[c.host]`,
		pkg: "./gate", test: "TestCodexLine",
	},
	{
		name: "codex-any-host", breaks: "a gate speaks for its session's own host",
		file: "broker/admit.go", old: `known && host != c.host {`, new: `known && host == 0 {`,
		pkg: "./broker", test: "TestHostFitsRuntime",
	},
	{
		name: "codex-is-asked", breaks: "what Codex is told to ask is a denial",
		file: "gate/dialect/codex.go", old: `	if v.Kind == verdict.Ask || `, new: `	if `,
		pkg: "./gate/dialect", test: "TestF5_CodexAnswers",
	},
	{
		name: "codex-any-pass", breaks: "a hook lets a call pass on the form of a pass alone",
		file: "launcher/runtime/codex_hook.go", old: "\t\t`*) exit 1 ;; esac`", new: "\t\t`*) ;; esac`",
		pkg: "./launcher/runtime", test: "TestF3_CodexHookCloses",
	},
	{
		name: "codex-functions", breaks: "no function of bash's environment ends a hook",
		file: "launcher/runtime/codex_hook.go", old: `" || " + shellWords(append(clean, codexDeny))`, new: `" || { " + codexDeny + "; }"`,
		pkg: "./launcher/runtime", test: "TestF5_CodexHookAndEnvironment",
	},
}
