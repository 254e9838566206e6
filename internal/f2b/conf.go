package f2b

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Option is the value of a key and where it was set. Lines of the value that
// follow the first are joined by newlines.
type Option struct {
	Value string
	File  string
	Line  int
	// known is what the key had before a later file set it again.
	known *Option
}

// Conf is what a chain of configuration files says: section, key, value.
type Conf struct {
	sections map[string]map[string]*Option
	Order    []string // sections as they first appeared
	Problems []Problem
	bytes    int      // read so far
	filled   int      // names, for the value being read
	within   []string // files that include each other, outermost first
}

// Problem is what is wrong with a file.
type Problem struct {
	File string
	Line int // 1-based; 0: the file as a whole
	Msg  string
}

func (p Problem) Error() string {
	if p.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Msg)
	}
	return p.File + ": " + p.Msg
}

const (
	maxConfig  = 1 << 20 // bytes of one file
	maxBytes   = 4 << 20 // of a file and all that it includes
	maxInclude = 8       // files deep
)

// NewConf returns one that says nothing.
func NewConf() *Conf { return &Conf{sections: map[string]map[string]*Option{}} }

// Section is one section, nil when it is not there.
func (c *Conf) Section(name string) map[string]*Option { return c.sections[name] }

// Load reads path and what it includes: "before" first, "after" last, each with
// the .local beside it (fail2ban's client/configparserinc.py). It reports whether
// path could be read; what is wrong, but that it is missing, is added to Problems.
func (c *Conf) Load(path string) bool { return c.load(path) }

// LoadAll reads a file NAME.conf and what overrides it: NAME.d/*.conf,
// NAME.local and NAME.d/*.local (client/configreader.py). It reports whether any
// of them could be read.
func (c *Conf) LoadAll(path string) bool {
	base := strings.TrimSuffix(path, ".conf")
	found := false
	for _, end := range []string{".conf", ".local"} {
		found = c.load(base+end) || found
		names, _ := filepath.Glob(filepath.Join(base+".d", "*"+end))
		slices.Sort(names)
		for _, n := range names {
			found = c.load(n) || found
		}
	}
	return found
}

func (c *Conf) load(path string) bool {
	one, err := c.readConf(path)
	if err != nil {
		if !os.IsNotExist(err) {
			c.Problems = append(c.Problems, Problem{File: path, Msg: cause(err)})
		}
		return false
	}
	c.within = append(c.within, filepath.Clean(path))
	inc := one.sections["INCLUDES"]
	c.include(path, inc["before"])
	c.merge(one)
	c.include(path, inc["after"])
	c.within = c.within[:len(c.within)-1]
	return true
}

// cause is an error without the name of the file.
func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

func (c *Conf) include(from string, o *Option) {
	if o == nil {
		return
	}
	for _, name := range strings.Split(o.Value, "\n") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		shown := name
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(from), name)
		}
		fail := func(msg string) {
			c.Problems = append(c.Problems, Problem{o.File, o.Line, fmt.Sprintf("the included file %s %s", clip(shown), msg)})
		}
		switch {
		case slices.Contains(c.within, filepath.Clean(name)):
			fail("includes this one")
		case len(c.within) > maxInclude:
			fail("is nested too deeply")
		default:
			ok := c.load(name)
			if local, isConf := strings.CutSuffix(name, ".conf"); isConf {
				ok = c.load(local+".local") || ok
			}
			if !ok && !exists(name) && !strings.HasSuffix(name, ".local") {
				fail("does not exist")
			}
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// merge lays other over what is there already.
func (c *Conf) merge(other *Conf) {
	c.Problems = append(c.Problems, other.Problems...)
	for _, name := range other.Order {
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

func (c *Conf) at(section string) map[string]*Option {
	s := c.sections[section]
	if s == nil {
		s = map[string]*Option{}
		c.sections[section] = s
		c.Order = append(c.Order, section)
	}
	return s
}

// readConf reads one file in the syntax of Python's configparser: "key = value"
// or "key: value", indented lines go on, # and ; begin comments, and " ;"
// begins one behind a value.
func (all *Conf) readConf(path string) (*Conf, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // never wait for the writer of a pipe
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	} else if all.bytes += int(min(st.Size(), maxBytes+1)); st.Size() > maxConfig || all.bytes > maxBytes {
		return nil, fmt.Errorf("too large: a file may have %d bytes, with all that it includes %d", maxConfig, maxBytes)
	}
	c := NewConf()
	s := bufio.NewScanner(io.LimitReader(f, maxConfig))
	s.Buffer(nil, maxConfig)
	var section string
	var last *Option
	for n := 1; s.Scan(); n++ {
		if !utf8.Valid(s.Bytes()) {
			c.Problems = append(c.Problems, Problem{File: path, Line: n, Msg: "not valid UTF-8"})
			continue
		}
		text := strings.TrimRight(s.Text(), " \t\r")
		trimmed := strings.TrimSpace(text)
		if trimmed == "" || trimmed[0] == '#' || trimmed[0] == ';' {
			continue // an empty line in a value does not end it
		}
		switch {
		case (text[0] == ' ' || text[0] == '\t') && last != nil:
			last.Value += "\n" + uncomment(trimmed)
		case trimmed[0] == '[' && strings.HasSuffix(uncomment(trimmed), "]"):
			t := uncomment(trimmed)
			section, last = t[1:len(t)-1], nil
			c.at(section)
		default:
			key, value, ok := cutKey(trimmed)
			if !ok || section == "" {
				c.Problems = append(c.Problems, Problem{File: path, Line: n, Msg: "expected a section or a key with a value"})
				continue
			}
			last = &Option{Value: uncomment(value), File: path, Line: n}
			c.at(section)[key] = last
		}
	}
	if err := s.Err(); err != nil {
		return nil, err
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
