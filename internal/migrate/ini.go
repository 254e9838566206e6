// Package migrate turns the configuration of other programs into rules. It
// only reads: what cannot be carried over is told with its place and reason.
package migrate

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// option is the value of a key and where it was set. Lines of the value that
// follow the first are joined by newlines.
type option struct {
	value string
	file  string
	line  int
	// known is what the key had before a later file set it anew.
	known *option
}

// ini is what a chain of configuration files says: section, key, value.
type ini struct {
	sections map[string]map[string]*option
	order    []string // sections as they first appeared
	problems []Note
}

const (
	maxConfig  = 4 << 20 // bytes of one file
	maxInclude = 8       // files deep
)

func newIni() *ini { return &ini{sections: map[string]map[string]*option{}} }

// section is one section, nil when it is not there.
func (c *ini) section(name string) map[string]*option { return c.sections[name] }

// load reads path and what it includes: "before" first, "after" last, each of
// which may be missing (fail2ban's client/configparserinc.py). It reports
// whether path could be read.
func (c *ini) load(path string, depth int) bool {
	if depth > maxInclude {
		c.problems = append(c.problems, Note{File: path, Text: "includes are nested more than eight levels deep"})
		return false
	}
	one, err := readIni(path)
	if err != nil {
		if !os.IsNotExist(err) {
			c.problems = append(c.problems, Note{File: path, Text: err.Error()})
		}
		return false
	}
	inc := one.sections["INCLUDES"]
	c.include(path, inc["before"], depth)
	c.merge(one)
	c.include(path, inc["after"], depth)
	return true
}

func (c *ini) include(from string, o *option, depth int) {
	if o == nil {
		return
	}
	for _, name := range strings.Fields(o.value) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(from), name)
		}
		c.load(name, depth+1)
	}
}

// merge lays other over what is there already.
func (c *ini) merge(other *ini) {
	c.problems = append(c.problems, other.problems...)
	for _, name := range other.order {
		if name == "INCLUDES" {
			continue
		}
		for key, o := range other.sections[name] {
			if old := c.at(name)[key]; old != nil {
				o.known = old
			}
			c.at(name)[key] = o
		}
	}
}

func (c *ini) at(section string) map[string]*option {
	s := c.sections[section]
	if s == nil {
		s = map[string]*option{}
		c.sections[section] = s
		c.order = append(c.order, section)
	}
	return s
}

// readIni reads one file in the syntax of Python's configparser: "key = value"
// or "key: value", indented lines go on, # and ; begin comments, and " ;"
// begins one behind a value.
func readIni(path string) (*ini, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := newIni()
	s := bufio.NewScanner(io.LimitReader(f, maxConfig))
	s.Buffer(nil, maxConfig)
	var section string
	var last *option
	for n := 1; s.Scan(); n++ {
		text := strings.TrimRight(s.Text(), " \t\r")
		trimmed := strings.TrimSpace(text)
		if trimmed == "" || trimmed[0] == '#' || trimmed[0] == ';' {
			continue // an empty line in a value does not end it
		}
		switch {
		case (text[0] == ' ' || text[0] == '\t') && last != nil:
			last.value += "\n" + uncomment(trimmed)
		case trimmed[0] == '[' && strings.HasSuffix(uncomment(trimmed), "]"):
			t := uncomment(trimmed)
			section, last = t[1:len(t)-1], nil
			c.at(section)
		default:
			key, value, ok := cutKey(trimmed)
			if !ok || section == "" {
				c.problems = append(c.problems, Note{File: path, Line: n, Text: "expected a section or a key with a value"})
				continue
			}
			last = &option{value: uncomment(value), file: path, line: n}
			c.at(section)[key] = last
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func cutKey(line string) (key, value string, ok bool) {
	i := strings.IndexAny(line, "=:")
	if i <= 0 {
		return "", "", false
	}
	return strings.ToLower(strings.TrimSpace(line[:i])), strings.TrimSpace(line[i+1:]), true
}

func uncomment(s string) string {
	for _, mark := range []string{" ;", "\t;"} {
		if i := strings.Index(s, mark); i >= 0 {
			s = s[:i]
		}
	}
	return strings.TrimSpace(s)
}
