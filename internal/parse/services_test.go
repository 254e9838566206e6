package parse

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestServicesAreListed looks up every name that the code here gives an event
// as its service, and every name of a pack.
func TestServicesAreListed(t *testing.T) {
	listed := Services()
	if !slices.IsSorted(listed) || !slices.IsSorted(families) && len(families) == 0 {
		t.Errorf("not sorted: %v", listed)
	}
	var files []string
	for _, dir := range []string{".", "auth", "mail", "web", "db", "network"} {
		found, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	named := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		src, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(src, func(n ast.Node) bool {
			for _, e := range namesService(n) {
				if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					s, _ := strconv.Unquote(lit.Value)
					named[s] = true
				}
			}
			return true
		})
	}
	if len(named) < 40 {
		t.Errorf("only %d names found in the code", len(named))
	}
	for s := range named {
		if !slices.Contains(listed, s) {
			t.Errorf("%s is not listed", s)
		}
	}
	for _, s := range families {
		if !named[s] {
			t.Errorf("%s is listed, but no code here says so", s)
		}
	}
}

// namesService returns what n makes the service of an event: what is assigned
// to a Service, given to Event.Set, or returned by a function that is named after it.
func namesService(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, l := range n.Lhs {
			if sel, ok := l.(*ast.SelectorExpr); ok && sel.Sel.Name == "Service" && i < len(n.Rhs) {
				return n.Rhs[i : i+1]
			}
		}
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Set" && len(n.Args) > 1 {
			return n.Args[:1]
		}
	case *ast.FuncDecl:
		if strings.HasSuffix(strings.ToLower(n.Name.Name), "service") && n.Name.Name != "ConnID" {
			return returned(n)
		}
	}
	return nil
}

func returned(f *ast.FuncDecl) (out []ast.Expr) {
	ast.Inspect(f, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 1 {
			out = append(out, r.Results[0])
		}
		return true
	})
	return out
}
