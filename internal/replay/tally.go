package replay

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"stoplog/internal/addr"
	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/parse"
	"stoplog/internal/source"
)

// Bounds of what a replay remembers for its summary. Beyond them, new sources
// and prefixes are left out of the rules' summaries and counted in Untracked.
const (
	maxSources  = 200_000
	maxCases    = 200_000
	maxText     = 16 << 20 // bytes of lines
	maxLineText = 300
	maxShown    = 3  // lines of one source or prefix
	maxGood     = 20 // good sources of a rule that are listed
)

// RuleSummary is what a whole replay says about one rule.
type RuleSummary struct {
	Rule     string
	Observe  bool
	Breaches uint64 // answered ones
	Blocks   uint64
	Prefixes int // different ones that were blocked, or would have been
	// Stopped counts the events of sources that the rule's blocks stopped; of an
	// observing rule, the failures and requests that its first blocks would have.
	Stopped uint64
	// GoodHit is how many good sources were blocked or would have been, and Good
	// lists the first of them, those with the most lines first.
	GoodHit int
	Good    []GoodSource
	Worst   Case
}

// GoodSource is a source that looks honest (see good) and met a block.
type GoodSource struct {
	Addr                netip.Addr
	Hits                int // its lines that led to a block or came during one
	Successes, Failures int // in the whole replay; of web traffic, see good
	Lines               []Shown
}

// Case is the prefix or key of which a rule would have stopped the most.
type Case struct {
	Prefix  netip.Prefix // invalid when the rule counts no sources
	Key     string
	Stopped uint64
	Lines   []string // the first that filled its bucket
}

// Shown is a line and its place. Text is empty when lines are not kept.
type Shown struct {
	Source string
	Line   int64
	Text   string
}

// sourceTally is what one address did.
type sourceTally struct {
	logins, failures, pages, others uint32
	hits                            []hit // by rule
}

type hit struct {
	rule  *ruleTally
	web   bool
	n     int
	lines []Shown
}

// good reports whether the source looks honest by its whole record. Of logins:
// it logged in, and failed at most three times as often and ten times more. Of
// web traffic: more of its requests fetched a page (GET or HEAD, answered with
// 2xx or 3xx) than did not.
func (s *sourceTally) good(web bool) bool {
	if web {
		return s.pages > s.others
	}
	return s.logins > 0 && s.failures <= 3*s.logins+10
}

type ruleTally struct {
	RuleSummary
	index    uint16
	prefixes map[netip.Prefix]struct{}
	worst    *Case
}

// caseKey is what a case is found by: as short as can be, for it is hashed with
// each event that a block stops.
type caseKey struct {
	addr [16]byte
	bits uint8
	rule uint16
}

func (r *ruleTally) caseOf(p netip.Prefix) caseKey {
	return caseKey{p.Addr().As16(), uint8(p.Bits()), r.index}
}

// keyedCase is a case of a rule that counts no sources.
type keyedCase struct {
	rule *ruleTally
	key  string
}

// wouldBlock is a block that an observing rule did not set.
type wouldBlock struct {
	until int64
	rule  *ruleTally
}

// tally collects the summaries of rules while a replay goes on.
type tally struct {
	ledger    *ledger.Ledger
	keepText  bool
	text      int // bytes kept
	rules     map[string]*ruleTally
	byIndex   []*ruleTally
	sources   map[[16]byte]*sourceTally
	cases     map[caseKey]*Case
	keyed     map[keyedCase]*Case
	untracked uint64

	observed     map[netip.Prefix]wouldBlock
	observedBits []int // the prefix lengths in observed

	breached []*ruleTally // by the event that is being counted

	last   netip.Addr // looked up last
	lastOf *sourceTally
}

func newTally(l *ledger.Ledger, keepText bool) *tally {
	return &tally{
		ledger: l, keepText: keepText,
		rules: map[string]*ruleTally{}, sources: map[[16]byte]*sourceTally{}, cases: map[caseKey]*Case{}, keyed: map[keyedCase]*Case{},
		observed: map[netip.Prefix]wouldBlock{},
	}
}

func (t *tally) rule(name string) *ruleTally {
	r := t.rules[name]
	if r == nil {
		r = &ruleTally{RuleSummary: RuleSummary{Rule: name}, index: uint16(len(t.rules)), prefixes: map[netip.Prefix]struct{}{}}
		t.byIndex = append(t.byIndex, r)
		t.rules[name] = r
	}
	return r
}

// breach counts what came of one.
func (t *tally) breach(b *detect.Breach, answers []Answer) {
	if len(answers) == 0 {
		return
	}
	r := t.rule(b.Rule)
	r.Breaches++
	r.Observe = r.Observe || b.Observe
	blocks := false
	for i := range answers {
		switch a := &answers[i]; a.Kind {
		case Block:
			by := t.rule(a.Rule) // of a widened block another
			by.Blocks++
			t.meets(by, a.Prefix)
			t.open(by, a.Prefix, "", b)
			blocks = blocks || a.Prefix.Contains(addr.Of(b.Addr))
		case Observe:
			t.open(r, a.Prefix, b.Key, b)
			if len(a.Would) == 0 || a.Would[0] != Block || !a.Prefix.IsValid() {
				continue
			}
			t.meets(r, a.Prefix)
			t.observe(r, a.Prefix, b.At+int64(a.TTL))
			blocks = true
		default:
			t.open(r, a.Prefix, b.Key, b)
		}
	}
	if blocks {
		t.breached = append(t.breached, r)
	}
}

func (t *tally) meets(r *ruleTally, p netip.Prefix) {
	if len(r.prefixes) < maxCases {
		r.prefixes[p] = struct{}{}
	}
}

// observe notes until when an observing rule would have blocked p.
func (t *tally) observe(r *ruleTally, p netip.Prefix, until int64) {
	if len(t.observed) >= maxCases {
		maps.DeleteFunc(t.observed, func(_ netip.Prefix, w wouldBlock) bool { return w.until < until-int64(24*time.Hour) })
		if len(t.observed) >= maxCases {
			t.untracked++
			return
		}
	}
	t.observed[p] = wouldBlock{until, r}
	if !slices.Contains(t.observedBits, p.Bits()) {
		t.observedBits = append(t.observedBits, p.Bits())
	}
}

// open begins the case of a prefix or, without one, of a key.
func (t *tally) open(r *ruleTally, p netip.Prefix, key string, b *detect.Breach) {
	var c *Case
	if p.IsValid() {
		c, key = t.cases[r.caseOf(p)], ""
	} else {
		c = t.keyed[keyedCase{r, key}]
	}
	if c != nil {
		return
	}
	if len(t.cases)+len(t.keyed) >= maxCases {
		t.untracked++
		return
	}
	c = &Case{Prefix: p, Key: key}
	for _, line := range b.Evidence[:min(len(b.Evidence), maxShown)] {
		if text := t.keep([]byte(line)); text != "" {
			c.Lines = append(c.Lines, text)
		}
	}
	if p.IsValid() {
		t.cases[r.caseOf(p)] = c
	} else {
		t.keyed[keyedCase{r, key}] = c
	}
}

// keep copies a line, "" when there is no room for more or none may be kept.
func (t *tally) keep(line []byte) string {
	line = line[:min(len(line), maxLineText)]
	if !t.keepText || t.text+len(line) > maxText {
		return ""
	}
	t.text += len(line)
	return string(line)
}

// event counts one event, after its breaches.
func (t *tally) event(ev *parse.Event, origin *source.Origin, line *source.Line, stopped bool) {
	breached := t.breached
	t.breached = t.breached[:0]
	if !ev.Addr.IsValid() {
		return
	}
	web := len(ev.Method) > 0
	page := web && ev.Status >= 200 && ev.Status < 400 && (string(ev.Method) == "GET" || string(ev.Method) == "HEAD")
	s := t.source(ev.Addr, stopped || len(breached) > 0 || page || ev.Outcome == parse.Success)
	if s != nil {
		switch {
		case page:
			s.pages++
		case web:
			s.others++
		case ev.Outcome == parse.Success:
			s.logins++
		case ev.Outcome == parse.Failure:
			s.failures++
		}
	}
	for _, r := range breached {
		t.hit(s, r, web, origin, line)
	}
	login := ev.Outcome == parse.Success // no attempt, but a block stops it as well
	if stopped || login {
		if rule, p, ok := t.ledger.BlockedBy(ev.Addr, ev.Service, ev.Time); ok {
			t.stopped(t.rule(rule), p, login, s, web, origin, line)
			return
		}
	}
	if len(t.observed) > 0 && (web || ev.Outcome != parse.Other) {
		t.wouldStop(ev, breached, s, web, origin, line)
	}
}

// wouldStop counts an event that an observing rule would have stopped, unless it
// is the one that breached.
func (t *tally) wouldStop(ev *parse.Event, breached []*ruleTally, s *sourceTally, web bool, origin *source.Origin, line *source.Line) {
	from := addr.Of(ev.Addr)
	for _, bits := range t.observedBits {
		p, err := from.Prefix(bits)
		if err != nil {
			continue
		}
		if w, ok := t.observed[p]; ok && ev.Time < w.until && !slices.Contains(breached, w.rule) {
			if s == nil {
				s = t.source(ev.Addr, true)
			}
			t.stopped(w.rule, p, ev.Outcome == parse.Success, s, web, origin, line)
			return
		}
	}
}

func (t *tally) stopped(r *ruleTally, p netip.Prefix, login bool, s *sourceTally, web bool, origin *source.Origin, line *source.Line) {
	if !login {
		r.Stopped++
		if c := t.cases[r.caseOf(p)]; c != nil {
			c.Stopped++
		}
	}
	t.hit(s, r, web, origin, line)
}

// hit notes a line of a source that led to a block or came during one.
func (t *tally) hit(s *sourceTally, r *ruleTally, web bool, origin *source.Origin, line *source.Line) {
	if s == nil {
		return
	}
	i := slices.IndexFunc(s.hits, func(h hit) bool { return h.rule == r })
	if i < 0 {
		s.hits = append(s.hits, hit{rule: r, web: web, lines: make([]Shown, 0, maxShown)})
		i = len(s.hits) - 1
	}
	h := &s.hits[i]
	h.n++
	if len(h.lines) >= maxShown {
		return
	}
	shown := Shown{Source: origin.Name, Line: line.Number}
	// Most sources are attackers': their lines must not use up the room.
	if s.logins+s.pages > 0 || t.text < maxText/4 {
		shown.Text = t.keep(line.Text)
	}
	h.lines = append(h.lines, shown)
}

// source returns the tally of an address, which is made if wanted; else nil.
func (t *tally) source(a netip.Addr, wanted bool) *sourceTally {
	if t.last == a && (t.lastOf != nil || !wanted) {
		return t.lastOf
	}
	k := a.As16()
	s := t.sources[k]
	if s == nil && wanted {
		if len(t.sources) >= maxSources {
			t.untracked++
		} else {
			s = &sourceTally{}
			t.sources[k] = s
		}
	}
	t.last, t.lastOf = a, s
	return s
}

// summaries returns what there is to say of each rule, sorted by name, and how
// many good sources met a block.
func (t *tally) summaries() (out []RuleSummary, goodHit int) {
	for a, s := range t.sources {
		counted := false
		for _, h := range s.hits {
			if !s.good(h.web) {
				continue
			}
			if !counted && !h.rule.Observe {
				counted = true
				goodHit++
			}
			ok, bad := s.logins, s.failures
			if h.web {
				ok, bad = s.pages, s.others
			}
			h.rule.GoodHit++
			h.rule.Good = append(h.rule.Good, GoodSource{Addr: netip.AddrFrom16(a).Unmap(), Hits: h.n, Successes: int(ok), Failures: int(bad), Lines: h.lines})
		}
	}
	for k, c := range t.cases {
		t.byIndex[k.rule].judge(c)
	}
	for k, c := range t.keyed {
		k.rule.judge(c)
	}
	for _, r := range t.rules {
		r.Prefixes = len(r.prefixes)
		slices.SortFunc(r.Good, func(a, b GoodSource) int { return cmp.Or(b.Hits-a.Hits, a.Addr.Compare(b.Addr)) })
		r.Good = r.Good[:min(len(r.Good), maxGood)]
		out = append(out, r.RuleSummary)
	}
	slices.SortFunc(out, func(a, b RuleSummary) int { return cmp.Compare(a.Rule, b.Rule) })
	return out, goodHit
}

// judge makes c the rule's worst case if it is.
func (r *ruleTally) judge(c *Case) {
	if r.worst == nil || worse(c, r.worst) {
		r.worst, r.Worst = c, *c
	}
}

// worse orders cases by what was stopped; the rest decides among equals, so that
// two runs say the same.
func worse(a, b *Case) bool {
	return cmp.Or(cmp.Compare(a.Stopped, b.Stopped), cmp.Compare(b.Prefix.String(), a.Prefix.String()), cmp.Compare(b.Key, a.Key)) > 0
}

// note says what the bounds left out, "" for nothing.
func (t *tally) note() string {
	if t.untracked == 0 {
		return ""
	}
	return fmt.Sprintf("the summary of the rules leaves out %d events: it remembers %d sources and %d prefixes", t.untracked, maxSources, maxCases)
}
