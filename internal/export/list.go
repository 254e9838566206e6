package export

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go4.org/netipx"
)

// forever is the end of a block that has none.
const forever = math.MaxInt64

// piece is one prefix of a list.
type piece struct {
	netip.Prefix
	end   int64 // Unix seconds; of several that were merged, the last
	entry int32 // index into the entries; of several that were merged, any
}

// List is what one format shows at one time. It does not change; it may be
// used from several goroutines.
type List struct {
	// Left is how many prefixes the cap left out.
	Left int
	// Limited is how many blocks that close some ports or slow down are left
	// out, because the format cannot express it.
	Limited int
	// Cap is the cap that was kept, 0 for none.
	Cap int
	// Ends is when the first block of the list ends; zero when none does.
	Ends time.Time

	format  format
	pieces  []piece // whole blocks, in order of address, IPv4 first
	classes []class // limited ones, in order
	out     []int32 // entries that are left out as Limited says
	entries []Entry
	now     int64
}

// class is what has the same limit.
type class struct {
	Limit
	pieces []piece // as in List
}

// Len is how many prefixes the list has.
func (l *List) Len() int {
	n := len(l.pieces)
	for _, c := range l.classes {
		n += len(c.pieces)
	}
	return n
}

// Tag is a hash of all that the list says: of lists in one format it differs
// when they do. Seconds that count down do not change it.
func (l *List) Tag() uint64 {
	h := fnv.New64a()
	var b []byte
	h.Write(fmt.Appendf(nil, "%s %d %d %d\n", l.format.Name, l.Cap, l.Left, l.Limited))
	add := func(ps []piece) {
		for _, p := range ps {
			a := p.Addr().As16()
			b = append(b[:0], a[:]...)
			b = append(b, byte(p.Bits()), byte(p.Addr().BitLen()))
			if l.format.grain != byCover {
				b = binary.BigEndian.AppendUint64(b, uint64(p.end))
			}
			if e := &l.entries[p.entry]; l.format.grain == byEntry {
				b = binary.BigEndian.AppendUint64(append(b, e.Rule...), uint64(e.Count))
			}
			h.Write(b)
		}
	}
	add(l.pieces)
	for _, c := range l.classes {
		h.Write(fmt.Appendf(nil, "\n%s %d\n", c.Ports, c.Rate))
		add(c.pieces)
	}
	return h.Sum64()
}

// family returns the pieces of IPv4 or IPv6.
func family(ps []piece, v6 bool) []piece {
	i, _ := slices.BinarySearchFunc(ps, true, func(p piece, _ bool) int {
		if p.Addr().Is4() {
			return -1
		}
		return 1
	})
	if v6 {
		return ps[i:]
	}
	return ps[:i]
}

// seconds is how long a piece lasts from now, at most max.
func (l *List) seconds(p piece, max int64) int64 {
	if p.end == forever {
		return max
	}
	return min(p.end-l.now, max)
}

// notes are the sentences that go into a list's comments. The first says what
// is missing of limited blocks.
func (l *List) notes() []string {
	first := "stoplog: " + strconv.Itoa(len(l.pieces)) + " prefixes"
	if n := l.Len() - len(l.pieces); n > 0 {
		first += fmt.Sprintf(", %d more for some ports or with a rate limit", n)
	}
	if l.Limited > 0 {
		first += "; " + LeftOut(l.Limited)
	}
	n := []string{first}
	if l.Left > 0 {
		n = append(n, fmt.Sprintf("stoplog: %d more prefixes are left out because of the limit of %d", l.Left, l.Cap))
	}
	return n
}

// LeftOut says that n limited blocks are not in a list, and how to include them.
func LeftOut(n int) string {
	what := " blocks of other ports, or with a rate limit, are"
	if n == 1 {
		what = " block of other ports, or with a rate limit, is"
	}
	return strconv.Itoa(n) + what + " left out (to include: ports: any in the rules, --all-ports, or ?ports=any)"
}

// rule is the name of a piece's rule, of such characters only that no format
// gives a meaning.
func (l *List) rule(p piece) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, l.entries[p.entry].Rule)
}

// cut leaves the n pieces that end last.
func (l *List) cut(n int) {
	l.Cap = n
	total := l.Len()
	if total <= n {
		return
	}
	l.Left = total - n
	type place struct {
		piece
		class int // -1: whole
	}
	all := make([]place, 0, total)
	for _, p := range l.pieces {
		all = append(all, place{p, -1})
	}
	for i, c := range l.classes {
		for _, p := range c.pieces {
			all = append(all, place{p, i})
		}
		l.classes[i].pieces = nil
	}
	slices.SortFunc(all, func(a, b place) int {
		return cmp.Or(cmp.Compare(b.end, a.end), comparePieces(a.piece, b.piece), cmp.Compare(a.class, b.class))
	})
	l.pieces = nil
	for _, p := range all[:n] {
		to := &l.pieces
		if p.class >= 0 {
			to = &l.classes[p.class].pieces
		}
		*to = append(*to, p.piece)
	}
	slices.SortFunc(l.pieces, comparePieces)
	for _, c := range l.classes {
		slices.SortFunc(c.pieces, comparePieces)
	}
}

func comparePieces(a, b piece) int { return a.Addr().Compare(b.Addr()) }

// maxClasses bounds how many different limits a list has: each is a set or a
// rule of its own for its reader.
const maxClasses = 64

// build makes the pieces of es, of each limit apart.
func build(es []Entry, o Options, f format) (*List, error) {
	allow, err := allowRanges(o.Allow)
	if err != nil {
		return nil, err
	}
	l := &List{entries: es, now: o.Now.Unix(), format: f}
	whole, limited := l.sort(o.Guard)
	first := int64(forever)
	for _, i := range l.out { // the note that counts them changes when one ends
		first = min(first, endOf(&es[i]))
	}
	l.Limited = len(l.out)
	add := func(of []int32) ([]piece, error) {
		ss, err := spans(es, of, l.now)
		if err != nil {
			return nil, err
		}
		ss = subtract(flatten(ss), allow)
		first = min(first, firstEnd(ss))
		return pieces(join(ss, f.grain)), nil
	}
	if l.pieces, err = add(whole); err != nil {
		return nil, err
	}
	for limit, of := range limited {
		c := class{Limit: limit}
		if c.pieces, err = add(of); err != nil {
			return nil, err
		}
		l.classes = append(l.classes, c)
	}
	slices.SortFunc(l.classes, func(a, b class) int {
		return cmp.Or(cmp.Compare(a.Rate, b.Rate), cmp.Compare(a.Ports, b.Ports))
	})
	if first != forever {
		l.Ends = time.Unix(first, 0)
	}
	return l, nil
}

// sort separates the entries that are listed whole, by index, from those that the
// format can express as limited; the rest is left out.
func (l *List) sort(g Guard) (whole []int32, limited map[Limit][]int32) {
	whole, limited = make([]int32, 0, len(l.entries)), map[Limit][]int32{}
	for i := range l.entries {
		e := &l.entries[i]
		n := int32(i)
		_, known := limited[e.Limit]
		switch {
		case e.Limit == Limit{} || g.Closes(e.Limit):
			whole = append(whole, n)
		case known || len(limited) < maxClasses && l.format.able(e.Limit):
			limited[e.Limit] = append(limited[e.Limit], n)
		case endOf(e) > l.now:
			l.out = append(l.out, n)
		}
	}
	return whole, limited
}

func pieces(ss []span) []piece {
	out := make([]piece, 0, len(ss))
	var buf []netip.Prefix
	for _, s := range ss {
		buf = netipx.IPRangeFrom(s.from, s.to).AppendPrefixes(buf[:0])
		for _, p := range buf {
			out = append(out, piece{p, s.end, s.entry})
		}
	}
	return out
}

func firstEnd(ss []span) int64 {
	first := int64(forever)
	for _, s := range ss {
		first = min(first, s.end)
	}
	return first
}

// allowRanges merges the allowlist.
func allowRanges(ps []netip.Prefix) ([]netipx.IPRange, error) {
	var b netipx.IPSetBuilder
	for _, p := range ps {
		b.AddPrefix(unmapped(p))
	}
	set, err := b.IPSet()
	if err != nil {
		return nil, fmt.Errorf("allowlist: %w", err)
	}
	return set.Ranges(), nil
}

// unmapped turns an IPv4-mapped IPv6 prefix into the IPv4 one and clears what
// is beyond the length.
func unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}
