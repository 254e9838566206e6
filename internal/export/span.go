package export

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"go4.org/netipx"

	"stoplog/internal/addr"
)

// span is a run of addresses that end together.
type span struct {
	from, to netip.Addr
	end      int64
	entry    int32
}

// spans are the ranges of what those entries block after now, sorted so that what lies
// inside another comes after it. A block that holds an address that is never
// blocked has none.
func spans(es []Entry, of []int32, now int64) ([]span, error) {
	ss := make([]span, 0, len(of))
	for _, i := range of {
		e := &es[i]
		p := unmapped(e.Prefix)
		if !p.IsValid() || p.Bits() == 0 {
			return nil, fmt.Errorf("prefix %q cannot be exported", e.Prefix)
		}
		end := endOf(e)
		if end <= now || addr.Never(p) != "" {
			continue
		}
		ss = append(ss, span{p.Addr(), netipx.PrefixLastIP(p), end, i})
	}
	slices.SortFunc(ss, func(a, b span) int {
		return cmp.Or(a.from.Compare(b.from), b.to.Compare(a.to), cmp.Compare(b.end, a.end), cmp.Compare(a.entry, b.entry))
	})
	return ss, nil
}

// endOf is the Unix second that a block ends at.
func endOf(e *Entry) int64 {
	if e.Until.IsZero() {
		return forever
	}
	return e.Until.Unix()
}

// flatten makes spans that do not overlap: each address is in the one that
// ends last. Prefixes lie apart or inside each other, so that the spans that
// are open at an address are a stack.
func flatten(ss []span) []span {
	out := make([]span, 0, len(ss))
	var open []span
	var pos netip.Addr // where the innermost open span goes on; invalid after a family's last address
	closeTop := func() {
		top := open[len(open)-1]
		open = open[:len(open)-1]
		if pos.IsValid() && pos.Compare(top.to) <= 0 {
			out = append(out, span{pos, top.to, top.end, top.entry})
			pos = top.to.Next()
		}
	}
	for _, s := range ss {
		for len(open) > 0 && open[len(open)-1].to.Less(s.from) {
			closeTop()
		}
		if n := len(open); n > 0 {
			if open[n-1].end >= s.end {
				continue
			}
			if pos.Less(s.from) {
				out = append(out, span{pos, s.from.Prev(), open[n-1].end, open[n-1].entry})
			}
		}
		open = append(open, s)
		pos = s.from
	}
	for len(open) > 0 {
		closeTop()
	}
	return out
}

// subtract cuts allow, sorted and apart, out of ss, sorted and apart.
func subtract(ss []span, allow []netipx.IPRange) []span {
	if len(allow) == 0 {
		return ss
	}
	out := make([]span, 0, len(ss))
	for _, s := range ss {
		for len(allow) > 0 && allow[0].To().Less(s.from) {
			allow = allow[1:]
		}
		out = appendRest(out, s, allow)
	}
	return out
}

// appendRest appends what allow leaves of s; none of allow ends before s.
func appendRest(out []span, s span, allow []netipx.IPRange) []span {
	for _, a := range allow {
		if s.to.Less(a.From()) {
			break
		}
		if s.from.Less(a.From()) {
			out = append(out, span{s.from, a.From().Prev(), s.end, s.entry})
		}
		if !a.To().Less(s.to) {
			return out
		}
		s.from = a.To().Next()
	}
	return append(out, s)
}

// join merges neighbours as far as g lets it, in place.
func join(ss []span, g grain) []span {
	out := ss[:0]
	for _, s := range ss {
		if n := len(out); n > 0 && out[n-1].to.Next() == s.from && g.same(out[n-1], s) {
			out[n-1].to = s.to
			out[n-1].end = max(out[n-1].end, s.end)
			continue
		}
		out = append(out, s)
	}
	return out
}

func (g grain) same(a, b span) bool {
	switch g {
	case byCover:
		return true
	case byEnd:
		return a.end == b.end
	}
	return a.entry == b.entry
}
