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

// sourceTally is what one address did, in one line of the cache.
type sourceTally struct {
	logins, failures, pages, others uint32
	hit                             // of the rule that it met last, if it met any
}

// hit is the lines of a source that led to a rule's blocks or came during one.
type hit struct {
	count   uint32
	stopped uint32 // of the case found, and not yet counted there
	found   uint32 // a case of the rule: its number and one
	next    uint32 // of the same source: its number and one
	rule    uint16
	shown   uint8
	web     bool
	lines   uint32 // the number of its lines
}

// shown is a line and its place.
type shown struct {
	line   int64
	origin uint32 // in tally.origins
	text
}

// text is some bytes of tally.text; none when lines are not kept.
type text struct {
	from uint32
	n    uint16
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
	index uint16
	worst *Case
}

// caseKey is what a case is found by: as short as can be, for it is hashed with
// each event that a block stops.
type caseKey struct {
	addr [16]byte
	bits uint16 // of the prefix, and 256 for IPv4
	rule uint16
}

const bitsV4 = 256

func (r *ruleTally) caseOf(p netip.Prefix) caseKey {
	k := caseKey{p.Addr().As16(), uint16(p.Bits()), r.index}
	if p.Addr().Is4() {
		k.bits += bitsV4
	}
	return k
}

func (k *caseKey) prefix() netip.Prefix {
	a := netip.AddrFrom16(k.addr)
	if k.bits < bitsV4 {
		return netip.PrefixFrom(a, int(k.bits))
	}
	return netip.PrefixFrom(a.Unmap(), int(k.bits-bitsV4))
}

// caseTally is the case of a prefix or key.
type caseTally struct {
	stopped uint64
	lines   [maxShown]text
	blocked bool // or would have been
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

// tally collects the summaries of rules while a replay goes on. It holds few
// pointers, for it grows with the log.
type tally struct {
	ledger    *ledger.Ledger
	keepText  bool
	text      []byte
	rules     map[string]*ruleTally
	byIndex   []*ruleTally
	sources   *table[[16]byte, sourceTally]
	hits      []hit // those that are not with their source
	lines     [][maxShown]shown
	cases     *table[caseKey, caseTally]
	keyed     map[keyedCase]*caseTally
	origins   []string
	untracked uint64

	observed     map[netip.Prefix]wouldBlock
	observedBits []int // the prefix lengths in observed

	breached []*ruleTally // by the event that is being counted

	// What was looked up last.
	lastAddr   netip.Addr
	lastSource *sourceTally
	lastRule   *ruleTally
}

func newTally(l *ledger.Ledger, keepText bool) *tally {
	return &tally{
		ledger: l, keepText: keepText,
		rules: map[string]*ruleTally{}, sources: newTable[[16]byte, sourceTally](), cases: newTable[caseKey, caseTally](), keyed: map[keyedCase]*caseTally{},
		observed: map[netip.Prefix]wouldBlock{},
	}
}

func (t *tally) rule(name string) *ruleTally {
	if r := t.lastRule; r != nil && r.Rule == name {
		return r
	}
	r := t.rules[name]
	if r == nil {
		r = &ruleTally{RuleSummary: RuleSummary{Rule: name}, index: uint16(len(t.rules))}
		t.byIndex = append(t.byIndex, r)
		t.rules[name] = r
	}
	t.lastRule = r
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
			t.meets(by, t.open(by, a.Prefix, "", b))
			blocks = blocks || a.Prefix.Contains(addr.Of(b.Addr))
		case Observe:
			c := t.open(r, a.Prefix, b.Key, b)
			if len(a.Would) == 0 || a.Would[0] != Block || !a.Prefix.IsValid() {
				continue
			}
			t.meets(r, c)
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

// meets notes that the prefix of a case was blocked or would have been; nil is
// one that there was no room for.
func (t *tally) meets(r *ruleTally, c *caseTally) {
	if c != nil && !c.blocked {
		c.blocked = true
		r.Prefixes++
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

// open begins the case of a prefix or, without one, of a key. It returns nil
// when there is no room for more.
func (t *tally) open(r *ruleTally, p netip.Prefix, key string, b *detect.Breach) (c *caseTally) {
	var k caseKey
	if p.IsValid() {
		k = r.caseOf(p)
		_, c = t.cases.find(k)
	} else {
		c = t.keyed[keyedCase{r, key}]
	}
	if c != nil {
		return c
	}
	if t.cases.n+len(t.keyed) >= maxCases {
		t.untracked++
		return nil
	}
	if p.IsValid() {
		_, c = t.cases.add(k)
	} else {
		c = &caseTally{}
		t.keyed[keyedCase{r, key}] = c
	}
	for i, line := range b.Evidence[:min(len(b.Evidence), maxShown)] {
		if t.room(len(line)) {
			c.lines[i] = text{uint32(len(t.text)), uint16(min(len(line), maxLineText))}
			t.text = append(t.text, line[:c.lines[i].n]...)
		}
	}
	return c
}

// room reports whether a line of that length can be kept, up to maxLineText of it.
func (t *tally) room(n int) bool {
	return t.keepText && len(t.text)+min(n, maxLineText) <= maxText
}

func (t *tally) kept(x text) string { return string(t.text[x.from:][:x.n]) }

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
	t.hit(s, r, web, origin, line)
	if login {
		return
	}
	r.Stopped++
	k := r.caseOf(p)
	if s != nil && s.found > 0 && t.cases.at(s.found-1).key == k {
		s.stopped++ // the case hears of it once for all
		return
	}
	i, c := t.cases.find(k)
	if c == nil {
		return
	}
	c.stopped++
	if s != nil {
		t.settle(&s.hit)
		s.found = i + 1
	}
}

// settle counts with its case what a hit stopped.
func (t *tally) settle(h *hit) {
	if h.stopped > 0 {
		t.cases.at(h.found - 1).value.stopped += uint64(h.stopped)
		h.stopped = 0
	}
}

// hit notes a line of a source that led to a block or came during one, and
// brings the hit of that rule to the source.
func (t *tally) hit(s *sourceTally, r *ruleTally, web bool, origin *source.Origin, line *source.Line) {
	if s == nil {
		return
	}
	if s.count == 0 || s.rule != r.index {
		t.turn(s, r, web)
	}
	h := &s.hit
	h.count++
	if h.shown >= maxShown {
		return
	}
	l := shown{line: line.Number, origin: t.origin(origin.Name)}
	// Most sources are attackers': their lines must not use up the room.
	if (s.logins+s.pages > 0 || len(t.text) < maxText/4) && t.room(len(line.Text)) {
		l.text = text{uint32(len(t.text)), uint16(min(len(line.Text), maxLineText))}
		t.text = append(t.text, line.Text[:l.n]...)
	}
	t.lines[h.lines][h.shown] = l
	h.shown++
}

// turn exchanges the hit with the source for that of another rule.
func (t *tally) turn(s *sourceTally, r *ruleTally, web bool) {
	i := s.next
	for i != 0 && t.hits[i-1].rule != r.index {
		i = t.hits[i-1].next
	}
	if i != 0 { // found: they change places
		o := &t.hits[i-1]
		here, there := s.hit, *o
		here.next, there.next = there.next, here.next
		s.hit, *o = there, here
		return
	}
	next := s.next
	if s.count > 0 {
		t.hits = append(t.hits, s.hit)
		next = uint32(len(t.hits))
	}
	t.lines = append(t.lines, [maxShown]shown{})
	s.hit = hit{rule: r.index, web: web, next: next, lines: uint32(len(t.lines) - 1)}
}

// origin is the number of the log of that name.
func (t *tally) origin(name string) uint32 {
	for i := len(t.origins) - 1; i >= 0; i-- { // mostly the last
		if t.origins[i] == name {
			return uint32(i)
		}
	}
	t.origins = append(t.origins, name)
	return uint32(len(t.origins) - 1)
}

// source returns the tally of an address, which is made if wanted; else nil.
func (t *tally) source(a netip.Addr, wanted bool) *sourceTally {
	if t.lastAddr == a && (t.lastSource != nil || !wanted) {
		return t.lastSource
	}
	k := a.As16()
	_, s := t.sources.find(k)
	if s == nil && wanted {
		if t.sources.n >= maxSources {
			t.untracked++
		} else {
			_, s = t.sources.add(k)
		}
	}
	t.lastAddr, t.lastSource = a, s
	return s
}

// summaries returns what there is to say of each rule, sorted by name, and how
// many good sources met a block.
func (t *tally) summaries() (out []RuleSummary, goodHit int) {
	for i := range t.sources.n {
		e := t.sources.at(uint32(i))
		for h := &e.value.hit; h != nil; h = t.after(h) {
			t.settle(h)
		}
		if t.goodHits(netip.AddrFrom16(e.key).Unmap(), &e.value) {
			goodHit++
		}
	}
	for i := range t.cases.n {
		e := t.cases.at(uint32(i))
		r := t.byIndex[e.key.rule]
		if r.worst == nil || e.value.stopped >= r.worst.Stopped {
			r.judge(t.asCase(&e.value, e.key.prefix(), ""))
		}
	}
	for k, c := range t.keyed {
		k.rule.judge(t.asCase(c, netip.Prefix{}, k.key))
	}
	for _, r := range t.rules {
		if r.worst != nil {
			r.Worst = *r.worst
		}
		slices.SortFunc(r.Good, func(a, b GoodSource) int { return cmp.Or(b.Hits-a.Hits, a.Addr.Compare(b.Addr)) })
		r.Good = r.Good[:min(len(r.Good), maxGood)]
		out = append(out, r.RuleSummary)
	}
	slices.SortFunc(out, func(a, b RuleSummary) int { return cmp.Compare(a.Rule, b.Rule) })
	return out, goodHit
}

// goodHits notes, for each rule that a source met, that the source looks honest,
// and reports whether one of those rules blocked it.
func (t *tally) goodHits(a netip.Addr, s *sourceTally) (blocked bool) {
	for h := &s.hit; h != nil; h = t.after(h) {
		if h.count == 0 || !s.good(h.web) {
			continue
		}
		r := t.byIndex[h.rule]
		blocked = blocked || !r.Observe
		g := GoodSource{Addr: a, Hits: int(h.count), Successes: int(s.logins), Failures: int(s.failures)}
		if h.web {
			g.Successes, g.Failures = int(s.pages), int(s.others)
		}
		for _, l := range t.lines[h.lines][:h.shown] {
			g.Lines = append(g.Lines, Shown{t.origins[l.origin], l.line, t.kept(l.text)})
		}
		r.GoodHit++
		r.Good = append(r.Good, g)
	}
	return blocked
}

// after is the next hit of the same source; nil when there is none.
func (t *tally) after(h *hit) *hit {
	if h.next == 0 {
		return nil
	}
	return &t.hits[h.next-1]
}

// asCase gives a case its name and lines.
func (t *tally) asCase(c *caseTally, p netip.Prefix, key string) *Case {
	out := &Case{Prefix: p, Key: key, Stopped: c.stopped}
	for _, l := range c.lines {
		if l.n > 0 {
			out.Lines = append(out.Lines, t.kept(l))
		}
	}
	return out
}

// judge makes c the rule's worst case if it is.
func (r *ruleTally) judge(c *Case) {
	if r.worst == nil || worse(c, r.worst) {
		r.worst = c
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
