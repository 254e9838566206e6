package rules

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"stoplog/internal/parse"
)

// lint warns of a rule that can never match, never breach, or matches
// everything.
func (c *checker) lint(s *Set, r *Rule) {
	in := &sink{c, r.File}
	for _, why := range neverMatches(r) {
		in.warn(r.Line, "", "the rule %s can never match: %s", r.Name, why)
	}
	if r.Pattern == nil && matchesAll(&r.Match) && blocks(r) {
		what := "names an address"
		if len(r.Match.Conds) > 0 {
			what = "has a " + r.Match.Conds[0].Field
		}
		in.warn(r.Line, "match: {outcome: failure}", "the rule %s matches every line that %s", r.Name, what)
	}
	lintServices(in, s, r)
	for i := range r.Levels {
		lintLevel(s, in, r, &r.Levels[i])
		lintRoom(s, in, r, &r.Levels[i])
	}
	for _, cond := range r.Match.Conds {
		for _, a := range s.Allow.Prefixes {
			if cond.Field == "ip" && cond.test.op == opPrefix && a.Contains(cond.test.prefix.Addr()) && a.Bits() <= cond.test.prefix.Bits() {
				in.warn(r.Line, "", "the rule %s can never match: %s is allowed by %s", r.Name, cond.test.prefix, a)
			}
		}
	}
}

func blocks(r *Rule) bool {
	for _, l := range r.Levels {
		for _, a := range l.Then {
			if a.Kind == Block && !r.Observe {
				return true
			}
		}
	}
	return false
}

// matchesAll reports whether the match takes ordinary traffic whole.
func matchesAll(m *Match) bool {
	const failure, success, other = 1 << 1, 1 << 2, 1 << 0
	ordinary := m.Outcomes == 0 || m.Outcomes&other != 0 && m.Kinds == 0
	return ordinary && (m.Services == nil || m.Except) && !slices.ContainsFunc(m.Conds, Cond.picks) && m.Known == nil && m.Kinds&^1 == 0
}

// picks reports whether the condition leaves some values of its field out.
func (c Cond) picks() bool {
	t := &c.test
	for (t.op == opAny || t.op == opAll) && len(t.sub) == 1 {
		t = &t.sub[0]
	}
	switch t.op {
	case opGlob:
		return strings.Trim(string(t.text), "*") != ""
	case opStarts:
		return c.Field != "path" || string(t.text) != "/"
	case opRange:
		return c.Field != "status" || t.lo > 100 || t.hi < 599
	}
	return true
}

var notWeb = []string{"sshd", "dropbear", "sudo", "su", "dovecot", "postfix", "exim", "vsftpd", "proftpd", "mysqld", "postgres", "named"}

func neverMatches(r *Rule) []string {
	var out []string
	m := &r.Match
	for _, f := range eventFields() {
		if f.web && m.has(f.name) && len(m.Services) > 0 && !m.Except && allIn(m.Services, notWeb) {
			out = append(out, m.Services[0]+" has no "+f.name)
		}
	}
	if m.Outcomes == 1<<2 && m.Kinds != 0 && m.Kinds&1 == 0 {
		out = append(out, "a success has no kind")
	}
	if m.Outcomes == 1<<1 && m.Kinds == 1<<1 {
		out = append(out, "a probe is no failure; its outcome is other")
	}
	for i := range m.Conds {
		if why := m.Conds[i].never(); why != "" {
			out = append(out, why)
		}
	}
	return out
}

func (m *Match) has(field string) bool {
	return slices.ContainsFunc(m.Conds, func(c Cond) bool { return c.Field == field })
}

func allIn(some, all []string) bool {
	for _, s := range some {
		if !slices.Contains(all, s) {
			return false
		}
	}
	return true
}

// never tells why no value of the field can pass the test, "" when one can.
func (c *Cond) never() string {
	t := &c.test
	if t.op == opAny {
		for i := range t.sub {
			if (&Cond{Field: c.Field, test: t.sub[i]}).never() == "" {
				return ""
			}
		}
	}
	for t.op == opAny || t.op == opAll && len(t.sub) == 1 {
		t = &t.sub[0]
	}
	switch {
	case c.nothingLeft():
		return "no " + c.Field + " is all of that"
	case t.op == opNot && len(t.sub) == 1 && !(Cond{Field: c.Field, test: t.sub[0]}).picks():
		return "nothing is left of " + c.Field
	case c.Field == "status" && t.op == opRange && (t.hi < 100 || t.lo > 599):
		return "a status is from 100 to 599"
	case c.Field == "path" && slices.Contains([]op{opIs, opStarts}, t.op) && !bytes.ContainsAny(t.text[:min(1, len(t.text))], "/*?"):
		return "a path begins with /"
	case c.Field == "path" && t.op == opIs && bytes.ContainsAny(t.text, "?"):
		return "a path has no query; use params"
	case c.Field == "method" && t.op == opIs && !bytes.Equal(t.text, bytes.ToUpper(t.text)):
		return "methods are written in capitals"
	}
	return ""
}

// nothingLeft reports whether a condition that names its values leaves none of
// them over by what else it says.
func (c *Cond) nothingLeft() bool {
	if c.test.op != opAll {
		return false
	}
	for i := range c.test.sub {
		if vs := c.test.sub[i].values(); len(vs) > 0 {
			return !slices.ContainsFunc(vs, func(s subject) bool { return c.test.holds(&s) })
		}
	}
	return false
}

// values are the only ones that can pass the test; none when they are not
// named one by one.
func (t *test) values() []subject {
	if t.op == opIs {
		return []subject{{text: t.text}}
	}
	if t.op != opAny {
		return nil
	}
	var out []subject
	for i := range t.sub {
		vs := t.sub[i].values()
		if vs == nil {
			return nil
		}
		out = append(out, vs...)
	}
	return out
}

// SlowLeak is the leak from which a bucket is slow. Probes are not poured into
// slow buckets: a monitor that connects every few minutes would fill them.
const SlowLeak = 10 * time.Minute

func lintLevel(s *Set, in *sink, r *Rule, l *Level) {
	switch l.Kind {
	case Bucket:
		if w := l.WeightIn(r).Most(); l.Capacity > 0 && w > l.Capacity {
			in.warn(l.Line, "", "the rule %s: one event of weight %d is more than the capacity of %d", r.Name, w, l.Capacity)
		}
		const probe = 1 << 1
		if r.Match.Kinds&probe != 0 && l.Leak >= SlowLeak {
			in.warn(l.Line, "leak: 1m", "the rule %s: probes fill fast buckets only, for monitors and load balancers make them all day", r.Name)
		}
	case Distinct:
		if len(l.Of) == 1 && len(r.Key) > 0 && slices.Contains(r.Key, l.Of[0]) && l.Over > 0 {
			in.warn(l.Line, "", "the rule %s can never breach: there is one %s by %s", r.Name, l.Of, r.Key)
			return
		}
		lintSpread(s, in, r, l)
	}
}

// lintSpread warns of a count of different sources within one source that does
// not hold so many.
func lintSpread(s *Set, in *sink, r *Rule, l *Level) {
	if len(l.Of) != 1 || !l.Of.HasSource() {
		return
	}
	if r.Key.Has(ByAddr) {
		if l.Over > 0 {
			in.warn(l.Line, "", "the rule %s can never breach: there is one %s by %s", r.Name, l.Of, r.Key)
		}
		return
	}
	if !r.Key.Has(ByPrefix) {
		return
	}
	for _, f := range []struct{ is, len, bits int }{{4, r.Prefix.V4, 32}, {6, r.Prefix.V6, 128}} {
		if rest := f.bits - f.len; rest < 20 && l.Over >= 1<<rest && !s.wider(f.bits, f.len) {
			in.warn(l.Line, "prefix: {…}, or a smaller number", "the rule %s can never breach for IPv%d: a /%d holds %d addresses", r.Name, f.is, f.len, 1<<rest)
		}
	}
}

// maxWindow is the most that a window counts.
const maxWindow = 1<<16 - 1

// lintRoom warns of a network that gives a level more room than it can have.
func lintRoom(s *Set, in *sink, r *Rule, l *Level) {
	if !r.Key.HasSource() {
		return
	}
	for i := range s.Networks {
		n := &s.Networks[i]
		switch {
		case l.Kind == Bucket && n.Holds(l.Capacity) > l.Capacity && time.Duration(n.Holds(l.Capacity)) > maxDrain/l.Leak:
			in.warn(l.Line, "", "the rule %s: a capacity of %d, in %s, would take longer than 700d to drain", r.Name, n.Holds(l.Capacity), n.Prefix)
		case (l.Kind == Window || l.Kind == Distinct) && n.Holds(l.Over) > maxWindow:
			in.warn(l.Line, "", "the rule %s: a window counts to %d at most, not to %d as in %s", r.Name, maxWindow, n.Holds(l.Over), n.Prefix)
		}
	}
}

// wider reports whether some network of that family is cut into wider
// prefixes.
func (s *Set) wider(bits, length int) bool {
	return slices.ContainsFunc(s.Networks, func(n Network) bool {
		return n.Prefix.Addr().BitLen() == bits && n.Len != 0 && n.Len < length
	})
}

// lintSet warns of what makes the whole file idle.
func (c *checker) lintSet(b *book) {
	whole := b.node
	if whole == nil { // an empty file
		whole = &yaml.Node{Line: 1, Column: 1}
	}
	for _, a := range b.Allow.Prefixes {
		if a.IsValid() && a.Bits() == 0 {
			n := b.of("allow")
			c.warn(n.Line, n.Column, "", "allow holds %s: nothing of it is ever blocked", a)
		}
	}
	if len(b.Rules) == 0 {
		c.warn(whole.Line, whole.Column, "use: auto", "there are no rules: nothing is ever blocked")
	} else if len(b.Sources) == 0 {
		c.warn(whole.Line, whole.Column, "use: auto, or sources: [auth]", "there are no sources: nothing is read")
	}
}

// lintServices warns of services that no line is of: a misspelt name makes a
// rule that never matches.
func lintServices(in *sink, s *Set, r *Rule) {
	if r.Pattern != nil || len(r.Match.Services) == 0 {
		return
	}
	known := parse.Services()
	for _, src := range s.Sources {
		known = append(known, src.Service)
	}
	for _, other := range s.Rules {
		if other.Pattern != nil {
			known = append(known, other.Name)
		}
	}
	for _, name := range r.Match.Services {
		if slices.Contains(known, name) {
			continue
		}
		hint := ""
		if near := nearest(name, known); near != "" {
			hint = "did you mean " + near + "?"
		}
		in.warn(r.Line, hint, "the rule %s: no line that stoplog reads is of a service %q, unless a program names itself so in JSON", r.Name, clip(name))
	}
}
