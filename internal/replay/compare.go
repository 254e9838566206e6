package replay

import (
	"cmp"
	"net/netip"
	"slices"
)

// Change is a block that two sets of rules do not agree on: one only sets it in
// one of them, or differently at the same time. Before or After is nil when that
// one sets none.
type Change struct{ Before, After *Answer }

// Compare lists what differs between the blocks of two replays of the same
// lines, by time.
func Compare(before, after []Answer) []Change {
	groups := map[netip.Prefix]*[2][]*Answer{}
	for side, answers := range [2][]Answer{before, after} {
		for i := range answers {
			a := &answers[i]
			if groups[a.Prefix] == nil {
				groups[a.Prefix] = new([2][]*Answer)
			}
			groups[a.Prefix][side] = append(groups[a.Prefix][side], a)
		}
	}
	var out []Change
	for _, g := range groups {
		out = append(out, compareOne(g[0], g[1])...)
	}
	slices.SortFunc(out, func(a, b Change) int {
		x, y := a.any(), b.any()
		return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.Prefix.String(), y.Prefix.String()), cmp.Compare(x.Rule, y.Rule))
	})
	return out
}

func (c Change) any() *Answer {
	if c.Before != nil {
		return c.Before
	}
	return c.After
}

// compareOne compares the blocks of one prefix, which are in the order of time.
func compareOne(before, after []*Answer) (out []Change) {
	for len(before) > 0 && len(after) > 0 {
		b, a := before[0], after[0]
		switch {
		case b.overlaps(a):
			if !b.same(a) {
				out = append(out, Change{b, a})
			}
			before, after = before[1:], after[1:]
		case b.At.Before(a.At):
			out, before = append(out, Change{Before: b}), before[1:]
		default:
			out, after = append(out, Change{After: a}), after[1:]
		}
	}
	for _, b := range before {
		out = append(out, Change{Before: b})
	}
	for _, a := range after {
		out = append(out, Change{After: a})
	}
	return out
}

func (a *Answer) overlaps(o *Answer) bool {
	return a.At.Before(o.At.Add(o.TTL)) && o.At.Before(a.At.Add(a.TTL)) || a.At.Equal(o.At)
}

func (a *Answer) same(o *Answer) bool {
	return a.At.Equal(o.At) && a.TTL == o.TTL && a.Rule == o.Rule && a.Action == o.Action && slices.Equal(a.Ports, o.Ports) && slices.Equal(a.Except, o.Except)
}
