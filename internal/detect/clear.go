package detect

import (
	"net/netip"
	"slices"
	"sort"
	"strconv"

	"stoplog/internal/bucket"
	"stoplog/internal/parse"
)

// A success clears what its own source and account poured, and no more.
//
// Beside the bucket of a prefix, a rule with `clears` keeps a part: a bucket
// for each service and account tried from the prefix, poured and drained as
// the whole is. A part drains all the time that it holds something, while the
// whole drains once for all of them; so the parts together never hold more
// than the whole. A success takes out of the whole what its account's part
// still holds. What is left is then at least what the others' parts hold, and
// at least what the whole would hold if that account had never been tried. So
// whoever sprays many accounts, and logs in to one of their own now and then,
// gets nothing for it but that their failures at their own account are
// forgotten.
//
// A part that had to go, because too many are kept, clears nothing: the error
// is on the side of counting.

// A bucket that ran over is as full as it can get, and no longer knows how
// much more others tried: it is marked, and nothing is cleared until it has
// drained. A success that comes out of order clears nothing either, for whole
// and part could not be read at one instant. And what comes out of order after
// a success counts as being of the success's time: of what others poured
// before, nothing may be left then, but was at its own time.

// drop is a limit at which an event is a nanosecond of draining, so that
// a bucket's depth can be read and written exactly; a thirtieth of a second
// where an int has 32 bits.
var drop = bucket.Limit{Capacity: 1 << (55 - dropShift), Leak: 1 << dropShift}

const dropShift = (64 - strconv.IntSize) / 32 * 25

// addPart pours n events into the part of the event's account. An event
// without an account has none, nor has one of an account that does not exist:
// no success can clear it.
func (e *Engine) addPart(c *counter, l *level, m *evaluation, n int, lim bucket.Limit) {
	if m.ev.Kind == parse.UnknownUser {
		return
	}
	if e.findPart(c, m) {
		l.parts.PourHashed(m.part.hashed, m.at, n, 1, lim)
	}
}

// findPart names the part of the event's account, once for all levels; false when
// it has none.
func (e *Engine) findPart(c *counter, m *evaluation) bool {
	if m.part.of != c {
		k, ok := e.partKey(c, m)
		m.part = part{c, e.places.Hash(k), ok}
	}
	return m.part.ok
}

// part is where the part of the event's account is, for a rule.
type part struct {
	of     *counter // nil: not asked
	hashed bucket.HashedKey
	ok     bool
}

// clear takes the part of the event's account out of the rule's buckets.
func (e *Engine) clear(c *counter, m *evaluation) {
	if !m.ev.Addr.IsValid() {
		return
	}
	k, ok := e.keyOf(c, c.rule.Key, m)
	if !ok {
		return
	}
	part, ok := e.partKey(c, m)
	if !ok {
		return
	}
	k = e.hashedFor(c, m, e.places.Hash(k)).Key
	for i := range c.levels {
		if l := &c.levels[i]; l.parts != nil {
			l.take(k, part, m.at)
		}
	}
	if e.sharing != nil {
		e.sharing.note(c, m, k)
	}
}

// mark notes that the bucket of k ran over: the mark, kept among the parts by
// the key of the whole, drains when the whole does.
func (l *level) mark(k bucket.Key, at int64) {
	whole := l.table.Level(k, at, drop)
	if l.late(k, at, whole) {
		n := sort.Search(int(bucket.MaxSpan>>dropShift), func(d int) bool { return !l.late(k, at+int64(d)<<dropShift, whole) })
		at += int64(n) << dropShift
	}
	l.parts.Refill(k, at, whole, drop)
}

// late reports whether the bucket of k, which holds whole, was poured later
// than at.
func (l *level) late(k bucket.Key, at int64, whole int) bool {
	return whole > 0 && l.table.Level(k, at+1<<dropShift, drop) == whole
}

// take lowers the bucket of k by what the part holds.
func (l *level) take(k, part bucket.Key, at int64) {
	held, whole := l.parts.Level(part, at, drop), l.table.Level(k, at, drop)
	if held == 0 || whole == 0 || l.late(k, at, whole) || l.parts.Level(k, at, drop) > 0 {
		return
	}
	l.parts.Delete(part)
	l.table.Refill(k, at, whole-held, drop)
}

// partKey names the part of the event's account: by prefix, service and
// account, exactly where these are short.
func (e *Engine) partKey(c *counter, m *evaluation) (bucket.Key, bool) {
	p := e.blocked(c, m)
	if len(m.ev.User) == 0 || !p.IsValid() {
		return bucket.Key{}, false
	}
	e.scratch = appendPart(e.scratch[:0], p, c.rule.Match.Services, m.ev.Service, m.ev.User)
	kind := uint8(partKind)
	if c.source && !m.stranger() {
		kind = knownPartKind // of another bucket: see hashedFor
	}
	if len(e.scratch) < exactText {
		return bucket.KeyOfText(kind, e.scratch), true
	}
	return bucket.KeyOfPair(p, kind, e.scratch), true
}

const (
	// exactText is the length from which bucket keeps a text's hash only.
	exactText = 16
	// partKind is the kind of key of parts, and knownPartKind of those that sources
	// from which somebody logged in have poured.
	partKind, knownPartKind = 2, 3
)

// appendPart writes prefix, service and account so that no two read the same,
// and briefly: a service that the rule names is its place in the list.
func appendPart(b []byte, p netip.Prefix, services []string, service string, user []byte) []byte {
	b = append(b, byte(p.Bits()))
	if a := p.Addr(); a.Is4() {
		x := a.As4()
		b = append(b, x[:]...)
	} else {
		x := a.As16()
		n := 8
		if p.Bits() > 64 {
			n = 16
		}
		b = append(b, x[:n]...)
	}
	if i := slices.Index(services, service); i >= 0 && i < 255 {
		b = append(b, byte(i))
	} else {
		b = append(b, 255, byte(len(service)))
		b = append(b, service...)
	}
	return append(b, user...)
}

// forgetParts drops the parts of prefixes within p. The short ones hide their
// prefix in their text, so all of them go: a part that is missing clears less
// than it might, which harms nobody.
func forgetParts(t *bucket.Table, p netip.Prefix) {
	t.DeleteWithin(p)
	var gone []bucket.Key
	t.Range(func(b bucket.Bucket) bool {
		if _, ok := b.Key.Prefix(); !ok {
			gone = append(gone, b.Key)
		}
		return true
	})
	for _, k := range gone {
		t.Delete(k)
	}
}
