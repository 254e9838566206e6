package ledger

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unique"

	"stoplog/internal/detect"
)

// record is the last block of a prefix, in some hundred bytes: what most blocks
// have in common is kept once for all of them, what few have lies apart.
type record struct {
	// First what every event of the prefix asks for, in one line of the cache.
	k            pkey
	since, until int64 // Unix ns
	ended        bool  // the walls were told
	lifted       bool  // until was cut short by hand
	forever      bool
	partial      bool
	ported       bool // not all ports
	keyed        bool // the key is the prefix
	excepting    bool // somebody inside passes
	about        unique.Handle[about]
	more         *more // nil: there is none
	user         unique.Handle[string]
	line         int64
	next, prev   *record // of one network that may be widened to
	count        int32
	points       int32
	strikes      int32
	place        int32 // in victims, while there are any
}

// about is what many blocks have in common.
type about struct {
	rule, by, action, source, service string
	reason                            string // without the key, if byKey
	ports                             string // one after the other: see packPorts
	level                             int
	cut, byKey                        bool
}

// more is what few blocks have.
type more struct {
	key      string // unless it is the prefix
	evidence []string
	except   []netip.Prefix // inside, and passing
	past     int64          // where the last of spans ends
	spans    []span         // that late lines may still fall into, of the blocks before
}

// span is when a block stood, for one service or, if that is "", for all.
type span struct {
	since, until int64
	service      string
}

func (s span) covers(at int64, service string) bool {
	return s.since <= at && at < s.until && (s.service == "" || s.service == service)
}

// scope is the service whose events a block stops; "" for all.
func (b *Block) scope() string {
	if len(b.Ports) == 0 {
		return ""
	}
	return scopeOf(b.Service)
}

// scopeOf is the scope of a block of some ports: by hand, of no known service.
func scopeOf(service string) string { return cmp.Or(service, "\x00") }

// common is what the block before had in common with others: mostly the next
// has the same.
type common struct {
	about  about
	handle unique.Handle[about]
}

func (c *common) of(a about) unique.Handle[about] {
	if c.handle == (unique.Handle[about]{}) || c.about != a {
		c.about, c.handle = a, unique.Make(a)
	}
	return c.handle
}

const beforeKey = " by "

// set makes b the record's block; its spans stay.
func (r *record) set(b Block) { r.fill(&b, new(common)) }

func (r *record) fill(b *Block, c *common) {
	a := about{rule: b.Rule, by: b.By, action: b.Action, source: b.Source, service: b.Service, reason: b.Reason, ports: packPorts(b.Ports), level: b.Level, cut: b.Cut}
	if head, ok := strings.CutSuffix(b.Reason, b.Key); ok && b.Key != "" && strings.HasSuffix(head, beforeKey) {
		a.reason, a.byKey = head[:len(head)-len(beforeKey)], true
	}
	r.about, r.user = c.of(a), unique.Make(b.User)
	r.since, r.until, r.line = b.Since.UnixNano(), b.Until.UnixNano(), b.Line
	r.count, r.points, r.strikes = small32(b.Count), small32(b.Points), small32(b.Strikes)
	r.forever, r.partial, r.ported = b.Forever, b.Partial, len(b.Ports) > 0
	var text [64]byte
	r.keyed = b.Key == string(r.k.prefix().AppendTo(text[:0]))
	m := more{evidence: b.Evidence, except: b.Except}
	if !r.keyed {
		m.key = b.Key
	}
	if r.more != nil {
		m.past, m.spans = r.more.past, r.more.spans
	}
	r.keep(m)
}

// keep stores what few blocks have, if there is any.
func (r *record) keep(m more) {
	r.excepting = len(m.except) > 0
	if m.key == "" && len(m.evidence) == 0 && len(m.except) == 0 && len(m.spans) == 0 {
		r.more = nil
		return
	}
	r.more = &m
}

func small32(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

// block is the record's block.
func (r *record) block() Block {
	b := r.brief()
	a := r.about.Value()
	if b.Reason = a.reason; r.keyed {
		b.Key = b.Prefix.String()
	}
	if m := r.more; m != nil {
		b.Key, b.Evidence, b.Except = cmp.Or(m.key, b.Key), m.evidence, m.except
	}
	if a.byKey {
		b.Reason += beforeKey + b.Key
	}
	return b
}

// brief is the block without reason, key and evidence, which cost memory to make.
func (r *record) brief() Block {
	a := r.about.Value()
	return Block{
		Prefix: r.k.prefix(), Rule: a.rule, Since: time.Unix(0, r.since).UTC(), Until: time.Unix(0, r.until).UTC(), Forever: r.forever,
		Count: int(r.count), Points: int(r.points), By: a.by, Action: a.action, Ports: unpackPorts(a.ports), Cut: a.cut, Strikes: int(r.strikes),
		Partial: r.partial, Source: a.source, Line: r.line, Service: a.service, User: r.user.Value(), Level: a.level,
	}
}

func (r *record) byRule() bool { return r.about.Value().by == "" }

func (r *record) prefix() netip.Prefix { return r.k.prefix() }

// packPorts makes ports comparable: protocol, 0, and two numbers of two bytes each.
func packPorts(ps []detect.Ports) string {
	var b []byte
	for _, p := range ps {
		b = append(append(b, p.Proto...), 0, byte(p.From>>8), byte(p.From), byte(p.To>>8), byte(p.To))
	}
	return string(b)
}

func unpackPorts(s string) (ps []detect.Ports) {
	for s != "" {
		proto, rest, _ := strings.Cut(s, "\x00")
		ps = append(ps, detect.Ports{Proto: proto, From: uint16(rest[0])<<8 | uint16(rest[1]), To: uint16(rest[2])<<8 | uint16(rest[3])})
		s = rest[4:]
	}
	return ps
}

func (r *record) span() span {
	s := span{since: r.since, until: r.until}
	if r.ported {
		s.service = scopeOf(r.about.Value().service)
	}
	return s
}

func (r *record) covers(at int64, service string) bool {
	if r.since <= at && at < r.until && (!r.ported || scopeOf(r.about.Value().service) == service) {
		return true
	}
	return r.more != nil && at < r.more.past && slices.ContainsFunc(r.more.spans, func(s span) bool { return s.covers(at, service) })
}

// replace makes b the prefix's block; what was is kept as a span up to then.
func (r *record) replace(b Block) {
	if r.until > r.since {
		old := r.span()
		old.until = min(old.until, b.Since.UnixNano())
		r.remember(old)
	}
	r.set(b)
	r.ended, r.lifted = false, false
}

func (r *record) remember(s span) {
	if s.until <= s.since {
		return
	}
	if r.more == nil {
		r.more = &more{}
	}
	m := r.more
	m.past = max(m.past, s.until)
	if len(m.spans) >= maxSpans {
		m.spans = slices.Delete(m.spans, 0, 1)
	}
	m.spans = append(m.spans, s)
}

// merge brings a block of a rule into a record: an earlier one that is found
// again only leaves its span; one within the standing block prolongs it; a
// later one takes its place.
func (r *record) merge(b Block) {
	since, until := b.Since.UnixNano(), b.Until.UnixNano()
	switch {
	case since < r.since:
		r.remember(span{since, min(until, r.since), b.scope()})
		if r.byRule() && until > r.until && until > r.since && !r.lifted {
			r.until, r.ended = until, false
		}
	case since >= r.until || r.until == r.since:
		r.replace(b)
	default:
		r.prolong(b, until)
	}
}

// prolong keeps since, and what reaches further of the rest.
func (r *record) prolong(b Block, until int64) {
	was := r.block()
	if len(was.Ports) > 0 && len(b.Ports) == 0 {
		r.remember(r.span())
		was.Ports = nil
	}
	if was.Action == "slow" {
		was.Action = b.Action
	}
	was.Cut = was.Cut || b.Cut
	if was.By == "" {
		was.Except = b.Except // as of now
	}
	if r.forever || until <= r.until {
		r.set(was)
		return
	}
	b.Action, b.Ports, b.Cut, b.Since, b.Except = was.Action, was.Ports, was.Cut, was.Since, was.Except
	r.set(b)
	r.ended = false
}

// setBack moves everything to an earlier time.
func (r *record) setBack(by time.Duration) {
	n := int64(by)
	r.since, r.until = r.since-n, r.until-n
	if r.more == nil {
		return
	}
	r.more.past -= n
	for i := range r.more.spans {
		r.more.spans[i].since -= n
		r.more.spans[i].until -= n
	}
}
