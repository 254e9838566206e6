package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// may lists which of our packages each package may import: the arrows of
// ARCHITECTURE.md and nothing else. cmd and daemon wire; the rest are leaves.
var may = map[string][]string{
	"source":   {},
	"parse":    {"source", "parse/scan", "parse/pack"},
	"bucket":   {},
	"rules":    {"source", "parse", "parse/pack"}, // compiled matches read events
	"detect":   {"source", "parse", "rules", "bucket"},
	"ledger":   {"detect"},
	"firewall": {"firewall/*"},
	"export":   {"export/*"},
	"feed":     {"export"},
	"tell":     {"rules"},
	"metrics":  {"control"},
	"docs":     {"rules"},
	"doctor":   {"firewall", "protect", "rules", "control", "source", "parse"},
	"migrate":  {"parse/pack"},
	"protect":  {},
	"lean":     {},
	"priv":     {},
	"control":  {},
	"web":      {"control", "export"},
	"pipeline": {"source", "parse", "parse/*", "rules", "detect", "ledger"},
	"daemon":   {"*"},
}

// only names the one package that may import a library.
var only = map[string]string{
	"github.com/nxadm/tail":         "source",
	"github.com/coreos/go-iptables": "firewall",
	"github.com/google/nftables":    "firewall",
	"github.com/spf13/cobra":        "cmd",
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

func allowed(pkg, imp string) bool {
	base, _, _ := strings.Cut(pkg, "/")
	if pkg == imp || strings.HasPrefix(imp, pkg+"/") || strings.HasPrefix(pkg, imp+"/") {
		return true
	}
	rules, ok := may[pkg]
	if !ok {
		rules = may[base]
	}
	for _, r := range rules {
		if r == "*" || r == imp || strings.HasSuffix(r, "/*") && strings.HasPrefix(imp, strings.TrimSuffix(r, "*")) {
			return true
		}
	}
	return false
}

// TestArrows keeps the house's shape: leaves do not know each other.
func TestArrows(t *testing.T) {
	seen := 0
	for _, f := range files(t) {
		// Test kits (restic's word) are packages for tests of other packages.
		if f.test || strings.HasSuffix(f.pkg, "test") || f.pkg == "" || f.pkg == "cmd" || strings.HasPrefix(f.pkg, "e2e") || strings.HasPrefix(f.pkg, "hack") {
			continue
		}
		for _, i := range f.ast.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			imp, ours := strings.CutPrefix(path, "stoplog/internal/")
			if !ours {
				continue
			}
			seen++
			if !allowed(f.pkg, imp) {
				t.Errorf("%s: %s may not import %s", f.path, f.pkg, imp)
			}
		}
	}
	if seen == 0 {
		t.Error("no import was looked at")
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
