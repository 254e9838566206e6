package hostile

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"
)

// samples are the log lines of every pack and every family: what the packs'
// files give as samples, the text of the parsers' own tests and their test
// data. Each names an address.
var samples = sync.OnceValues(func() ([]string, error) {
	var all []string
	packs, err := filepath.Glob("../../internal/parse/pack/packs/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, path := range packs {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var p struct {
			Samples []struct{ Line, Tag string }
		}
		if err := yaml.Unmarshal(data, &p); err != nil {
			return nil, err
		}
		for _, s := range p.Samples {
			all = append(all, s.Line)
			if s.Tag != "" {
				all = append(all, "Nov 22 06:00:00 host "+s.Tag+"[77]: "+s.Line)
			}
		}
	}
	var tests []string
	for _, glob := range []string{"*_test.go", "web/*_test.go", "parsetest/*.go"} {
		found, err := filepath.Glob("../../internal/parse/" + glob)
		if err != nil {
			return nil, err
		}
		tests = append(tests, found...)
	}
	for _, path := range tests {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return nil, err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if s, err := strconv.Unquote(l.Value); err == nil {
					all = append(all, strings.Split(s, "\n")...)
				}
			}
			return true
		})
	}
	err = filepath.WalkDir("../../internal/parse", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "/testdata/") || strings.Contains(path, "fuzz") {
			return err
		}
		data, err := os.ReadFile(path)
		all = append(all, strings.Split(string(data), "\n")...)
		return err
	})
	all = slices.DeleteFunc(all, func(s string) bool {
		return len(s) < 20 || len(s) > 4000 || !anyAddress.MatchString(s)
	})
	slices.Sort(all)
	return slices.Compact(all), err
})

var anyAddress = regexp.MustCompile(`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b|\b[0-9a-fA-F]{1,4}:[0-9a-fA-F:]+:[0-9a-fA-F]{1,4}\b`)

// wraps are the ways in which a line is put into a field.
var wraps = []func(line string) string{
	func(l string) string { return l },
	func(l string) string { return "x\n" + l + "\n" },
	func(l string) string { return "x\n" + l + "\n" + l },
	func(l string) string { return "\n" + l },
	func(l string) string { return "x\r" + l + "\r" },
	func(l string) string { return "x\r\n" + l + "\r\n" },
	func(l string) string { return "x\v" + l + "\f" },
	func(l string) string { return "x\x00" + l },
	func(l string) string { return "x\u2028" + l + "\u2029" },
	func(l string) string { return "x\u0085" + l + "\u0085" },
	func(l string) string { return "x\n\t" + l },
	func(l string) string { return `x"` + l + `"` },
	func(l string) string { return `x' ` + l + ` '` },
	func(l string) string { return `x\n` + l + `\n` },
	func(l string) string { return `\` + l + `\` },
	func(l string) string { return "\x1b[2K\x1b[1G" + l + "\x1b[0m" },
	func(l string) string { return "x] [" + l + "] (" + l + ")" },
}

// full reports whether everything is tried, which takes long.
func full() bool { return os.Getenv("STOPLOG_SOAK") != "" }

// foreign gives n payloads that hold other programs' lines, or all of them in
// a long run. Which ones a short run takes differs by server, so that together
// they take all samples.
func foreign(t *testing.T, n int) []string {
	t.Helper()
	ls, err := samples()
	if err != nil {
		t.Fatal(err)
	}
	if len(ls) < 1000 {
		t.Fatalf("found %d samples of log lines, want those of all packs and families", len(ls))
	}
	if full() {
		n = len(ls) * len(wraps)
	}
	h := uint64(14695981039346656037)
	for _, c := range t.Name() {
		h = (h ^ uint64(c)) * 1099511628211
	}
	out := make([]string, 0, n)
	for i := range uint64(n) {
		k := h + i
		out = append(out, wraps[k%uint64(len(wraps))](ls[k*7919%uint64(len(ls))]))
	}
	return out
}

// mark is the name that a client gives itself to see what a server makes of it.
const mark = "mArKeRq"

// own makes payloads of the lines that the server itself wrote about the
// client: whole records, and records cut where the client's text stands, so
// that what the server writes around the payload completes both halves. A short run takes at most so many.
func own(lines []string, most int) (out []string) {
	for _, line := range lines {
		if !strings.Contains(line, clientAddr) && !strings.Contains(line, mark) {
			continue
		}
		fake := strings.ReplaceAll(line, clientAddr, victimAddr)
		for _, name := range []string{"root", "x"} {
			whole := strings.ReplaceAll(fake, mark, name)
			out = append(out, "x\n"+whole+"\n", "x\n"+whole+"\n"+whole+"\n", "x\n"+whole+"\nx", whole, "x\r"+whole+"\r", "\n"+whole)
		}
		for at := 0; ; at++ {
			i := strings.Index(fake[at:], mark)
			if i < 0 {
				break
			}
			at += i
			before, after := strings.ReplaceAll(fake[:at], mark, "x"), strings.ReplaceAll(fake[at+len(mark):], mark, "x")
			whole := before + "x" + after
			out = append(out,
				"x"+after+"\n"+before+"b",
				"x"+after+"\n",
				"x"+after+"\ny",
				"x"+after+"\n"+whole+"\n"+before+"b",
				"x\n"+before+"b",
				"x"+after,
				"x"+after+" "+before+"b",
				"x"+after+"\r"+before+"b")
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if !full() && len(out) > most {
		some := make([]string, most)
		for i := range some {
			some[i] = out[i*len(out)/most]
		}
		out = some
	}
	return out
}
