package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// may lists which of our packages each package imports: the arrows of
// ARCHITECTURE.md, cmd and daemon included. An arrow that nobody uses any more
// is an error too.
var may = map[string][]string{
	"addr":               {},
	"atomicfile":         {},
	"source":             {},
	"parse/event":        {},
	"parse/scan":         {},
	"parse/record":       {"parse/scan"},
	"parse/pack":         {"parse/record", "parse/scan"},
	"parse/auth":         {"parse/event", "parse/scan"},
	"parse/mail":         {"parse/event", "parse/scan"},
	"parse/db":           {"parse/event", "parse/scan"},
	"parse/network":      {"parse/event", "parse/scan"},
	"parse/web":          {"parse/event", "parse/record", "parse/scan"},
	"parse":              {"parse/auth", "parse/db", "parse/event", "parse/mail", "parse/network", "parse/pack", "parse/record", "parse/scan", "parse/web", "source"},
	"session":            {"parse", "source"},
	"bucket":             {},
	"rules":              {"addr", "f2b", "parse", "parse/pack", "source"},
	"detect":             {"addr", "bucket", "parse", "rules", "source"},
	"ledger":             {"addr", "atomicfile", "detect"},
	"firewall":           {"addr"},
	"firewall/base":      {"addr", "firewall"},
	"firewall/held":      {"firewall", "firewall/base"},
	"firewall/nft":       {"addr", "firewall", "firewall/base", "firewall/held"},
	"firewall/iptables":  {"firewall", "firewall/base"},
	"firewall/ipset":     {"firewall", "firewall/base", "firewall/held", "firewall/iptables"},
	"firewall/hostsdeny": {"firewall", "firewall/base"},
	"firewall/listwall":  {"firewall", "firewall/base", "firewall/ipset", "firewall/nft"},
	"firewall/registry":  {"addr", "firewall", "firewall/base", "firewall/held", "firewall/hostsdeny", "firewall/ipset", "firewall/iptables", "firewall/listwall", "firewall/nft"},
	"firewall/wallproc":  {"addr", "firewall", "firewall/base"},
	"pipeline":           {"detect", "f2b", "ledger", "parse", "parse/pack", "rules", "session", "source"},
	"replay":             {"addr", "detect", "fleet", "ledger", "parse", "pipeline", "rules", "source"},
	"tune":               {"addr", "bucket", "detect", "ledger", "parse", "pipeline", "replay", "rules", "source"},
	"export":             {"addr", "atomicfile", "firewall"},
	"httpd":              {"atomicfile"},
	"feed":               {"addr", "export", "firewall", "httpd"},
	"fleet":              {"atomicfile"},
	"control":            {"fleet", "httpd"},
	"web":                {"atomicfile", "control", "httpd"},
	"metrics":            {"control", "httpd"},
	"notify":             {"rules"},
	"protect":            {},
	"priv":               {},
	"doctor":             {"control", "protect", "rules", "source"},
	"f2b":                {},
	"migrate":            {"f2b"},
	"reconcile":          {"firewall", "firewall/held"},
	"runner":             {"detect", "ledger", "rules"},
	"api":                {"addr", "control", "detect", "export", "fleet", "ledger", "parse", "pipeline", "protect", "reconcile", "rules", "source", "trend"},
	"daemon":             {"api", "control", "detect", "export", "feed", "firewall", "fleet", "httpd", "ledger", "metrics", "notify", "pipeline", "protect", "reconcile", "rules", "runner", "source", "trend", "web"},
	"cmd":                {"api", "atomicfile", "control", "daemon", "detect", "doctor", "export", "firewall", "firewall/registry", "firewall/wallproc", "fleet", "httpd", "migrate", "notify", "parse", "pipeline", "priv", "replay", "rules", "session", "source", "tune"},
	"testkit":            {},
	"trend":              {},
	"docs":               {"rules"},
	"docs/gen":           {},
}

// only names the one package that may import a library.
var only = map[string]string{
	"github.com/nxadm/tail":          "source",
	"github.com/coreos/go-iptables":  "firewall/iptables",
	"github.com/google/nftables":     "firewall/nft",
	"github.com/spf13/cobra":         "cmd",
	"github.com/valkey-io/valkey-go": "fleet",
}

// file is one parsed Go file of the repository.
type file struct {
	path, pkg string // pkg: "source", "parse/scan", "cmd", "" for the root
	test      bool
	ast       *ast.File
}

func files(t *testing.T) (all []file) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git" || d.Name() == "zz_scratch") {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		pkg := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "internal/")
		if pkg == "." {
			pkg = ""
		}
		all = append(all, file{path, pkg, strings.HasSuffix(path, "_test.go"), f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestArrows keeps the shape of ARCHITECTURE.md: data flows from left to right.
func TestArrows(t *testing.T) {
	used := map[[2]string]bool{}
	for _, f := range files(t) {
		// Packages whose names end in test help the tests of others.
		if f.test || strings.HasSuffix(f.pkg, "test") || f.pkg == "" || strings.HasPrefix(f.pkg, "e2e") || strings.HasPrefix(f.pkg, "hack") {
			continue
		}
		if _, ok := may[f.pkg]; !ok {
			t.Errorf("%s: the package %s is not listed", f.path, f.pkg)
		}
		for _, i := range f.ast.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			imp, ours := strings.CutPrefix(path, "stoplog/internal/")
			if !ours {
				continue
			}
			if used[[2]string{f.pkg, imp}] = true; !slices.Contains(may[f.pkg], imp) {
				t.Errorf("%s: %s may not import %s", f.path, f.pkg, imp)
			}
		}
	}
	for pkg, imps := range may {
		for _, imp := range imps {
			if !used[[2]string{pkg, imp}] {
				t.Errorf("%s no longer imports %s: delete the arrow", pkg, imp)
			}
		}
	}
}

// TestOneImporter keeps the libraries that are hard to live with in one place.
func TestOneImporter(t *testing.T) {
	found := map[string]bool{}
	for _, f := range files(t) {
		for _, i := range f.ast.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			for lib, owner := range only {
				if path != lib && !strings.HasPrefix(path, lib+"/") {
					continue
				}
				found[lib] = true
				if f.pkg != owner && !strings.HasPrefix(f.pkg, owner+"/") {
					t.Errorf("%s imports %s; only %s may", f.path, lib, owner)
				}
			}
		}
	}
	for lib := range only {
		if !found[lib] {
			t.Errorf("nobody imports %s", lib)
		}
	}
}

// TestPackagesAreDocumented wants exactly one package comment a package.
func TestPackagesAreDocumented(t *testing.T) {
	docs := map[string]int{}
	for _, f := range files(t) {
		if f.test {
			continue
		}
		if _, ok := docs[f.pkg]; !ok {
			docs[f.pkg] = 0
		}
		if f.ast.Doc != nil {
			docs[f.pkg]++
		}
	}
	for pkg, n := range docs {
		if n != 1 {
			t.Errorf("package %q has %d package comments, want 1", pkg, n)
		}
	}
}
