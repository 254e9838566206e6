package listwall

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"go4.org/netipx"

	"stoplog/internal/firewall"
)

// cover turns blocks that overlap, with an allowlist that knows exceptions,
// into prefixes that do not overlap and need none: for walls that only hold
// lists. Each address is in the piece of the block that ends last.
type cover struct {
	allow  *netipx.IPSet
	held   map[netip.Prefix]firewall.Entry
	pieces map[netip.Prefix]firewall.Entry // what was handed on
}

func newCover() *cover {
	return &cover{allow: &netipx.IPSet{}, held: map[netip.Prefix]firewall.Entry{}, pieces: map[netip.Prefix]firewall.Entry{}}
}

func (c *cover) setAllow(ps []netip.Prefix) {
	var b netipx.IPSetBuilder
	for _, p := range ps {
		b.AddPrefix(p)
	}
	if set, err := b.IPSet(); err == nil { // an error only of invalid prefixes, which allow nothing
		c.allow = set
	}
}

// expire forgets what ended; of its pieces the wall is told by change.
func (c *cover) expire(now time.Time) {
	for p, e := range c.held {
		if !e.Until.After(now) {
			delete(c.held, p)
		}
	}
}

// change compares the pieces there should be with those handed on.
func (c *cover) change() (add []firewall.Entry, remove []netip.Prefix) {
	want := c.cut()
	for p, e := range want {
		if old, there := c.pieces[p]; !there || !old.Until.Equal(e.Until) || old.Action != e.Action || !slices.Equal(old.Ports, e.Ports) {
			add = append(add, e)
		}
	}
	for p := range c.pieces {
		if _, there := want[p]; !there {
			remove = append(remove, p)
		}
	}
	slices.SortFunc(add, func(a, b firewall.Entry) int { return a.Prefix.Compare(b.Prefix) })
	slices.SortFunc(remove, netip.Prefix.Compare)
	return add, remove
}

// done notes that a change was handed on.
func (c *cover) done(add []firewall.Entry, remove []netip.Prefix) {
	for _, p := range remove {
		delete(c.pieces, p)
	}
	for _, e := range add {
		c.pieces[e.Prefix] = e
	}
}

// piecesOf finds the pieces handed on that lie in one block.
func (c *cover) piecesOf(p netip.Prefix) []netip.Prefix {
	if _, whole := c.pieces[p]; whole {
		return []netip.Prefix{p}
	}
	var ps []netip.Prefix
	for q := range c.pieces {
		if p.Overlaps(q) {
			ps = append(ps, q)
		}
	}
	return ps
}

// cut makes the pieces. Prefixes lie apart or inside each other, so that a
// run of sorted ones that lie in their first is all that can overlap.
func (c *cover) cut() map[netip.Prefix]firewall.Entry {
	es := make([]firewall.Entry, 0, len(c.held))
	for _, e := range c.held {
		es = append(es, e)
	}
	slices.SortFunc(es, func(a, b firewall.Entry) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()))
	})
	want := make(map[netip.Prefix]firewall.Entry, len(es))
	for i := 0; i < len(es); {
		n := 1
		for i+n < len(es) && es[i].Prefix.Overlaps(es[i+n].Prefix) {
			n++
		}
		c.cutRun(es[i:i+n], want)
		i += n
	}
	return want
}

// cutRun cuts blocks that overlap, those that end last first.
func (c *cover) cutRun(es []firewall.Entry, want map[netip.Prefix]firewall.Entry) {
	if len(es) == 1 && !c.allow.OverlapsPrefix(es[0].Prefix) {
		want[es[0].Prefix] = es[0]
		return
	}
	es = slices.SortedStableFunc(slices.Values(es), func(a, b firewall.Entry) int { return b.Until.Compare(a.Until) })
	var covered netipx.IPSetBuilder
	for _, e := range es {
		var b netipx.IPSetBuilder
		b.AddPrefix(e.Prefix)
		b.RemoveSet(c.allow)
		if set, err := covered.IPSet(); err == nil {
			b.RemoveSet(set)
		}
		if rest, err := b.IPSet(); err == nil {
			for _, p := range rest.Prefixes() {
				piece := e
				piece.Prefix = p
				want[p] = piece
			}
		}
		covered.AddPrefix(e.Prefix)
	}
}
