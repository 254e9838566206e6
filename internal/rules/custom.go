package rules

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"stoplog/internal/addr"
	"stoplog/internal/parse"
	"stoplog/internal/parse/pack"
	"stoplog/internal/source"
)

// Custom is the pattern of one rule, compiled.
type Custom struct {
	rule *Rule
	pack *pack.Pack
}

// Custom compiles the rules' own patterns. The error is of a pattern that Load
// let pass and that cannot be compiled.
func (s *Set) Custom() ([]Custom, error) {
	var out []Custom
	for _, r := range s.Rules {
		if r.Pattern == nil || r.Pattern.Of != nil {
			continue
		}
		p, problems := pack.CompilePattern(r.Name, r.Pattern.Text, nil, nil)
		if p == nil {
			return nil, fmt.Errorf("rule %s: pattern: %w", r.Name, problems[0])
		}
		outcome := slices.Index(outcomeWords, r.Pattern.Outcome)
		kind := max(slices.Index(kindWords, r.Pattern.Kind), 0)
		out = append(out, Custom{r, p.As(r.Pattern.Programs, uint8(max(outcome, 0)), uint8(kind))})
	}
	return out, nil
}

// Reading is which patterns read the lines of one origin; see parse.Patterns.
type Reading struct {
	Bound, Free []*pack.Pack
	Tagged      map[string][]*pack.Pack
}

// Read says which of the patterns read lines of o. src is the source that o
// belongs to, nil when none lists it; writer is the service bound to it.
func Read(all []Custom, o *source.Origin, src *Source, writer string) (r Reading) {
	for _, c := range all {
		services := c.rule.Pattern.Services
		named, holds := c.rule.Match.sourceHolds(o)
		switch {
		case named && !holds:
		case named && services == nil:
			r.Bound = append(r.Bound, c.pack)
		case services != nil:
			r.byService(c.pack, services, writer)
		case src == nil || src.own():
			r.Free = append(r.Free, c.pack)
		}
	}
	return r
}

// byService lets p read an origin of one of the services, or the lines there
// that syslog or the journal tagged with them.
func (r *Reading) byService(p *pack.Pack, services []string, writer string) {
	if slices.ContainsFunc(services, func(s string) bool { return sameService(s, writer) }) {
		r.Bound = append(r.Bound, p)
		return
	}
	if writer != "" && writer != parse.Syslog {
		return
	}
	if r.Tagged == nil {
		r.Tagged = map[string][]*pack.Pack{}
	}
	for _, s := range services {
		f := parse.Family(s)
		r.Tagged[f] = append(r.Tagged[f], p)
	}
}

func sameService(a, b string) bool { return a == b || b != "" && parse.Family(a) == parse.Family(b) }

// sourceHolds reports whether the match names sources, and o is one of them.
func (m *Match) sourceHolds(o *source.Origin) (named, holds bool) {
	holds = true
	for i := range m.Conds {
		if c := &m.Conds[i]; c.Field == "source" {
			named = true
			holds = holds && c.holds(nil, o)
		}
	}
	return named, holds
}

// mayRead reports whether the rule's pattern may read lines of src.
func (r *Rule) mayRead(src *Source) bool {
	named := false
	for i := range r.Match.Conds {
		c := &r.Match.Conds[i]
		if c.Field != "source" {
			continue
		}
		named = true
		if vs := c.test.values(); vs != nil && !slices.ContainsFunc(vs, func(v subject) bool { return src.mayBe(string(v.text)) }) {
			return false
		}
	}
	if r.Pattern.Services != nil {
		w := src.Writer(src.Path)
		return w == "" || w == parse.Syslog || slices.ContainsFunc(r.Pattern.Services, func(s string) bool { return sameService(s, w) })
	}
	return named || src.own()
}

// mayBe reports whether an origin of the source may have that name.
func (s *Source) mayBe(name string) bool {
	switch s.Kind {
	case File:
		ok, _ := filepath.Match(s.Path, name)
		return ok
	case Auth:
		return slices.Contains([]string{"journal", "/var/log/auth.log", "/var/log/secure"}, name)
	case Pipe:
		return name == s.Path
	}
	return name == s.Kind.String()
}

// maxListFile bounds what is read of one file of prefixes.
const maxListFile = 64 << 20

// Read gives all prefixes of the list, those of its files as they are now: one
// address or prefix a line, what follows # ignored. Lines that are neither,
// and files that cannot be read, are told of and left out.
func (l List) Read() ([]netip.Prefix, []Problem) {
	return l.read(func(netip.Prefix) string { return "" })
}

// ReadDeny is Read of the deny list. What must never be denied is left out of
// its files, which may be others' work, and told of.
func (s *Set) ReadDeny() ([]netip.Prefix, []Problem) {
	return s.Deny.read(s.undeniable)
}

// undeniable returns why p must not be denied, "" when it may.
func (s *Set) undeniable(p netip.Prefix) string {
	p = addr.OfPrefix(p)
	switch {
	case p.Bits() < s.Floor.Of(p.Addr()):
		return "wider than the floor"
	case p.Addr().IsLoopback() || p.Contains(netip.IPv6Loopback()) || p.Addr().IsLinkLocalUnicast():
		return "local to this machine"
	case addr.Never(p) != "":
		return "never blocked: " + addr.Never(p)
	}
	return ""
}

// read is Read without the prefixes of files that refuse tells a reason for.
func (l List) read(refuse func(netip.Prefix) string) ([]netip.Prefix, []Problem) {
	all := slices.Clone(l.Prefixes)
	var problems []Problem
	for _, glob := range l.Files {
		names, err := filepath.Glob(glob)
		if err != nil {
			problems = append(problems, Problem{File: glob, Msg: err.Error()})
			continue
		}
		for _, name := range names {
			ps, bad := readList(name, refuse)
			all, problems = append(all, ps...), append(problems, bad...)
		}
	}
	return all, problems
}

func readList(name string, refuse func(netip.Prefix) string) (ps []netip.Prefix, problems []Problem) {
	f, err := os.Open(name)
	if err != nil {
		return nil, []Problem{{File: name, Msg: err.Error(), Warning: true}}
	}
	defer f.Close()
	s := bufio.NewScanner(io.LimitReader(f, maxListFile))
	for n := 1; s.Scan(); n++ {
		text, _, _ := strings.Cut(s.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		p, ok := ParsePrefix(text)
		if !ok {
			problems = append(problems, Problem{File: name, Line: n, Column: 1, Msg: fmt.Sprintf("%.80q is not an IP address or prefix", text), Warning: true})
			continue
		}
		if why := refuse(p); why != "" {
			problems = append(problems, Problem{File: name, Line: n, Column: 1, Msg: fmt.Sprintf("%s is skipped: it is %s", p, why), Warning: true})
			continue
		}
		ps = append(ps, p)
	}
	if err := s.Err(); err != nil {
		problems = append(problems, Problem{File: name, Msg: err.Error(), Warning: true})
	}
	return ps, problems
}

// ParsePrefix reads an address (as the prefix of it alone) or a prefix, which
// it masks; brackets around IPv6 are taken off. IPv4 written as IPv6 is IPv4.
// Names, zones and anything else are false: nothing is looked up.
func ParsePrefix(text string) (netip.Prefix, bool) {
	if n := len(text); n > 2 && text[0] == '[' && text[n-1] == ']' {
		text = text[1 : n-1]
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, false
	}
	return p.Masked(), true
}

// FlagName reports whether name can be a flag's.
func FlagName(name string) bool { return flagRE.MatchString(name) }
