package archtest

import (
	"fmt"
	"go/ast"
)

// The ceilings. They stand well above what is usual in the tree.
const (
	MaxFileLines = 300 // of a file that is no test
	MaxFuncLines = 80
	MaxGateLines = 310 // of the whole gate
)

const (
	whyFile = "one file holds one concept; what outgrows this ceiling holds two"
	whyFunc = "a function fits a screen, or a reader of a security product misses a path"
	whyGate = "the gate has to be readable in one sitting"
)

// CheckSizes applies the ceilings to files and functions.
func CheckSizes(files []File) []Finding {
	var found []Finding
	gate := 0
	for _, f := range files {
		if f.Dir == "gate" && !f.Test {
			gate += f.Lines
		}
		if !f.Test && f.Lines > MaxFileLines {
			found = append(found, Finding{f.Path, f.Lines, fmt.Sprintf("has %d lines, at most %d", f.Lines, MaxFileLines), whyFile})
		}
		for _, decl := range f.AST.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || f.Test {
				continue
			}
			if n := f.line(fn.End()) - f.line(fn.Pos()) + 1; n > MaxFuncLines {
				found = append(found, Finding{f.Path, f.line(fn.Pos()), fmt.Sprintf("%s has %d lines, at most %d", fn.Name.Name, n, MaxFuncLines), whyFunc})
			}
		}
	}
	if gate > MaxGateLines {
		found = append(found, Finding{"gate", gate, fmt.Sprintf("has %d lines in all, at most %d", gate, MaxGateLines), whyGate})
	}
	return found
}

// CheckManuals wants a package comment in every package that is no test.
func CheckManuals(files []File) []Finding {
	const why = "a package comment is its small manual: what it promises and what it doesn't protect"
	documented, first := map[string]bool{}, map[string]string{}
	for _, f := range files {
		if f.Test {
			continue
		}
		if _, seen := first[f.Dir]; !seen {
			first[f.Dir] = f.Path
		}
		if f.AST.Doc != nil {
			documented[f.Dir] = true
		}
	}
	var found []Finding
	for dir, path := range first {
		if !documented[dir] {
			found = append(found, Finding{path, 1, "package " + dir + " has no package comment", why})
		}
	}
	return found
}
