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
	// Cap is the cap that was kept, 0 for none.
	Cap int
	// Ends is when the first block of the list ends; zero when none does.
	Ends time.Time

	format  format
	pieces  []piece // in order of address, IPv4 first
	entries []Entry
	now     int64
}

// Len is how many prefixes the list has.
func (l *List) Len() int { return len(l.pieces) }

// Tag is a hash of all that the list says: of lists in one format it differs
// when they do. Seconds that count down do not change it.
func (l *List) Tag() uint64 {
	h := fnv.New64a()
	var b []byte
	h.Write(fmt.Appendf(nil, "%s %d %d\n", l.format.Name, l.Cap, l.Left))
	for _, p := range l.pieces {
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
	return h.Sum64()
}

// family returns the pieces of IPv4 or IPv6.
func (l *List) family(v6 bool) []piece {
	i, _ := slices.BinarySearchFunc(l.pieces, true, func(p piece, _ bool) int {
		if p.Addr().Is4() {
			return -1
		}
		return 1
	})
	if v6 {
		return l.pieces[i:]
	}
	return l.pieces[:i]
}

// seconds is how long a piece lasts from now, at most max.
func (l *List) seconds(p piece, max int64) int64 {
	if p.end == forever {
		return max
	}
	return min(p.end-l.now, max)
}

// notes are the sentences that go into a list's comments.
func (l *List) notes() []string {
	n := []string{"stoplog: " + strconv.Itoa(len(l.pieces)) + " prefixes"}
	if l.Left > 0 {
		n = append(n, fmt.Sprintf("stoplog: %d more prefixes were left out, by the cap of %d", l.Left, l.Cap))
	}
	return n
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
	if len(l.pieces) <= n {
		return
	}
	l.Left = len(l.pieces) - n
	slices.SortFunc(l.pieces, func(a, b piece) int {
		return cmp.Or(cmp.Compare(b.end, a.end), comparePieces(a, b))
	})
	l.pieces = slices.Clip(l.pieces[:n])
	slices.SortFunc(l.pieces, comparePieces)
}

func comparePieces(a, b piece) int { return a.Addr().Compare(b.Addr()) }

// build makes the pieces of es.
func build(es []Entry, o Options, g grain) (*List, error) {
	ss, err := spans(es, o.Now.Unix())
	if err != nil {
		return nil, err
	}
	allow, err := allowRanges(o.Allow)
	if err != nil {
		return nil, err
	}
	l := &List{entries: es, now: o.Now.Unix()}
	ss = subtract(flatten(ss), allow)
	if first := firstEnd(ss); first != forever {
		l.Ends = time.Unix(first, 0)
	}
	ss = join(ss, g)
	l.pieces = make([]piece, 0, len(ss))
	var buf []netip.Prefix
	for _, s := range ss {
		buf = netipx.IPRangeFrom(s.from, s.to).AppendPrefixes(buf[:0])
		for _, p := range buf {
			l.pieces = append(l.pieces, piece{p, s.end, s.entry})
		}
	}
	return l, nil
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
