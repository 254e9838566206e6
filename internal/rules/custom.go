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

	"stoplog/internal/parse/pack"
)

// Custom compiles the rules' own patterns, nil when there are none. The error
// is of a pattern that Load let pass and that cannot be compiled.
func (s *Set) Custom() (*pack.Set, error) {
	var packs []*pack.Pack
	for _, r := range s.Rules {
		if r.Pattern == nil {
			continue
		}
		p, problems := pack.CompilePattern(r.Name, r.Pattern.Text, nil, nil)
		if p == nil {
			return nil, fmt.Errorf("rule %s: pattern: %w", r.Name, problems[0])
		}
		outcome := slices.Index(outcomeWords, r.Pattern.Outcome)
		kind := max(slices.Index(kindWords, r.Pattern.Kind), 0)
		packs = append(packs, p.As(r.Pattern.Programs, uint8(max(outcome, 0)), uint8(kind)))
	}
	if packs == nil {
		return nil, nil
	}
	return pack.NewSet(packs...), nil
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

// undeniable tells why p must not be denied, "" when it may.
func (s *Set) undeniable(p netip.Prefix) string {
	switch {
	case p.Bits() < s.Floor.Of(p.Addr()):
		return "wider than the floor"
	case p.Addr().IsLoopback() || p.Contains(netip.IPv6Loopback()) || p.Addr().IsLinkLocalUnicast():
		return "this machine itself"
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
			problems = append(problems, Problem{File: name, Line: n, Column: 1, Msg: fmt.Sprintf("%.80q is no address and no prefix", text), Warning: true})
			continue
		}
		if why := refuse(p); why != "" {
			problems = append(problems, Problem{File: name, Line: n, Column: 1, Msg: fmt.Sprintf("%s is %s: left out", p, why), Warning: true})
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
func FlagName(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
