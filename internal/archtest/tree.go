// Package archtest holds the rules of leaseguard's architecture as tests: which
// package may import which, who may touch a clock or a socket's credentials,
// how large a file may grow, and that what the documents name exists.
//
// Each rule carries its reason as text, and a finding prints it: whoever breaks
// a rule reads why it is there, and either obeys or changes the rule with the
// reason in sight. The rules read sources only; they build and run nothing. A
// rule judges names, so it stops mistakes; code that wants to evade it can.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Module is the path of the module whose tree is judged.
const Module = "leaseguard.internal"

// File is one parsed Go file.
type File struct {
	Path    string // from the module's root, with slashes
	Dir     string // the package's directory from the root
	Test    bool   // a test, or a package that serves tests alone
	Lines   int
	Imports map[string]string // local name to import path
	AST     *ast.File
	fset    *token.FileSet
}

// Finding is one broken rule at one place.
type Finding struct {
	Path string
	Line int
	What string
	Why  string
}

// String returns the finding as "place: what (why)".
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s (%s)", f.Path, f.Line, f.What, f.Why)
}

// Root opens the module's tree, which is found above the working directory.
func Root() (fs.FS, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("finding module root: %w", err)
	}
	for {
		root := os.DirFS(dir)
		text, err := fs.ReadFile(root, "go.mod")
		if err == nil && strings.HasPrefix(string(text), "module "+Module+"\n") {
			return root, nil
		}
		if dir == filepath.Dir(dir) {
			return nil, fmt.Errorf("finding module root: no go.mod of %s above the working directory", Module)
		}
		dir = filepath.Dir(dir)
	}
}

// skipped says which directories hold nothing that the repository answers for:
// what is built, what git keeps, and modules of their own.
func skipped(rel string) bool {
	switch rel {
	case ".git", "bin", "dist":
		return true
	}
	return false
}

// Walk calls visit with name and text of every regular file of the tree.
func Walk(root fs.FS, visit func(rel, text string) error) error {
	return fs.WalkDir(root, ".", func(rel string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && skipped(rel) {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := fs.ReadFile(root, rel)
		if err != nil {
			return err
		}
		return visit(rel, string(text))
	})
}

// Load parses every Go file of the module at root.
func Load(root fs.FS) ([]File, error) {
	var files []File
	err := Walk(root, func(rel, text string) error {
		if !strings.HasSuffix(rel, ".go") || strings.Contains("/"+rel, "/testdata/") {
			return nil
		}
		f, err := Parse(rel, text)
		files = append(files, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("loading sources: %w", err)
	}
	return files, nil
}

// Parse reads one Go file's text under the name rel.
func Parse(rel, text string) (File, error) {
	f := File{
		Path: rel, Dir: path.Dir(rel), fset: token.NewFileSet(), Imports: map[string]string{},
		Lines: strings.Count(text, "\n"), Test: strings.HasSuffix(rel, "_test.go") || servesTests(path.Dir(rel)),
	}
	var err error
	f.AST, err = parser.ParseFile(f.fset, rel, text, parser.ParseComments)
	if err != nil {
		return f, fmt.Errorf("parsing %q: %w", rel, err)
	}
	for _, spec := range f.AST.Imports {
		target := strings.Trim(spec.Path.Value, `"`)
		name := path.Base(target)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		f.Imports[name] = target
	}
	return f, nil
}

// servesTests knows packages by name that only tests import.
func servesTests(dir string) bool {
	base := path.Base(dir)
	return base == "testproc" || strings.HasSuffix(base, "test") && base != "archtest"
}

// line returns the line of a position.
func (f File) line(pos token.Pos) int { return f.fset.Position(pos).Line }

// uses calls visit for every "package.Name" that the file mentions.
func (f File) uses(visit func(pkg, name string, pos token.Pos)) {
	ast.Inspect(f.AST, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		// An identifier that the parser resolved is a variable, not a package.
		if id, ok := sel.X.(*ast.Ident); ok && id.Obj == nil {
			if pkg, imported := f.Imports[id.Name]; imported {
				visit(pkg, sel.Sel.Name, sel.Pos())
			}
		}
		return true
	})
}

// under says whether dir is one of the roots or below one of them.
func under(dir string, roots ...string) bool {
	for _, root := range roots {
		if dir == root || strings.HasPrefix(dir, root+"/") {
			return true
		}
	}
	return false
}

// local cuts the module's own path off an import; ok is false for others.
func local(target string) (dir string, ok bool) {
	return strings.CutPrefix(target, Module+"/")
}
