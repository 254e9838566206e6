package rules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"stoplog/internal/f2b"
	"stoplog/internal/source"
)

// patternText is the value of pattern: an expression, or a filter of fail2ban.
type patternText struct {
	Text string
	Of   *FilterText
}

// FilterText names a filter of fail2ban, as filter = NAME[mode=…] of a jail does.
type FilterText struct {
	Path string            `in:"a filter of fail2ban" key:"fail2ban,required" doc:"the filter's file: it is used as it is, with its .local and what both include" is:"path" what:"a file" eg:"/etc/fail2ban/filter.d/sshd.conf"`
	Mode string            `key:"mode" doc:"the filter's mode (default: the filter's own)" what:"a mode" eg:"aggressive"`
	With map[string]string `key:"with" doc:"parameters of the filter, and failregex, ignoreregex, prefregex, datepattern, maxlines, journalmatch and usedns of the jail, in place of the filter's" what:"a text" eg:"{logtype: journal}"`
}

func (f *FilterText) options() f2b.Options {
	params := map[string]string{}
	for k, v := range f.With {
		params[strings.ToLower(k)] = v
	}
	if f.Mode != "" {
		params["mode"] = f.Mode
	}
	return f2b.Options{Params: params, NoNames: params["usedns"] == "no"}
}

// patternKind reads an expression or {fail2ban: FILE, …}.
func patternKind(g tags) kind {
	text, obj := textual(g), objectFor[FilterText]().asKind()
	return read1(&shape{what: g.what, oneOf: []*shape{text.shape, obj.shape}}, func(c *checker, n *yaml.Node) (patternText, bool) {
		if c.resolve(n).Kind != yaml.MappingNode {
			s, ok := readAs[string](text, c, n)
			return patternText{Text: s}, ok
		}
		f, ok := readAs[FilterText](obj, c, n)
		return patternText{Of: &f}, ok
	})
}

// filterOf reads the filter of a rule. One that cannot be used is a warning, so
// that the other rules go on: its rule then reads nothing.
func (s *sink) filterOf(d *draft) {
	p := d.Pattern
	if named, _ := d.Match.sourceHolds(&source.Origin{}); !named || d.Match.Services != nil {
		s.failAt(p.Line, p.Column, "match: {source: /var/log/my-app.log}", "a filter of fail2ban needs match.source, and no match.service: it reads any line there")
	}
	if p.Programs != nil {
		s.failAt(p.Line, p.Column, "", "programs does not work with a filter of fail2ban")
	}
	f, problems := f2b.Load(p.Of.Path, p.Of.options())
	for _, q := range problems[:min(len(problems), 5)] {
		s.c.add(Problem{File: s.file, Line: p.Line, Column: p.Column, Warning: true, Msg: fmt.Sprintf("rule %s does not run: %v", clip(d.Name), q)})
	}
	if p.Filter = f; f == nil {
		return
	}
	counted := func(line string) bool {
		_, v := f.Session(nil).Line([]byte(line), 0, time.Unix(1<<30, 0))
		return v == f2b.Counted
	}
	for i, line := range p.Matches[:min(len(p.Matches), maxTries)] {
		if !counted(line) {
			s.failAt(p.MatchesAt[i], 1, "", "the filter does not match "+strconv.Quote(clip(line)))
		}
	}
	for i, line := range p.Ignores[:min(len(p.Ignores), maxTries)] {
		if counted(line) {
			s.failAt(p.IgnoresAt[i], 1, "", "the filter matches "+strconv.Quote(clip(line))+", which is listed in ignores")
		}
	}
}

// Filter is a filter of fail2ban that a rule has for a pattern.
type Filter struct {
	*f2b.Filter
	Rule          string // its name, which is the service of the filter's events
	Outcome, Kind uint8
	journal       [][]string // alternatives, each with the fields that an entry must have
}

// Filters are the filters that read lines of o: those whose rules name it as
// their source. So a jail's filter reads that jail's logs, and no others.
func (s *Set) Filters(o *source.Origin) (out []Filter) {
	for _, r := range s.Rules {
		if r.Pattern == nil || r.Pattern.Filter == nil {
			continue
		}
		if named, holds := r.Match.sourceHolds(o); !named || !holds {
			continue
		}
		f := Filter{Filter: r.Pattern.Filter, Rule: r.Name,
			Outcome: uint8(max(slices.Index(outcomeWords, r.Pattern.Outcome), 0)), Kind: uint8(max(slices.Index(kindWords, r.Pattern.Kind), 0))}
		for _, alternative := range f.JournalMatch {
			f.journal = append(f.journal, strings.Fields(alternative))
		}
		out = append(out, f)
	}
	return out
}

// Admits reports whether an entry of the journal fulfils the filter's
// journalmatch, as far as its fields tell: a filter without one reads all
// entries of its source. A field that is not known here (PRIORITY…) is left to
// the matches of the source.
func (f *Filter) Admits(e *source.Entry) bool {
	if len(f.journal) == 0 {
		return true
	}
	return slices.ContainsFunc(f.journal, func(fields []string) bool {
		// journalctl: of several values of one field one is enough.
		want := map[string][]string{}
		for _, m := range fields {
			name, value, _ := strings.Cut(m, "=")
			want[name] = append(want[name], value)
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if have, known := e.Field(name); known && !slices.Contains(want[name], have) {
				return false
			}
		}
		return true
	})
}
