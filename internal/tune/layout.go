package tune

import (
	"net/netip"
	"slices"

	"stoplog/internal/addr"
	"stoplog/internal/parse"
	"stoplog/internal/rules"
)

// Sources of different networks have nothing to do with each other, as long as
// no rule counts or blocks across them. So events are sorted by network, and
// each network is run alone, in the order of its lines; while it is blocked as a
// whole its events are only counted.

// label says what a source is taken for, by its record in the first part of the
// time and by its whole record.
type label uint8

const (
	attackerFirst label = 1 << iota
	goodFirst
	attackerAll
	goodAll
	namedGood // by the user
)

// mark says what an event is.
type mark uint8 // all of its bits are taken

const (
	isAttempt mark = 1 << iota
	isLogin        // of a good source: a login, or a page of a web server
	isGood         // of a good source
	isRest         // of the last part of the time
	isSuccess
	isNamed   // of a source that the user named as good
	isMatched // by the rule under study
	isRepeat  // a login that changes nothing unless a block stood
)

// span is the events of one network.
type span struct {
	from, to int
	prefix   netip.Prefix
	constant bool // the same with every setting
	logins   int
}

// chunk is networks that are run one after the other by one engine.
type chunk struct{ from, to int }

const (
	chunkEvents   = 32 << 10
	chunkNetworks = 2048
)

// layout is events sorted by network, for one choice of prefix lengths.
type layout struct {
	lens   rules.Lens
	marks  []mark
	spans  []span
	chunks []chunk
}

// widest is the shortest prefix in which any of the rules counts or blocks.
func widest(set *rules.Set, rs []*rules.Rule) rules.Lens {
	l := rules.Lens{V4: 32, V6: 128}
	add := func(x rules.Lens) {
		if x.V4 > 0 {
			l.V4 = min(l.V4, x.V4)
		}
		if x.V6 > 0 {
			l.V6 = min(l.V6, x.V6)
		}
	}
	for _, r := range rs {
		if r.Key.Has(rules.ByPrefix) {
			add(r.Prefix)
		}
		for i := range r.Levels {
			add(r.Levels[i].Prefix)
		}
	}
	if set.Widen.On {
		add(set.Widen.Lens)
	}
	return l
}

// networkOf is the network that a is run in.
func networkOf(set *rules.Set, l rules.Lens, a netip.Addr) netip.Prefix {
	p := l.Cut(a)
	b := addr.Of(a)
	for i := range set.Networks {
		n := &set.Networks[i]
		if n.Len == 0 || !n.Prefix.Contains(b) {
			continue
		}
		q := rules.Lens{V4: min(n.Len, l.V4), V6: min(n.Len, l.V6)}.CutExactly(a)
		if q.IsValid() && q.Bits() < p.Bits() {
			p = q
		}
	}
	return p
}

// arrange sorts the events by network, in place and keeping their order, and
// marks them.
func (d *data) arrange(l rules.Lens) *layout {
	out := &layout{lens: l}
	ids := map[netip.Prefix]uint32{}
	for i := range d.sources {
		s := &d.sources[i]
		p := networkOf(d.set, l, s.addr)
		id, ok := ids[p]
		if !ok {
			id = uint32(len(out.spans))
			ids[p] = id
			out.spans = append(out.spans, span{prefix: p})
		}
		s.group = id
	}
	for i := range d.events {
		out.spans[d.sources[d.events[i].src].group].to++
	}
	at := 0
	next := make([]int, len(out.spans))
	for i := range out.spans {
		s := &out.spans[i]
		n := s.to
		s.from, s.to, next[i] = at, at+n, at
		at += n
	}
	place := make([]uint32, len(d.events))
	for _, i := range d.order() {
		g := d.sources[d.events[i].src].group
		place[i] = uint32(next[g])
		next[g]++
	}
	d.permute(place)
	out.marks = make([]mark, len(d.events))
	for i := range out.spans {
		d.mark(out, &out.spans[i])
	}
	out.spans = slices.DeleteFunc(out.spans, func(s span) bool { return s.from == s.to })
	c := chunk{}
	for i := range out.spans {
		c.to = i + 1
		if c.to-c.from >= chunkNetworks || out.spans[i].to-out.spans[c.from].from >= chunkEvents {
			out.chunks = append(out.chunks, c)
			c.from = c.to
		}
	}
	if c.to > c.from {
		out.chunks = append(out.chunks, c)
	}
	return out
}

// order lists the events in the order of the log.
func (d *data) order() []uint32 {
	out := make([]uint32, len(d.events))
	for i := range out {
		out[i] = uint32(i)
	}
	if d.seq != nil {
		for i, s := range d.seq {
			out[s] = uint32(i)
		}
	}
	return out
}

// permute moves each event i to place[i].
func (d *data) permute(place []uint32) {
	if d.seq == nil {
		d.seq = make([]uint32, len(d.events))
		for i := range d.seq {
			d.seq[i] = uint32(i)
		}
	}
	for i := range place {
		for int(place[i]) != i {
			j := place[i]
			d.events[i], d.events[j] = d.events[j], d.events[i]
			d.seq[i], d.seq[j] = d.seq[j], d.seq[i]
			place[i], place[j] = place[j], place[i]
		}
	}
}

// mark says what the events of one network are, and whether the setting can
// change what becomes of them.
func (d *data) mark(l *layout, s *span) {
	var ev parse.Event
	matched := 0
	for i := s.from; i < s.to; i++ {
		e := &d.events[i]
		m := d.markOf(e, &ev)
		l.marks[i] = m
		if m&isMatched != 0 {
			matched++
		}
	}
	d.markRepeats(l, s)
	s.constant = matched == 0 || s.to-s.from == 1
}

// markRepeats marks the logins that change nothing while no block stands: of those
// between two failures, all but the first and the last of each user.
func (d *data) markRepeats(l *layout, s *span) {
	type who struct {
		src, user uint32
		class     uint16
	}
	type seen struct {
		last int
		more bool
	}
	run, end := map[who]seen{}, int64(0)
	for i := s.from; i < s.to; i++ {
		e := &d.events[i]
		if l.marks[i]&isSuccess == 0 || e.rec != 0 || e.at < end {
			clear(run)
			end = 0
			continue
		}
		end = e.at
		k := who{e.src, e.user, e.class}
		old, known := run[k]
		if old.more {
			l.marks[old.last] |= isRepeat
		}
		if known || len(run) < 64 {
			run[k] = seen{i, known}
		}
	}
	l.logins(s)
}

// logins counts the logins of a network that are run.
func (l *layout) logins(s *span) {
	for _, m := range l.marks[s.from:s.to] {
		if m&isSuccess != 0 && m&isRepeat == 0 {
			s.logins++
		}
	}
}

func (d *data) markOf(e *event, ev *parse.Event) (m mark) {
	c := &d.classes[e.class]
	src := &d.sources[e.src]
	if d.matches(e, ev) {
		m |= isMatched
	}
	success := c.proto.Outcome == parse.Success
	if success {
		m |= isSuccess
	}
	page := e.rec != 0 && isPage(&d.records[e.rec])
	rest := e.at >= d.split
	if rest {
		m |= isRest
	}
	attacker, good := attackerFirst, goodFirst
	if rest {
		attacker, good = attackerAll, goodAll
	}
	if m&isMatched != 0 && !success && src.label&attacker != 0 {
		m |= isAttempt
	}
	if src.label&good != 0 {
		m |= isGood
		if success || page && m&isMatched == 0 {
			m |= isLogin
		}
	}
	if src.label&namedGood != 0 {
		m |= isNamed
	}
	return m
}

// matches reports whether the rule under study looks at the event.
func (d *data) matches(e *event, ev *parse.Event) bool {
	c := &d.classes[e.class]
	r := d.rule
	if !r.Match.Takes(c.proto.Service, c.proto.Outcome, c.proto.Kind) || e.count == 0 {
		return false
	}
	if len(r.Match.Conds) == 0 {
		return true
	}
	d.fill(ev, e)
	return r.Match.Event(ev, c.origin)
}
