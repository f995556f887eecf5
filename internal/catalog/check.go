package catalog

import (
	"fmt"
	"slices"
	"strings"

	"leaseguard.internal/internal/strictjson"
	"leaseguard.internal/internal/verdict"
)

// changesSelf are the tools of the hosts themselves that change the machine
// they run on. No catalog can call them read-only.
var changesSelf = []string{
	"Bash", "CronCreate", "CronDelete", "Edit", "EnterWorktree", "ExitWorktree", "Monitor", "MultiEdit",
	"NotebookEdit", "ScheduleWakeup", "Skill", "Workflow", "Write",
}

// BuiltinMutators returns the hosts' own changing tools, as this package knows
// them.
func BuiltinMutators() []string { return slices.Clone(changesSelf) }

// Error is what is wrong with one entry.
type Error struct {
	Line    int    // of the entry in guard.toml
	Key     string // of [[tool]]
	Problem string // what is wrong with it, and what to do
}

// Error says all of it.
func (e *Error) Error() string {
	return fmt.Sprintf("line %d: tool.%s: %s", e.Line, e.Key, e.Problem)
}

func (e *Entry) fault(key, format string, args ...any) *Error {
	return &Error{Line: e.Line, Key: key, Problem: fmt.Sprintf(format, args...)}
}

// check tests one entry by itself.
func (e *Entry) check() error {
	for _, test := range []func() *Error{e.checkMatch, e.checkClass, e.checkTarget} {
		if err := test(); err != nil {
			return err
		}
	}
	return nil
}

func (e *Entry) checkMatch() *Error {
	text, _ := strings.CutSuffix(e.Match, "*")
	switch {
	case e.Match == "":
		return e.fault("match", "missing; give the tool's exact name, or a prefix with one * at its end")
	case strings.Contains(text, "*"):
		return e.fault("match", "%s has a * before its end; a * stands for the rest of a name, so write a prefix with one * at its end", verdict.Object(e.Match))
	}
	return nil
}

func (e *Entry) checkClass() *Error {
	switch e.Class {
	case Mutating:
		return nil
	case ReadOnly:
		if tool, ok := e.coversBuiltin(); ok {
			return e.fault("class", `%s covers %s, a changing tool of the host itself, which is never read_only; write class = "mutating", or a longer match`, verdict.Object(e.Match), tool)
		}
		return nil
	default:
		return e.fault("class", `missing; write class = "mutating" or class = "read_only"`)
	}
}

func (e *Entry) coversBuiltin() (string, bool) {
	for _, tool := range changesSelf {
		if Covers(e.Match, tool) {
			return tool, true
		}
	}
	return "", false
}

// checkTarget tests the keys that name the machine.
func (e *Entry) checkTarget() *Error {
	if e.VMKind != ByName && e.VMKind != ByIdentifier {
		return e.fault("vm_kind", `%s is neither "name" nor "identifier"; write one of these`, verdict.Object(e.VMKind))
	}
	if e.Reuse < 0 || e.Reuse > MaxReuse {
		return e.fault("reuse", "%v is out of range; write 0s to %v", e.Reuse, MaxReuse)
	}
	switch {
	case e.VMArg != "" && len(e.VM) > 0:
		return e.fault("vm", "vm_arg is given too; keep one of them")
	case e.VMArg != "":
		if strictjson.CheckPath(e.VMArg) != nil {
			return e.fault("vm_arg", "%s is no path into the arguments; write keys and indexes such as vm_name or spec.vms[0]", verdict.Object(e.VMArg))
		}
	case len(e.VM) == 0 && (e.VPG != "" || e.Reuse > 0 || e.VMKind != ByName):
		return e.fault("vm_arg", "missing, while vpg, reuse or vm_kind speak of a machine; add vm_arg or vm, or remove them")
	}
	if e.Class == ReadOnly && (e.VMArg != "" || len(e.VM) > 0) {
		return e.fault("class", "read_only needs no machine; remove vm_arg and vm, or write class = \"mutating\"")
	}
	return e.checkVM()
}

func (e *Entry) checkVM() *Error {
	if len(e.VM) > MaxTargets {
		return e.fault("vm", "%d machines; list at most %d", len(e.VM), MaxTargets)
	}
	for i, name := range e.VM {
		if name == "" || len(name) > maxName {
			return e.fault("vm", "a name of %d bytes; write 1 to %d", len(name), maxName)
		}
		if slices.Contains(e.VM[:i], name) {
			return e.fault("vm", "%s is there twice; remove one", verdict.Object(name))
		}
	}
	return nil
}
