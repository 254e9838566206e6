package rules

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Load reads the rules file at path, the files of its rules.d, and the ready
// rules it switches on. When any Problem is not a warning, the Set is nil.
// Every mistake of every file is in the answer, in the order of reading.
func Load(path string) (*Set, []Problem) {
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	data, err := readFile(abs)
	if err != nil {
		return nil, []Problem{{File: path, Msg: cause(err)}}
	}
	return load(path, data, filepath.Dir(abs), abs, disk{})
}

// LoadBytes is Load of a file that was read already (or is built in). Relative
// paths in it are taken from dir; with dir "" there is no rules.d and relative
// paths stay as they are.
func LoadBytes(name string, data []byte, dir string) (*Set, []Problem) {
	return load(name, data, dir, "", disk{})
}

func load(name string, data []byte, dir, abs string, from files) (*Set, []Problem) {
	c := &checker{file: name, dir: dir, from: from}
	var b book
	objectFor[book]().fill(reflect.ValueOf(&b).Elem())
	b.Name = name
	if abs != "" {
		b.Files = append(b.Files, abs)
	}
	root := c.document(data)
	if root != nil {
		objectFor[book]().into(c, root, &b)
	}
	if dir != "" && !(root == nil && failed(c.problems)) {
		c.mergeFolder(&b)
	}
	c.useReady(&b)
	set := c.finish(&b)
	sortProblems(c.problems)
	if failed(c.problems) {
		return nil, c.problems
	}
	set.Warnings = c.problems
	return set, c.problems
}

// cause is the error without the name of the file, which the Problem has.
func cause(err error) string {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Op + ": " + pe.Err.Error()
	}
	return err.Error()
}

func readAll(r io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(data) > maxFile {
		return nil, &os.PathError{Op: "read", Path: name, Err: fmt.Errorf("larger than %d bytes", maxFile)}
	}
	return data, err
}

// document parses one YAML document and returns its root, nil when there is
// none: an empty file is a Set of defaults.
func (c *checker) document(data []byte) *yaml.Node {
	if len(data) > maxFile {
		c.add(Problem{File: c.file, Msg: fmt.Sprintf("larger than %d bytes", maxFile)})
		return nil
	}
	var doc, more yaml.Node
	d := yaml.NewDecoder(strings.NewReader(string(data)))
	if err := d.Decode(&doc); err != nil {
		if !errors.Is(err, io.EOF) {
			c.add(syntaxProblem(c.file, data, err))
		}
		return nil
	}
	if err := d.Decode(&more); err == nil {
		c.fail(&more, "", "expected only one YAML document")
	} else if !errors.Is(err, io.EOF) {
		c.add(syntaxProblem(c.file, data, err))
	}
	if len(doc.Content) != 1 || doc.Content[0].Tag == "!!null" {
		return nil
	}
	return doc.Content[0]
}

var lineRE = regexp.MustCompile(`^line (\d+): (.*)`)

// syntaxProblem puts the YAML reader's complaint at its line, with a hint for
// what people trip over.
func syntaxProblem(file string, data []byte, err error) Problem {
	p := Problem{File: file, Line: 1, Column: 1, Msg: "invalid YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	if m := lineRE.FindStringSubmatch(strings.TrimPrefix(err.Error(), "yaml: ")); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		p.Msg = "invalid YAML: " + m[2]
	}
	lines := strings.Split(string(data), "\n")
	for _, n := range []int{p.Line, p.Line - 1, p.Line + 1} {
		if n >= 1 && n <= len(lines) {
			if h := syntaxHint(lines[n-1]); h != "" {
				p.Line, p.Hint = n, h // the reader is often a line off
				return p
			}
		}
	}
	return p
}

var bareV6 = regexp.MustCompile(`\[[0-9a-fA-F:]*::[0-9a-fA-F:]*`)

func syntaxHint(line string) string {
	switch trimmed := strings.TrimLeft(line, " -"); {
	case strings.Contains(line, "\t"):
		return "indent YAML with spaces, not tabs"
	case bareV6.MatchString(line):
		return "quote IPv6 addresses: '[::1]:8080', \"2001:db8::/32\""
	case strings.Contains(line, ": ") && strings.ContainsAny(after(trimmed, ": "), "%@`"):
		return "quote values that start with % @ or `"
	case strings.Count(after(trimmed, ": "), ": ") > 0:
		return "quote values that contain a colon and a space"
	case strings.Contains(line, `\`) && strings.Contains(line, `"`):
		return "write patterns in single quotes: '…'"
	}
	return ""
}

func after(s, sep string) string {
	_, rest, _ := strings.Cut(s, sep)
	return rest
}

// mergeFolder adds the files of rules.d, in the order of their names.
func (c *checker) mergeFolder(b *book) {
	dir := b.RulesD
	if dir == "" {
		dir = filepath.Join(c.dir, "rules.d")
	}
	names, missing := c.from.list(dir)
	for _, name := range names {
		sub := &checker{file: name, dir: dir, from: c.from, nodes: c.nodes}
		data, err := c.from.read(name)
		if err != nil {
			c.add(Problem{File: name, Msg: cause(err)})
			continue
		}
		var part book
		if root := sub.document(data); root != nil {
			folderObject().into(sub, root, &part)
		}
		b.Files = append(b.Files, name)
		sub.mergeInto(b, &part)
		c.nodes = sub.nodes
		for _, p := range sub.problems {
			c.add(p)
		}
	}
	if missing != nil && b.RulesD != "" {
		c.fail(b.node, "", "rules_d: %v", missing)
	}
}

func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

func (c *checker) mergeInto(b, part *book) {
	b.used = append(b.used, part.used...)
	b.Sources = append(b.Sources, part.Sources...)
	b.Allow.Prefixes = append(b.Allow.Prefixes, part.Allow.Prefixes...)
	b.Allow.Files = append(b.Allow.Files, part.Allow.Files...)
	b.Deny.Prefixes = append(b.Deny.Prefixes, part.Deny.Prefixes...)
	b.Deny.Files = append(b.Deny.Files, part.Deny.Files...)
	b.Exports = append(b.Exports, part.Exports...)
	b.Drafts = append(b.Drafts, part.Drafts...)
	for _, k := range sortedKeys(part.NetworksBy) {
		if _, twice := b.NetworksBy[k]; twice {
			c.add(Problem{File: c.file, Msg: "the network " + k + " is also in another file"})
			continue
		}
		if b.NetworksBy == nil {
			b.NetworksBy = map[string]networkText{}
		}
		b.NetworksBy[k] = part.NetworksBy[k]
	}
	for _, t := range part.Notify {
		for _, o := range b.Notify {
			if o.Name == t.Name {
				c.add(Problem{File: c.file, Msg: "the notify target " + t.Name + " is also in another file"})
			}
		}
		b.Notify = append(b.Notify, t)
	}
}
