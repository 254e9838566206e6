//go:build linux

package ipset

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"

	"stoplog/internal/firewall/base"
	"stoplog/internal/firewall/iptables"
)

// refill replaces what is in a set without timeouts, by a swap: there is no
// instant in which it is half full.
func (w *Wall) refill(ctx context.Context, set string, ps []netip.Prefix, v6 bool) error {
	covered := base.Subtract(slices.DeleteFunc(slices.Clone(ps), func(p netip.Prefix) bool { return p.Addr().Is6() != v6 }), nil)
	elems := []elem{ipsetMark(v6, w.pass)}
	for _, p := range covered {
		if p.Bits() > 0 {
			elems = append(elems, elem{p: p})
			continue
		}
		for _, half := range halves(p) { // hash:net cannot hold everything
			elems = append(elems, elem{p: half})
		}
	}
	size := max(1024, len(elems)+1)
	return w.replace(ctx, set, v6, size, false, func(tmp string) error { return w.x.add(ctx, tmp, elems...) })
}

// replace makes a set again beside the one that stands and swaps it in, so that
// no packet meets less than it did.
func (w *Wall) replace(ctx context.Context, set string, v6 bool, size int, timeouts bool, fill func(tmp string) error) error {
	tmp := set + "-n"
	if err := w.x.destroy(ctx, tmp); err != nil { // left by one who died here
		return err
	}
	for _, s := range []string{set, tmp} {
		if err := w.x.create(ctx, s, v6, size, timeouts); err != nil {
			return err
		}
	}
	err := fill(tmp)
	if err == nil {
		err = w.x.swap(ctx, tmp, set)
	}
	if err != nil {
		return errors.Join(err, w.x.destroy(ctx, tmp))
	}
	return w.x.destroy(ctx, tmp)
}

// halves splits the prefix of everything.
func halves(p netip.Prefix) []netip.Prefix {
	upper := p.Addr().AsSlice()
	upper[0] = 0x80
	a, _ := netip.AddrFromSlice(upper)
	return []netip.Prefix{netip.PrefixFrom(p.Addr(), 1), netip.PrefixFrom(a, 1)}
}

// ensure makes a kind's set, large enough for n more, and its rules.
func (w *Wall) ensure(ctx context.Context, k kind, n int) error {
	set := k.set(w.name)
	info, there := w.sets[set]
	n += w.held.Of(k) + 2 // marks
	size := ipsetFirstSize
	for size < n+n/8 { // some slack for what ended but was not collected yet
		size *= 2
	}
	switch {
	case !there:
		if err := w.x.create(ctx, set, k.v6, size, true); err != nil {
			return err
		}
		w.sets[set] = setInfo{size: size}
	case info.size < size:
		if err := w.grow(ctx, k, size); err != nil {
			return err
		}
	}
	if _, marked := w.marks[k]; !marked {
		w.marks[k] = nextMark(rand.Uint32())
		if err := w.x.add(ctx, set, ipsetMark(k.v6, w.marks[k])); err != nil {
			return err
		}
	}
	if w.kinds[k] {
		return nil
	}
	kinds := maps.Clone(w.kinds)
	kinds[k] = true
	if err := w.syncRules(ctx, kinds); err != nil {
		return err
	}
	w.kinds = kinds
	return nil
}

// grow makes the set again at a larger size, its mark included.
func (w *Wall) grow(ctx context.Context, k kind, size int) error {
	set := k.set(w.name)
	var all []elem
	if err := w.x.elems(ctx, set, func(e elem) { all = append(all, e) }); err != nil {
		return err
	}
	if err := w.replace(ctx, set, k.v6, size, true, func(tmp string) error { return w.x.add(ctx, tmp, all...) }); err != nil {
		return err
	}
	w.sets[set] = setInfo{size: size}
	w.grown = append(w.grown, "set "+set+" grown to "+strconv.Itoa(size))
	return nil
}

// syncRules makes the rules of exactly these kinds.
func (w *Wall) syncRules(ctx context.Context, kinds map[kind]bool) error {
	return w.xt.EachFamily(ctx, func(f *iptables.Family) error {
		var rules []iptables.Rule
		for k := range kinds {
			if k.v6 == f.Maker.V6 {
				rules = append(rules, k.rules(f.Maker, w.name)...)
			}
		}
		return f.Sync(f.BlocksChain(), nil, rules)
	})
}
