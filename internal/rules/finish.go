package rules

import (
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"stoplog/internal/parse/pack"
)

// finish puts a book together and checks what only shows when all is read.
func (c *checker) finish(b *book) *Set {
	s := &b.Set
	s.Networks = b.networkList()
	c.checkLens(b, "prefix", s.Prefix)
	c.checkNetworks(b)
	c.checkLists(b)
	first := map[string]*draft{}
	for i := range b.Drafts {
		d := &b.Drafts[i]
		if o := first[d.Name]; o != nil && d.Name != "" {
			c.duplicate(d, o)
			continue
		}
		first[d.Name] = d
		before := len(c.problems)
		if d.File == "" {
			d.File = c.file
		}
		s.Rules = append(s.Rules, c.rule(b, d))
		d.broken = d.broken || failed(c.problems[min(before, len(c.problems)):])
		if d.Tiers != nil && d.Tiers.File != "" {
			s.Files = append(s.Files, d.Tiers.File)
		}
	}
	var all *overview
	if !failed(c.problems) {
		all = s.overview()
	}
	for i := range b.Drafts {
		if d := &b.Drafts[i]; !d.broken && first[d.Name] == d {
			before := len(c.problems)
			c.lint(s, &d.Rule, all)
			d.Warnings = slices.Clone(c.problems[min(before, len(c.problems)):])
		}
	}
	if all != nil {
		c.lintSet(b)
	}
	return s
}

func (c *checker) duplicate(d, o *draft) {
	hint := ""
	if o.Ready != "" || d.Ready != "" {
		ready := o.Ready + d.Ready
		hint = "rename yours, or turn the built-in rules off: use: [auto, -" + ready + "]"
	}
	if d.Ready != "" {
		d, o = o, d
	}
	c.at(d).fail(d.node, hint, "rule %s is defined twice, also in %s:%d", clip(d.Name), o.File, o.Line)
}

// at is c for messages about another file of the same load.
func (c *checker) at(d *draft) *sink { return &sink{c, d.File} }

// sink notes problems of one file.
type sink struct {
	c    *checker
	file string
}

func (s *sink) fail(n *yaml.Node, hint, format string, args ...any) {
	old := s.c.file
	s.c.file = s.file
	s.c.fail(n, hint, format, args...)
	s.c.file = old
}

func (s *sink) warn(line int, hint, format string, args ...any) {
	old := s.c.file
	s.c.file = s.file
	s.c.warn(line, 1, hint, format, args...)
	s.c.file = old
}

// maxWritten bounds what is kept of a rule's text.
const maxWritten = 8 << 10

// written is a rule as YAML, for people. Aliases stay aliases.
func written(n *yaml.Node) string {
	text, err := yaml.Marshal(n)
	if err != nil {
		return ""
	}
	if len(text) > maxWritten {
		return strings.ToValidUTF8(string(text[:maxWritten]), "") + "…\n"
	}
	return string(text)
}

// rule makes a Rule of a draft.
func (c *checker) rule(b *book, d *draft) *Rule {
	r := &d.Rule
	in := c.at(d)
	r.Prefix = r.Prefix.or(b.Prefix)
	r.Floor = r.Floor.or(b.Floor)
	if r.Prefix.V4 < r.Floor.V4 || r.Prefix.V6 < r.Floor.V6 {
		in.fail(d.node, "set floor: {…} if this is intended", "rule %s counts by /%d and /%d, wider than the floor of /%d and /%d", clip(r.Name), r.Prefix.V4, r.Prefix.V6, r.Floor.V4, r.Floor.V6)
	}
	if !failed(c.problems) {
		r.counted, r.Text = countedBy(d.written), written(d.node)
	}
	r.Match.sortConds()
	slices.Sort(r.Match.Services)
	r.Match.Services = slices.Compact(r.Match.Services)
	c.levels(in, d)
	c.patternOf(in, d)
	for i := range r.Levels {
		c.level(b, in, d, &r.Levels[i])
	}
	c.extras(in, d)
	return r
}

// levels settles how the rule counts.
func (c *checker) levels(in *sink, d *draft) {
	if d.Tiers == nil {
		if len(d.Levels) == 0 {
			d.Levels = []Level{{Kind: Trigger, Line: d.Line}}
		}
		return
	}
	if len(d.Levels) > 0 {
		in.fail(d.node, "", "tiers set the capacity: remove bucket and window")
		return
	}
	t := d.Tiers.Tiers[d.Tiers.Default]
	d.Levels = []Level{{Kind: Bucket, Capacity: t.Capacity, Leak: t.Leak, Line: d.Line}}
	c.loadTiers(d.node, d.Tiers)
}

// level gives a level the rule's answers and escalation where it has none.
func (c *checker) level(b *book, in *sink, d *draft, l *Level) {
	if l.TTL == 0 {
		l.TTL = d.TTL
	}
	if l.Multiply == 0 {
		l.Multiply = d.Multiply
	}
	if l.Max == 0 {
		l.Max = d.Max
	}
	l.Then = slices.Clone(l.Then)
	if len(l.Then) == 0 {
		l.Then = slices.Clone([]Answer(d.Then))
	}
	if len(l.Then) == 0 {
		l.Then = []Answer{{Kind: Block}}
	}
	for i := range l.Then {
		a := &l.Then[i]
		if (a.Kind == Block || a.Kind == BlockContributors) && a.Ports == nil {
			a.Ports = d.Ports
		}
		c.answerFits(b, in, d, l, a)
	}
	if l.Wide() {
		c.wide(in, d, l)
	}
	if l.Max != 0 && l.TTL > l.Max {
		in.fail(d.node, "", "rule %s: ttl is longer than max", clip(d.Name))
	}
}

// wide checks a level that counts the sources of networks.
func (c *checker) wide(in *sink, d *draft, l *Level) {
	r, key := &d.Rule, d.Rule.Key
	bySource := len(key) == 1 && key[0].By == ByPrefix
	switch p := l.Prefix; {
	case l.Kind != Distinct || len(l.Of) != 1 || l.Of[0].By != ByPrefix || !bySource:
		in.fail(d.node, "window: {distinct: prefix, over: 8, within: 1d, prefix: {ipv6: 56}}", "a window with its own prefix needs distinct: prefix, and a rule that counts by prefix")
	case p.V4 != 0 && p.V4 >= r.Prefix.V4 || p.V6 != 0 && p.V6 >= r.Prefix.V6:
		in.fail(d.node, "", "the window's prefix of %s must be shorter than the rule's, /%d and /%d", p, r.Prefix.V4, r.Prefix.V6)
	case p.V4 != 0 && p.V4 < r.Floor.V4 || p.V6 != 0 && p.V6 < r.Floor.V6:
		in.fail(d.node, "set floor: {…} if this is intended", "the window's prefix of %s is wider than the floor of /%d and /%d", p, r.Floor.V4, r.Floor.V6)
	case l.Over < 1:
		in.fail(d.node, "over: 8", "a single source must not block its network")
	}
}

func (c *checker) answerFits(b *book, in *sink, d *draft, l *Level, a *Answer) {
	switch a.Kind {
	case Block:
		if !d.Rule.Key.HasSource() {
			hint := "then: [{flag: suspect, for: 1h}], or [{notify: ops}]"
			if l.Kind == Distinct && l.Of.HasSource() {
				hint = "then: [{block: contributors}]"
			}
			in.fail(d.node, hint, "rule %s counts by %s: there is no source to block", clip(d.Name), d.Rule.Key)
		}
		if a.Action != "" && a.Action != "drop" && b.Firewall.Hook == "prerouting" {
			in.fail(d.node, "hook: input", "%s does not work in prerouting", a.Action)
		}
	case BlockContributors:
		if l.Kind != Distinct || !l.Of.HasSource() {
			in.fail(d.node, "window: {distinct: prefix, over: 10, within: 10m}", "contributors need a window of distinct prefixes or addresses")
		}
	case Tell:
		c.targetKnown(b, in, d, a.Target)
	}
}

func (c *checker) targetKnown(b *book, in *sink, d *draft, target string) {
	var names []string
	for _, t := range b.Notify {
		if t.Name == target {
			return
		}
		names = append(names, t.Name)
	}
	hint := didYouMean(target, names)
	if len(names) == 0 {
		hint = "notify: {" + clip(target) + ": {webhook: https://…}}"
	}
	in.warn(d.Line, hint, "rule %s: there is no notify target %q, so its messages are lost", clip(d.Name), clip(target))
}

// extras checks clears and when against the levels.
func (c *checker) extras(in *sink, d *draft) {
	buckets := 0
	for _, l := range d.Levels {
		if l.Kind == Bucket {
			buckets++
		}
	}
	if d.Clears && (buckets == 0 || !d.Rule.Key.HasSource()) {
		in.fail(d.node, "", "clears needs a bucket by prefix or address")
	}
	if d.When != nil && buckets == 0 {
		in.fail(d.node, "", "when needs a bucket")
	}
	for _, w := range d.When {
		if d.Tiers == nil && buckets > 0 && !slices.ContainsFunc(d.Levels, func(l Level) bool { return l.Kind == Bucket && l.Capacity > w.Capacity }) {
			in.warn(d.Line, "", "rule %s: its buckets have no more capacity than %d, so %s changes nothing", clip(d.Name), w.Capacity, w.what())
		}
		if w.Blocked > 0 && !d.Rule.Key.HasSource() {
			in.fail(d.node, "", "rule %s counts by %s: there is no prefix that could be blocked", clip(d.Name), d.Rule.Key)
		}
	}
	for _, l := range d.Levels {
		if l.WeightIn(&d.Rule).Most() == 0 {
			in.fail(d.node, "", "all weights are 0: nothing is counted")
		}
	}
}

// patternOf settles the rule's own pattern: its events carry the rule's name
// as their service.
func (c *checker) patternOf(in *sink, d *draft) {
	p := d.Pattern
	if p == nil {
		if len(d.plain) > 0 {
			in.fail(d.node, "outcome belongs in match", "%s needs a pattern", strings.Join(d.plain, ", "))
		}
		return
	}
	hasIP := namesIP(p.Text) || p.Of != nil
	if p.Of != nil {
		in.filterOf(d)
	} else {
		in.try(p, hasIP)
	}
	if d.Match.Except {
		in.fail(d.node, "match: {service: …} or match: {source: …}", "match: {service: {not: …}} does not work with a pattern")
	}
	p.Services, d.Match.Except = d.Match.Services, false
	d.Match.Services = []string{d.Name}
	if d.Rule.Key.HasSource() && !hasIP {
		in.failAt(p.Line, p.Column, "(?P<ip>\\S+) in the place of the address", "the pattern has no group ip, but the rule counts by "+d.Rule.Key.String())
	}
}

// namesIP reports whether the pattern says where the address stands.
func namesIP(text string) bool {
	return strings.Contains(text, "<ip>")
}

// try compiles the pattern and runs its test lines; each line's mistake is
// told at the line.
func (s *sink) try(p *Pattern, hasIP bool) {
	_, ps := pack.CompilePattern("pattern", p.Text, nil, nil)
	for _, q := range ps {
		if q.Warning && !hasIP {
			continue // it is meant so: the rule does not count by source
		}
		s.c.add(Problem{File: s.file, Line: p.Line, Column: p.Column, Msg: q.Msg, Warning: q.Warning})
	}
	if pack.Broken(ps) {
		return
	}
	for i, line := range p.Matches[:min(len(p.Matches), maxTries)] {
		if _, ps := pack.CompilePattern("pattern", p.Text, []string{line}, nil); pack.Broken(ps) {
			s.failAt(p.MatchesAt[i], 1, "", "the pattern does not match "+strconv.Quote(clip(line)))
		}
	}
	for i, line := range p.Ignores[:min(len(p.Ignores), maxTries)] {
		if _, ps := pack.CompilePattern("pattern", p.Text, nil, []string{line}); pack.Broken(ps) {
			s.failAt(p.IgnoresAt[i], 1, "", "the pattern matches "+strconv.Quote(clip(line))+", which is listed in ignores")
		}
	}
}

// maxTries bounds how many test lines of one pattern are run.
const maxTries = 100

func (s *sink) failAt(line, column int, hint, msg string) {
	s.c.add(Problem{File: s.file, Line: line, Column: column, Msg: msg, Hint: hint})
}

// of is the node of a key of the file, or the whole file when it is elsewhere.
func (b *book) of(key string) *yaml.Node {
	if n := child(b.node, key); n != nil {
		return n
	}
	if b.node != nil {
		return b.node
	}
	return &yaml.Node{}
}

func (c *checker) checkLens(b *book, what string, l Lens) {
	if b.node != nil && (l.V4 < b.Floor.V4 || l.V6 < b.Floor.V6) {
		c.fail(b.of(what), "set floor: {…} if this is intended", "%s is /%d and /%d, wider than the floor of /%d and /%d", what, l.V4, l.V6, b.Floor.V4, b.Floor.V6)
	}
	if w := b.Widen; w.On && (w.Lens.V4 < b.Floor.V4 || w.Lens.V6 < b.Floor.V6) {
		c.fail(b.of("widen"), "set floor: {…} if this is intended", "widen is wider than the floor")
	}
}

func (c *checker) checkNetworks(b *book) {
	for i := range b.Networks {
		n := &b.Networks[i]
		bits := n.Prefix.Addr().BitLen()
		switch {
		case n.Len > bits:
			c.fail(b.of("networks"), "", "the network %s has no prefixes of length /%d", n.Prefix, n.Len)
		case n.Len != 0 && n.Len < b.Floor.Of(n.Prefix.Addr()):
			c.fail(b.of("networks"), "", "the network %s has prefix length /%d, wider than the floor", n.Prefix, n.Len)
		}
	}
}

// checkLists looks for what the deny list must never hold.
func (c *checker) checkLists(b *book) {
	for _, p := range b.Deny.Prefixes {
		if !p.IsValid() {
			continue
		}
		if why := b.undeniable(p); why != "" {
			hint := ""
			if least := (Lens{8, 16}).Of(p.Addr()); p.Bits() >= least && p.Bits() < b.Floor.Of(p.Addr()) {
				hint = "set floor: {…} if this is intended"
			}
			c.fail(b.of("deny"), hint, "deny contains %s, which is %s", p, why)
		}
		for _, a := range b.Allow.Prefixes {
			if a.IsValid() && a.Overlaps(p) && a.Bits() <= p.Bits() {
				c.fail(b.of("deny"), "", "deny contains %s, but allow contains %s: allow wins", p, a)
			}
		}
	}
}
