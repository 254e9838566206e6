package rules

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"stoplog/internal/parse"
	"stoplog/internal/source"
)

// Match says which events a rule looks at: all of its conditions must hold.
// The zero Match takes every event.
type Match struct {
	// Services, Outcomes and Kinds are the conditions that an index can use;
	// nil and 0 take any. Bit n of a mask is the outcome or kind n.
	Services []string
	Except   bool  // all services but those
	Outcomes uint8 `in:"conditions" is:"outcomes" key:"outcome" doc:"result of the attempt" what:"an outcome" eg:"failure"`
	Kinds    uint8 `is:"kinds" key:"kind" doc:"kind of the event" what:"a kind" eg:"{not: probe}"`
	// Known, when set, asks that somebody has (or has not) logged in lately
	// from the event's source. The engine asks it: an event does not know.
	Known *bool `key:"known_good" doc:"whether the source is known-good: somebody logged in from it lately" eg:"false"`
	Conds []Cond
}

// Cond is one condition on one field of an event.
type Cond struct {
	Field string // as in the rules file: "path", "status", "field tenant"…
	read  reader
	test  test
}

// value of a field: text, a number or an address, by the field's type.
type subject struct {
	text []byte
	num  int64
	addr netip.Addr
}

// reader reads a field of an event; false: the event has none.
type reader func(ev *parse.Event, o *source.Origin) (subject, bool)

// test is what a field's value must be.
type test struct {
	op     op
	text   []byte
	re     *regexp.Regexp
	lo, hi int64
	prefix netip.Prefix
	sub    []test
}

type op uint8

const (
	opIs op = iota
	opGlob
	opStarts
	opEnds
	opContains
	opRegex
	opRange
	opPrefix
	opAny // of sub
	opAll // of sub
	opNot // none of sub
)

// Takes reports whether an event of this service, outcome and kind may match:
// what an index decides before Event is asked.
func (m *Match) Takes(service string, o parse.Outcome, k parse.Kind) bool {
	if m.Outcomes != 0 && m.Outcomes&(1<<o) == 0 || m.Kinds != 0 && m.Kinds&(1<<k) == 0 {
		return false
	}
	return m.Serves(service)
}

// Serves reports whether the service is one that the match looks at.
func (m *Match) Serves(service string) bool {
	for _, s := range m.Services {
		if s == service {
			return !m.Except
		}
	}
	return m.Services == nil || m.Except
}

// Event reports whether the rest of the conditions hold; Takes and Known are
// asked apart. It does not allocate, unless a path is written in escapes.
func (m *Match) Event(ev *parse.Event, o *source.Origin) bool {
	for i := range m.Conds {
		if !m.Conds[i].holds(ev, o) {
			return false
		}
	}
	return true
}

// holds: a condition on a field that the event lacks fails, even "not".
func (c *Cond) holds(ev *parse.Event, o *source.Origin) bool {
	s, ok := c.read(ev, o)
	return ok && c.test.holds(&s)
}

func (t *test) holds(s *subject) bool {
	switch t.op {
	case opIs:
		return bytes.Equal(s.text, t.text)
	case opGlob:
		return glob(t.text, s.text)
	case opStarts:
		return bytes.HasPrefix(s.text, t.text)
	case opEnds:
		return bytes.HasSuffix(s.text, t.text)
	case opContains:
		return bytes.Contains(s.text, t.text)
	case opRegex:
		return t.re.Match(s.text)
	case opRange:
		return t.lo <= s.num && s.num <= t.hi
	case opPrefix:
		return t.prefix.Contains(s.addr)
	}
	return t.combines(s)
}

func (t *test) combines(s *subject) bool {
	for i := range t.sub {
		if t.sub[i].holds(s) == (t.op != opAll) {
			return t.op == opAny
		}
	}
	return t.op != opAny
}

// glob reports whether text matches pattern, where * is any run of bytes (a
// slash too) and ? any one byte. It takes at most len(pattern)×len(text) steps.
func glob(pattern, text []byte) bool {
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// cost is about how long a test takes, to ask the cheap ones first.
func (t *test) cost() int {
	switch t.op {
	case opRange, opPrefix:
		return 1
	case opIs, opStarts, opEnds:
		return 2
	case opContains:
		return 8
	case opGlob:
		return 16
	case opRegex:
		return 64
	}
	sum := 1
	for i := range t.sub {
		sum += t.sub[i].cost()
	}
	return sum
}

// sortConds puts the cheap conditions first; that of a path costs more, for it
// may have to be unescaped.
func (m *Match) sortConds() {
	cost := func(c Cond) int {
		if c.Field == "path" || strings.Contains(c.Field, " ") {
			return c.test.cost() + 8
		}
		return c.test.cost()
	}
	slices.SortStableFunc(m.Conds, func(a, b Cond) int { return cost(a) - cost(b) })
}

// Weight is how much one matching event pours: the largest of the weights
// that apply, or Base when none does.
type Weight struct {
	Base  int    `in:"weights" key:"base" doc:"points if no other weight applies" what:"a weight" default:"1" range:"0..1000" eg:"2"`
	Kinds [8]int // by kind of event; 0: none
	exact []lookup
	conds []weighing
}

// lookup is weights by the exact value of one field.
type lookup struct {
	read reader
	by   map[string]int
	most int
	// some holds the traits of the values that have a weight: most others are
	// told by theirs that they have none.
	some [4]uint64
}

func newLookup(read reader, by map[string]int) lookup {
	l := lookup{read: read, by: by}
	for v, n := range by {
		t := trait([]byte(v))
		l.some[t/64] |= 1 << (t % 64)
		l.most = max(l.most, n)
	}
	return l
}

// trait is eight bits of a text's length and its first and last byte.
func trait(v []byte) uint8 {
	if len(v) == 0 {
		return 0
	}
	return uint8(len(v))*31 ^ v[0]*7 ^ v[len(v)-1]*53
}

// of is the weight of a value, 0 for none.
func (l *lookup) of(v []byte) int {
	if t := trait(v); l.some[t/64]>>(t%64)&1 == 0 {
		return 0
	}
	return l.by[string(v)]
}

type weighing struct {
	cond Cond
	n    int
}

// Of returns what ev pours for each attempt that it reports.
func (w *Weight) Of(ev *parse.Event, o *source.Origin) int {
	n := w.Kinds[ev.Kind&7]
	for i := range w.exact {
		l := &w.exact[i]
		if l.most <= n {
			continue
		}
		if s, ok := l.read(ev, o); ok {
			n = max(n, l.of(s.text))
		}
	}
	for i := range w.conds {
		if c := &w.conds[i]; c.n > n && c.cond.holds(ev, o) {
			n = c.n
		}
	}
	if n == 0 {
		return w.Base
	}
	return n
}

// WeightIn is the level's own weight, or else the rule's.
func (l *Level) WeightIn(r *Rule) *Weight {
	if l.Weight != nil {
		return l.Weight
	}
	return &r.Weight
}

// Most is the largest weight that can apply.
func (w *Weight) Most() int {
	n := w.Base
	for _, k := range w.Kinds {
		n = max(n, k)
	}
	for _, c := range w.conds {
		n = max(n, c.n)
	}
	for i := range w.exact {
		n = max(n, w.exact[i].most)
	}
	return n
}

// Why says what keeps the match from taking an event: one reason for each of its
// conditions that fails. known says whether the event's user is known-good there.
func (m *Match) Why(ev *parse.Event, o *source.Origin, known bool) (reasons []string) {
	add := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	switch {
	case m.Serves(ev.Service):
	case m.Except:
		add("it excludes the service %s", ev.Service)
	default:
		add("the service is %s, not %s", ev.Service, strings.Join(m.Services, " or "))
	}
	if m.Outcomes != 0 && m.Outcomes&(1<<ev.Outcome) == 0 {
		add("the outcome is %s, not %s", ev.Outcome, maskWords(m.Outcomes, outcomeWords))
	}
	if m.Kinds != 0 && m.Kinds&(1<<ev.Kind) == 0 {
		add("the kind is %s, not %s", kindWords[ev.Kind], maskWords(m.Kinds, kindWords))
	}
	if m.Known != nil && *m.Known != known {
		add("known-good is %v", known)
	}
	for i := range m.Conds {
		if c := &m.Conds[i]; !c.holds(ev, o) {
			reasons = append(reasons, c.why(ev, o))
		}
	}
	return reasons
}

// Nearly reports whether a single condition keeps the match from an event, and
// others hold. The service of a rule's own pattern is no such condition.
func (r *Rule) Nearly(ev *parse.Event, reasons []string) bool {
	m := &r.Match
	conditions := len(m.Conds)
	for _, has := range []bool{m.Services != nil, m.Outcomes != 0, m.Kinds != 0, m.Known != nil} {
		if has {
			conditions++
		}
	}
	return len(reasons) == 1 && conditions > 1 && (r.Pattern == nil || m.Serves(ev.Service))
}

func maskWords(mask uint8, words []string) string {
	var out []string
	for i, w := range words {
		if mask&(1<<i) != 0 {
			out = append(out, w)
		}
	}
	return strings.Join(out, " or ")
}

func (c *Cond) why(ev *parse.Event, o *source.Origin) string {
	s, ok := c.read(ev, o)
	switch {
	case !ok:
		return "the line has no " + c.Field
	case s.text != nil:
		return fmt.Sprintf("%s is %q", c.Field, clip(string(s.text)))
	case s.addr.IsValid():
		return fmt.Sprintf("%s is %s", c.Field, s.addr)
	}
	return fmt.Sprintf("%s is %d", c.Field, s.num)
}

// ParseMatch reads conditions, written as the value of a rule's match, or says
// what is wrong with them. name stands before each message.
func ParseMatch(name, text string) (*Match, error) {
	c, m := &checker{file: name}, &Match{}
	n := c.document([]byte(text))
	if n == nil && len(c.problems) == 0 {
		return nil, fmt.Errorf("%s: expected conditions such as {status: 404}", name)
	}
	if n != nil {
		objectFor[Match]().into(c, n, m)
	}
	var errs []string
	for _, p := range c.problems {
		if !p.Warning {
			p.Line = 0 // of one line
			errs = append(errs, p.Error())
		}
	}
	if errs != nil {
		return nil, errors.New(strings.Join(errs, "; "))
	}
	m.sortConds()
	return m, nil
}
