//go:build linux

package firewall

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// refill replaces what is in a set without timeouts, by a swap: there is no
// instant in which it is half full.
func (w *IPSet) refill(b *strings.Builder, set string, ps []netip.Prefix, v6 bool) {
	fam := "inet"
	if v6 {
		fam = "inet6"
	}
	covered := Subtract(slices.DeleteFunc(slices.Clone(ps), func(p netip.Prefix) bool { return p.Addr().Is6() != v6 }), nil)
	size := max(1024, len(covered)+2)
	tmp := set + "-new"
	for _, s := range []string{set, tmp} {
		if _, there := w.sets[s]; !there {
			fmt.Fprintf(b, "create %s hash:net family %s maxelem %d\n", s, fam, size)
		}
	}
	if _, there := w.sets[tmp]; there { // left by one who died here
		fmt.Fprintf(b, "destroy %s\ncreate %s hash:net family %s maxelem %d\n", tmp, tmp, fam, size)
	}
	for _, p := range covered {
		if p.Bits() > 0 {
			fmt.Fprintf(b, "add %s %s\n", tmp, p)
			continue
		}
		for _, half := range halves(p) { // hash:net cannot hold everything
			fmt.Fprintf(b, "add %s %s\n", tmp, half)
		}
	}
	fmt.Fprintf(b, "swap %s %s\ndestroy %s\n", tmp, set, tmp)
}

// halves splits the prefix of everything.
func halves(p netip.Prefix) []netip.Prefix {
	upper := p.Addr().AsSlice()
	upper[0] = 0x80
	a, _ := netip.AddrFromSlice(upper)
	return []netip.Prefix{netip.PrefixFrom(p.Addr(), 1), netip.PrefixFrom(a, 1)}
}

// ensure makes a kind's set, large enough for n more, and its rules.
func (w *IPSet) ensure(ctx context.Context, k ipsetKind, n int) error {
	set := k.set(w.name)
	info, there := w.sets[set]
	n += w.count[k]
	size := ipsetFirstSize
	for size < n+n/8 { // some slack for what ended but was not collected yet
		size *= 2
	}
	switch {
	case !there:
		if err := w.restore(ctx, ipsetCreate(set, k.v6, size)); err != nil {
			return err
		}
		w.sets[set] = ipsetInfo{size: size}
	case info.size < size:
		if err := w.grow(ctx, k, size); err != nil {
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

// grow makes the set anew at a larger size and swaps it in, so that the rule
// never looks into less than it did.
func (w *IPSet) grow(ctx context.Context, k ipsetKind, size int) error {
	set := k.set(w.name)
	tmp := set + "-g"
	out, err := w.x.run(ctx, []string{w.prog, "save", set}, nil)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if _, left := w.sets[tmp]; left {
		fmt.Fprintf(&b, "destroy %s\n", tmp)
	}
	b.WriteString(ipsetCreate(tmp, k.v6, size))
	for l := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(l, "add "+set+" "); ok {
			b.WriteString("add " + tmp + " " + rest)
		}
	}
	fmt.Fprintf(&b, "swap %s %s\ndestroy %s\n", tmp, set, tmp)
	if err := w.restore(ctx, b.String()); err != nil {
		return err
	}
	w.sets[set] = ipsetInfo{size: size}
	w.grown = append(w.grown, "set "+set+" grown to "+strconv.Itoa(size))
	return nil
}

// syncRules makes the rules of exactly these kinds.
func (w *IPSet) syncRules(ctx context.Context, kinds map[ipsetKind]bool) error {
	return w.xt.each(ctx, func(f *xtFamily) error {
		var rules []xtRule
		for k := range kinds {
			if k.v6 == f.m.v6 {
				rules = append(rules, k.rules(f.m, w.name)...)
			}
		}
		return f.sync(f.blocksChain(), nil, rules)
	})
}
