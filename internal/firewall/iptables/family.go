//go:build linux

package iptables

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"stoplog/internal/firewall"
)

// xtFamily is our chains in iptables or in ip6tables.
type Family struct {
	x     xtables
	w     *Wall
	Maker Maker

	mark  string // the comment of our mark, "" before Setup; see xtMark
	found string // the mark that the chain held when it was looked at last
	stale []Rule // marks there that are not the last one
	lost  bool   // the mark was found missing, and List has not told
}

func (f *Family) String() string {
	if f.Maker.V6 {
		return "ip6tables"
	}
	return "iptables"
}

func (f *Family) fail(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", f, doing, err)
}

func (f *Family) lockChain() string   { return f.w.Chain + "-LOCK" }
func (f *Family) BlocksChain() string { return f.w.Chain + "-BLOCKS" }

func (f *Family) setup(p firewall.Policy) error {
	for _, c := range []string{f.BlocksChain(), f.lockChain(), f.w.Chain} {
		if err := f.ensureChain(c); err != nil {
			return err
		}
	}
	if err := f.probe(); err != nil {
		return err
	}
	if err := f.policy(p); err != nil {
		return err
	}
	if err := f.keepMark(); err != nil {
		return err
	}
	for _, from := range f.w.builtin {
		if err := f.hook(from); err != nil {
			return err
		}
	}
	for _, from := range hookChains { // of options as they were
		if !slices.Contains(f.w.builtin, from) && !slices.Contains(f.w.optHook, from) {
			if err := f.unhook(from); err != nil {
				return err
			}
		}
	}
	for _, from := range f.w.optHook {
		if there, err := f.x.ChainExists(f.w.table, from); err != nil || !there {
			continue
		}
		if err := f.hook(from); err != nil {
			return err
		}
	}
	return nil
}

// ensureChain makes a chain. One that is there although it cannot be listed is
// flushed: nft translates some matches when it saves the ruleset, and as long as
// such a rule of ours stands, iptables cannot list the table.
func (f *Family) ensureChain(chain string) error {
	there, err := f.x.ChainExists(f.w.table, chain)
	if err != nil || there {
		return f.fail("looking for chain "+chain, err)
	}
	return f.fail("creating chain "+chain, f.x.ClearChain(f.w.table, chain))
}

// probe proves that a block can be added, with the time match or without, by a
// rule that ended long ago and is taken out again.
func (f *Family) probe() error {
	doc := netip.MustParsePrefix("192.0.2.0/32")
	if f.Maker.V6 {
		doc = netip.MustParsePrefix("2001:db8::/128")
	}
	ended := firewall.Entry{Prefix: doc, Until: time.Unix(1, 0)}
	try := func(withTime bool) error {
		m := f.Maker
		m.time = withTime
		spec := m.block(ended)[0].spec
		if !withTime { // nothing else would keep it from matching
			spec = Commented("stoplog probe", "-s", doc.String(), "-j", "RETURN").spec
		}
		if err := f.x.Append(f.w.table, f.BlocksChain(), spec...); err != nil {
			return err
		}
		return f.x.Delete(f.w.table, f.BlocksChain(), spec...)
	}
	if err := try(true); err != nil {
		if err := try(false); err != nil {
			return f.fail("trying a rule", err)
		}
		f.Maker.time, f.w.noTime = false, true
	}
	return nil
}

// keepMark gives the chain of blocks a mark if it does not hold the last one.
func (f *Family) keepMark() error {
	if f.w.ViaSets != "" { // there the sets have marks
		return nil
	}
	if _, err := f.held(); err != nil || f.mark != "" && !f.moved() {
		return err
	}
	f.lost = f.lost || f.mark != ""
	return f.fail("marking "+f.BlocksChain(), f.remark(context.Background(), nil))
}

// policy brings the rules around the blocks up to date.
func (f *Family) policy(p firewall.Policy) error {
	known, refuse := f.Maker.lock(p, time.Now())
	pass := f.Maker.pass(p.Allow)
	if f.w.ViaSets != "" {
		pass = append(f.Maker.pass(nil), f.passSet("allow"))
		known = []Rule{f.passSet("known")}
	}
	if err := f.Sync(f.lockChain(), known, refuse); err != nil {
		return err
	}
	return f.Sync(f.w.Chain, pass, []Rule{
		Commented("stoplog lockdown", "-j", f.lockChain()),
		Commented("stoplog blocks", "-j", f.BlocksChain()),
	})
}

// passSet leaves our chain for what an ipset holds.
func (f *Family) passSet(what string) Rule {
	return Commented("stoplog "+what, "-m", "set", "--match-set", f.w.ViaSets+FamilyDigit(f.Maker.V6)+"-"+what, "src", "-j", "RETURN")
}

// sync makes our rules of a chain be exactly pass and then rest. What is
// missing of pass goes in first of all and of rest last, before anything that
// is no longer wanted goes; so no order of events blocks an allowed host.
func (f *Family) Sync(chain string, pass, rest []Rule) error {
	have, err := f.Rules(chain)
	if err != nil {
		return err
	}
	spare := map[string][]Rule{}
	for _, r := range have {
		if r.Comment != "" { // a rule that somebody else put here stays
			spare[r.Comment] = append(spare[r.Comment], r)
		}
	}
	missing := func(r Rule) bool {
		if s := spare[r.Comment]; len(s) > 0 {
			spare[r.Comment] = s[1:]
			return false
		}
		return true
	}
	for _, r := range pass {
		if missing(r) {
			if err := f.x.Insert(f.w.table, chain, 1, r.spec...); err != nil {
				return f.fail("inserting into "+chain, err)
			}
		}
	}
	for _, r := range rest {
		if missing(r) {
			if err := f.x.Append(f.w.table, chain, r.spec...); err != nil {
				return f.fail("appending to "+chain, err)
			}
		}
	}
	for comment, rs := range spare {
		for _, r := range rs {
			if len(comment) < 8 || comment[:8] != "stoplog " {
				continue
			}
			if err := f.x.Delete(f.w.table, chain, r.spec...); err != nil {
				return f.fail("deleting from "+chain, err)
			}
		}
	}
	return nil
}

func (f *Family) Rules(chain string) ([]Rule, error) {
	lines, err := f.x.List(f.w.table, chain)
	if err != nil {
		return nil, f.fail("listing "+chain, err)
	}
	var rs []Rule
	for _, l := range lines {
		if r, ok := parseRule(l); ok {
			rs = append(rs, r)
		}
	}
	return rs, nil
}

// jumps finds the rules of chain that jump to ours, and whether the first rule is one.
func (f *Family) jumps(chain string) (js []Rule, first bool, err error) {
	rs, err := f.Rules(chain)
	for i, r := range rs {
		if after(r.spec, "-j") == f.w.Chain {
			js = append(js, r)
			first = first || i == 0
		}
	}
	return js, first, err
}

// hook makes one jump to us the first rule of a chain. The new jump goes in
// before the old one goes, under another comment: Delete takes the first rule
// that is equal.
func (f *Family) hook(from string) error {
	old, first, err := f.jumps(from)
	if err != nil {
		return err
	}
	if first {
		old = old[1:]
	} else {
		comment := "stoplog"
		if slices.ContainsFunc(old, func(r Rule) bool { return r.Comment == comment }) {
			comment = "stoplog first"
		}
		if err := f.x.Insert(f.w.table, from, 1, Commented(comment, "-j", f.w.Chain).spec...); err != nil {
			return f.fail("hooking into "+from, err)
		}
	}
	for _, r := range old {
		if err := f.x.Delete(f.w.table, from, r.spec...); err != nil {
			return f.fail("unhooking from "+from, err)
		}
	}
	return nil
}

func (f *Family) check() error {
	for _, c := range []string{f.w.Chain, f.lockChain(), f.BlocksChain()} {
		if there, err := f.x.ChainExists(f.w.table, c); err != nil {
			return f.fail("looking for chain "+c, err)
		} else if !there {
			return fmt.Errorf("%s: chain %s: %w", f, c, firewall.ErrBroken)
		}
	}
	from := f.w.builtin
	for _, c := range f.w.optHook {
		if there, err := f.x.ChainExists(f.w.table, c); err == nil && there {
			from = append(from[:len(from):len(from)], c)
		}
	}
	for _, c := range from {
		if js, _, err := f.jumps(c); err != nil {
			return err
		} else if len(js) == 0 {
			return fmt.Errorf("%s: jump from %s: %w", f, c, firewall.ErrBroken)
		}
	}
	return nil
}

// hookChains are all that may jump to us, whatever the options are.
var hookChains = []string{"INPUT", "FORWARD", "PREROUTING", "DOCKER-USER"}

// unhook deletes the jumps to us from a chain, if that is there.
func (f *Family) unhook(from string) error {
	there, err := f.x.ChainExists(f.w.table, from)
	if err != nil || !there {
		return f.fail("looking for chain "+from, err)
	}
	js, _, err := f.jumps(from)
	if err != nil {
		return err
	}
	for _, r := range js {
		if err := f.x.Delete(f.w.table, from, r.spec...); err != nil {
			return f.fail("unhooking from "+from, err)
		}
	}
	return nil
}

func (f *Family) teardown() error {
	f.mark, f.lost = "", false
	for _, from := range hookChains {
		if err := f.unhook(from); err != nil {
			return err
		}
	}
	for _, c := range []string{f.w.Chain, f.lockChain(), f.BlocksChain()} {
		if there, err := f.x.ChainExists(f.w.table, c); err != nil {
			return f.fail("looking for chain "+c, err)
		} else if !there {
			continue
		}
		if err := f.x.ClearAndDeleteChain(f.w.table, c); err != nil {
			return f.fail("removing chain "+c, err)
		}
	}
	return nil
}

func FamilyDigit(v6 bool) string {
	if v6 {
		return "6"
	}
	return "4"
}
