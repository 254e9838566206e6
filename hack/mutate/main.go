// Mutate changes one thing at a time in a package and runs its tests: a change
// that no test notices is printed. It changes no file; the go command reads the
// changed source through an overlay.
//
//	go run ./hack/mutate -n 40 -timeout 60s ./internal/pipeline
//
// -n bounds how many changes are tried, -seed chooses which, -file keeps to
// files whose paths match a regular expression. A change that does not compile is
// no mutant; one that runs into the timeout was noticed. Statements that only log
// and checks of err are left alone.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// mutant is one change of one file.
type mutant struct {
	file, what string
	source     []byte
}

func main() {
	n := flag.Int("n", 40, "most changes to try")
	seed := flag.Uint64("seed", 1, "which of them")
	only := flag.String("file", "", "only files whose paths match this regular expression")
	run := flag.String("run", "", "only tests that match, as of go test")
	slow := flag.String("slow", "", "tests that match run only for changes that the others do not notice")
	verbose := flag.Bool("v", false, "print the changes that tests notice, too")
	timeout := flag.Duration("timeout", time.Minute, "of the tests of one change")
	flag.Parse()
	dir := flag.Arg(0)
	files, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate: -file:", err)
		os.Exit(2)
	}
	all, err := mutants(dir, files)
	if err != nil || len(all) == 0 {
		fmt.Fprintln(os.Stderr, "mutate: no mutants in", dir, err)
		os.Exit(2)
	}
	if alive, built := (&mutant{}).test(dir, *run, *slow, *timeout); !built || !alive {
		fmt.Fprintln(os.Stderr, "mutate: the tests of", dir, "fail without any change, or take longer than", *timeout)
		os.Exit(2)
	}
	r := rand.New(rand.NewPCG(*seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	tried, survived := 0, 0
	for _, m := range all {
		if tried >= *n {
			break
		}
		switch alive, built := m.test(dir, *run, *slow, *timeout); {
		case !built:
			continue
		case alive:
			survived++
			fmt.Println("survived:", m.what)
		case *verbose:
			fmt.Println("noticed:", m.what)
		}
		tried++
	}
	fmt.Printf("%d of %d changes tried, %d survived\n", tried, len(all), survived)
	if survived > 0 {
		os.Exit(1)
	}
}

// mutants lists the changes of a package's files.
func mutants(dir string, only *regexp.Regexp) (out []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") || !only.MatchString(path) {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		add := func(at token.Pos, what string) {
			var b bytes.Buffer
			if format.Node(&b, fset, f) == nil {
				out = append(out, mutant{path, fmt.Sprintf("%s: %s", fset.Position(at), what), b.Bytes()})
			}
		}
		ast.Inspect(f, func(n ast.Node) bool { change(n, add); return true })
	}
	return out, err
}

var swaps = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.ADD: token.SUB, token.SUB: token.ADD,
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
}

// change makes each change at a node, has it added, and takes it back.
func change(n ast.Node, add func(token.Pos, string)) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		changeBinary(n, add)
	case *ast.IfStmt:
		changeIf(n, add)
	case *ast.BlockStmt:
		dropStatements(n.List, add)
	case *ast.CaseClause:
		dropStatements(n.Body, add)
	case *ast.CompositeLit:
		for i, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				all := n.Elts
				n.Elts = append(append([]ast.Expr{}, all[:i]...), all[i+1:]...)
				add(kv.Pos(), "element dropped")
				n.Elts = all
			}
		}
	case *ast.ReturnStmt:
		for i, e := range n.Results {
			if id, ok := e.(*ast.Ident); ok && (id.Name == "true" || id.Name == "false") {
				n.Results[i] = &ast.UnaryExpr{Op: token.NOT, X: id}
				add(e.Pos(), id.Name+" returned as its opposite")
				n.Results[i] = e
			}
		}
	}
}

// changeBinary makes one operand of && or || all that counts, and swaps other
// operators.
func changeBinary(n *ast.BinaryExpr, add func(token.Pos, string)) {
	was := *n
	switch neutral := map[token.Token]string{token.LAND: "true", token.LOR: "false"}[n.Op]; {
	case neutral != "":
		n.X = constant(was.X, neutral)
		add(was.X.Pos(), "left of "+n.Op.String()+" dropped")
		n.X = was.X
		n.Y = constant(was.Y, neutral)
		add(was.Y.Pos(), "right of "+n.Op.String()+" dropped")
	case swaps[n.Op] != token.ILLEGAL:
		n.Op = swaps[was.Op]
		add(n.OpPos, was.Op.String()+" becomes "+n.Op.String())
	}
	*n = was
}

// changeIf makes a condition always and never true. An error that no test can
// cause is not left unhandled.
func changeIf(n *ast.IfStmt, add func(token.Pos, string)) {
	cond := n.Cond
	n.Cond = constant(cond, "true")
	add(n.If, "if always")
	if !isErrCheck(cond) {
		n.Cond = constant(cond, "false")
		add(n.If, "if never")
	}
	n.Cond = cond
}

// constant is value, in an expression that still uses what x uses.
func constant(x ast.Expr, value string) ast.Expr {
	op := map[string]token.Token{"true": token.LOR, "false": token.LAND}[value]
	return &ast.ParenExpr{X: &ast.BinaryExpr{X: ast.NewIdent(value), Op: op, Y: &ast.ParenExpr{X: x}}}
}

func isErrCheck(cond ast.Expr) bool {
	b, ok := cond.(*ast.BinaryExpr)
	if !ok || b.Op != token.NEQ {
		return false
	}
	x, ok := b.X.(*ast.Ident)
	return ok && x.Name == "err"
}

func dropStatements(list []ast.Stmt, add func(token.Pos, string)) {
	for i, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt, *ast.IncDecStmt, *ast.BranchStmt:
		case *ast.ExprStmt:
			if logs(s) {
				continue
			}
		default:
			continue
		}
		list[i] = &ast.EmptyStmt{Implicit: true}
		add(s.Pos(), "statement dropped")
		list[i] = s
	}
}

// logs reports whether a statement only writes to a log.
func logs(s *ast.ExprStmt) bool {
	call, ok := s.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	var on string
	switch x := f.X.(type) {
	case *ast.Ident:
		on = x.Name
	case *ast.SelectorExpr:
		on = x.Sel.Name
	}
	return strings.EqualFold(on, "log") || strings.EqualFold(on, "slog")
}

// test runs the package's tests over the change. Not built: it does not compile.
func (m *mutant) test(dir, run, slow string, timeout time.Duration) (alive, built bool) {
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return false, false
	}
	defer os.RemoveAll(tmp)
	overlay, err := m.overlay(tmp)
	if err != nil {
		return false, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*timeout)
	defer cancel()
	bin := filepath.Join(tmp, "tests")
	if exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", bin, dir).Run() != nil {
		return false, false
	}
	tests := func(arg ...string) bool {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		c := exec.CommandContext(ctx, bin, append(arg, "-test.short", "-test.failfast")...)
		c.Dir = dir
		return c.Run() == nil
	}
	if slow == "" {
		return tests("-test.run", run), true
	}
	return tests("-test.run", run, "-test.skip", slow) && tests("-test.run", slow), true
}

// overlay writes the overlay file of the change, which without a change is empty.
func (m *mutant) overlay(tmp string) (string, error) {
	replace, overlay := map[string]string{}, filepath.Join(tmp, "overlay.json")
	if m.file != "" {
		path, err := filepath.Abs(m.file)
		if err != nil {
			return "", err
		}
		replace[path] = filepath.Join(tmp, "mutant.go")
		if err := os.WriteFile(replace[path], m.source, 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, text, 0o600)
}
