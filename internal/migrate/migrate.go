// Package migrate turns fail2ban's configuration into rules. It only reads; what
// it cannot convert it reports, with its place and reason.
package migrate

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"stoplog/internal/f2b"
)

// Note is something that was not carried over, or not as it was, and why.
type Note struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // 1-based; 0: the file as a whole
	Text string `json:"text"`
}

func (n Note) String() string {
	if n.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", n.File, n.Line, n.Text)
	}
	return n.File + ": " + n.Text
}

// Result is a rules file and what did not find its way into it.
type Result struct {
	Rules string // YAML that the reader of rules takes without a mistake
	Jails int    // that were enabled
	Notes []Note
}

// Fail2ban reads the configuration in dir, as /etc/fail2ban, changing nothing,
// and turns its enabled jails into rules. The error is of a directory without
// a jail.conf or jail.local that can be read.
func Fail2ban(dir string) (Result, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	m := &importer{dir: abs, told: map[string]bool{}, files: map[string]string{}}
	var missing error
	found := false
	for _, n := range []string{"jail.conf", "jail.local"} {
		f, err := os.Open(filepath.Join(abs, n))
		if err != nil {
			missing = err
			continue
		}
		f.Close()
		found = true
	}
	if !found {
		return Result{}, fmt.Errorf("no fail2ban configuration: %w", missing)
	}
	c := readJails(abs)
	m.problems(c.Problems)
	jails := m.jails(c)
	for _, j := range jails {
		m.allow(j)
		m.rule(j)
	}
	return Result{Rules: m.yaml(len(jails)), Jails: len(jails), Notes: m.notes}, nil
}

// importer gathers what becomes of a configuration.
type importer struct {
	dir     string
	notes   []Note
	told    map[string]bool
	allowed []string
	sources []string          // YAML, one flow mapping or word each
	files   map[string]string // the services of those that are files, "" for several
	rules   []string          // YAML blocks
	names   []string
	limited bool // a rule closes some ports only
}

func (m *importer) note(o *f2b.Option, format string, args ...any) {
	n := Note{File: filepath.Join(m.dir, "jail.conf"), Text: fmt.Sprintf(format, args...)}
	if o != nil {
		n.File, n.Line = o.File, o.Line
	}
	m.notes = append(m.notes, n)
}

func (m *importer) problems(all []f2b.Problem) {
	for _, p := range all {
		m.notes = append(m.notes, Note{p.File, p.Line, p.Msg})
	}
}

func (m *importer) noteOnce(o *f2b.Option, format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !m.told[text] {
		m.told[text] = true
		m.note(o, "%s", text)
	}
}

// rule turns one jail into rules and sources.
func (m *importer) rule(j jail) {
	if why, ok := elsewhere[j.filter]; ok {
		m.note(j.at, "jail %s: %s", j.name, why)
		return
	}
	changed := m.exists("filter.d", j.filter+".local")
	if s, ok := stockOf(j.filter, j.params); ok && !changed {
		m.stockRule(j, s)
		return
	}
	f, found := m.readFilter(j.filter, j.params)
	if !found {
		m.note(j.at, "jail %s: there is no filter %.60q", j.name, j.filter)
		return
	}
	m.ownRule(j, f)
}

func (m *importer) exists(parts ...string) bool {
	_, err := os.Stat(filepath.Join(append([]string{m.dir}, parts...)...))
	return err == nil
}

func (m *importer) stockRule(j jail, s stock) {
	m.addSources(j, s.services, s.auth, "")
	m.addRule(j, j.name, s.match(), "", nil, false)
	if probes(j.filter, j.params) {
		m.addRule(j, j.name+"-probe", "{service: "+s.services+", outcome: other, kind: probe}", "", nil, false)
	}
}

// ownRule carries the patterns of a filter: one each, since a rule has one,
// and when there are several a rule that counts them together.
func (m *importer) ownRule(j jail, f filter) {
	var ok []string
	for _, expr := range f.patterns {
		p, err := translate(f.prefix, expr)
		if err == nil && f.multiLine && strings.Contains(f.prefix, "F-MLFID") && !strings.Contains(expr, "HOST") && !strings.Contains(expr, "ADDR") {
			err = errMultiLine
		}
		if err != nil {
			m.notes = append(m.notes, Note{f.file, f.line, fmt.Sprintf("jail %s: the pattern %s %v", j.name, clip(expr), err)})
			continue
		}
		ok = appendNew(ok, p)
	}
	if len(ok) == 0 {
		m.notes = append(m.notes, Note{f.file, f.line, "jail " + j.name + ": no pattern of its filter could be converted; the jail is skipped"})
		return
	}
	observe := len(f.ignores) > 0
	if observe {
		m.notes = append(m.notes, Note{f.file, f.line, "jail " + j.name + ": ignoreregex is not converted, so the rule only observes; add the exception to the patterns, then remove mode: observe"})
	}
	m.addSources(j, "", false, f.journal)
	if len(ok) == 1 {
		m.addRule(j, j.name, "", ok[0], f.programs, observe)
		return
	}
	var names []string
	for i, p := range ok {
		n := fmt.Sprintf("%s-%d", j.name, i+1)
		names = append(names, n)
		m.addRule(j, n, "", p, f.programs, observe)
	}
	m.addRule(j, j.name, "{service: ["+strings.Join(names, ", ")+"], outcome: failure}", "", nil, observe)
}

var notNameRE = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// ruleName makes a rule's name of a jail's.
func ruleName(s string) string {
	s = strings.Trim(notNameRE.ReplaceAllString(s, "-"), "-._")
	if s == "" {
		s = "jail"
	}
	return s[:min(len(s), 48)]
}

// unused makes name differ from those there are.
func (m *importer) unused(name string) string {
	n := name
	for i := 2; slices.Contains(m.names, n); i++ {
		n = fmt.Sprintf("%s-%d", name, i)
	}
	m.names = append(m.names, n)
	return n
}

func clip(s string) string {
	const most = 100
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
