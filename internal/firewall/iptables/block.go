//go:build linux

package iptables

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
)

// heldBlock is the rules of one prefix in the kernel.
type heldBlock struct {
	entry firewall.Entry // of the last rule
	rules []Rule
}

func (f *Family) held() (map[netip.Prefix]*heldBlock, error) {
	rs, err := f.Rules(f.BlocksChain())
	if err != nil {
		return nil, err
	}
	held := map[netip.Prefix]*heldBlock{}
	f.found, f.stale = "", nil
	for _, r := range rs {
		if strings.HasPrefix(r.Comment, xtMark) {
			if f.found = r.Comment; f.found != f.mark {
				f.stale = append(f.stale, r)
			}
		}
		e, ok := base.ParseNote(r.Comment)
		if !ok {
			continue
		}
		h := held[e.Prefix]
		if h == nil {
			h = &heldBlock{}
			held[e.Prefix] = h
		}
		h.entry, h.rules = e, append(h.rules, r)
	}
	return held, nil
}

// block adds this family's entries while there is room.
func (f *Family) block(ctx context.Context, live []firewall.Entry, ended map[netip.Prefix]bool, full *firewall.FullError) error {
	held, err := f.held()
	if err != nil {
		return err
	}
	now := time.Now()
	var ops []xtOp
	for p, h := range held {
		if !h.entry.Until.After(now) || ended[p] {
			ops = append(ops, deletions(h.rules)...)
			delete(held, p)
		}
	}
	room := full.Max - len(held)
	for _, e := range live {
		if e.Prefix.Addr().Is6() != f.Maker.V6 {
			continue
		}
		h := held[e.Prefix]
		if h == nil && room <= 0 {
			full.Left = append(full.Left, e.Prefix)
			continue
		}
		if h == nil {
			room--
			h = &heldBlock{}
		}
		ops = append(ops, f.put(e, h)...)
	}
	return f.fail(fmt.Sprintf("blocking %d prefixes", len(live)), f.change(ctx, ops))
}

// xtMark leads the comment of a rule that no packet matches and that says which
// change of ours was the last: a chain that was flushed, or restored as it once
// was, does not hold it.
const xtMark = "stoplog change "

func (f *Family) markRule(comment string) Rule {
	none := "255.255.255.255/32"
	if f.Maker.V6 {
		none = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"
	}
	return Commented(comment, "-s", none, "-j", "RETURN")
}

// moved reports whether the chain, as it was looked at last, is not the one that
// we left. Before Setup any is.
func (f *Family) moved() bool { return f.mark != "" && f.found != f.mark }

// change makes the changes and moves the mark on, having looked at what is held.
func (f *Family) change(ctx context.Context, ops []xtOp) error {
	if len(ops) == 0 {
		return nil
	}
	if f.moved() {
		f.lost = true
		return fmt.Errorf("chain %s was flushed or replaced: %w", f.BlocksChain(), firewall.ErrBroken)
	}
	return f.remark(ctx, ops)
}

// remark makes the changes and gives the chain a new mark in place of those it has.
func (f *Family) remark(ctx context.Context, ops []xtOp) error {
	next := xtMark + strconv.FormatUint(rand.Uint64(), 36)
	ops = append(ops, xtOp{"-A", f.markRule(next)})
	for _, old := range f.stale {
		ops = append(ops, xtOp{"-D", old})
	}
	if f.mark != "" && f.found == f.mark {
		ops = append(ops, xtOp{"-D", f.markRule(f.mark)})
	}
	if err := f.x.Restore(ctx, f.w.table, restoreLines(f.BlocksChain(), ops)); err != nil {
		return err
	}
	f.mark, f.found, f.stale = next, next, nil
	return nil
}

// put adds the rules of e, then takes out those that stood before. What slows
// goes to the end and all else to the front: a slowed prefix leaves the chain by
// RETURN, which must not save it from a harder block of the same addresses.
func (f *Family) put(e firewall.Entry, old *heldBlock) []xtOp {
	rules := f.Maker.block(e)
	if len(old.rules) == len(rules) && !slices.ContainsFunc(old.rules, func(r Rule) bool { return r.Comment != rules[0].Comment }) {
		return nil
	}
	ops := make([]xtOp, 0, len(rules)+len(old.rules))
	for _, r := range rules {
		ops = append(ops, xtOp{"-A", r})
	}
	if e.Action != firewall.Slow {
		slices.Reverse(ops)
		for i := range ops {
			ops[i].verb = "-I"
		}
	}
	return append(ops, deletions(old.rules)...)
}

func (f *Family) remove(ctx context.Context, which func(firewall.Entry) bool) error {
	held, err := f.held()
	if err != nil {
		return err
	}
	var ops []xtOp
	for _, h := range held {
		if which(h.entry) {
			ops = append(ops, deletions(h.rules)...)
		}
	}
	return f.fail("deleting from "+f.BlocksChain(), f.change(ctx, ops))
}

// xtOp is one change to the chain of blocks: "-A", "-I" or "-D", and the rule.
type xtOp struct {
	verb string
	rule Rule
}

func deletions(rules []Rule) []xtOp {
	ops := make([]xtOp, len(rules))
	for i, r := range rules {
		ops[i] = xtOp{"-D", r}
	}
	return ops
}

// restoreLines prints changes as iptables-restore reads them.
func restoreLines(chain string, ops []xtOp) []string {
	lines := make([]string, len(ops))
	for i, op := range ops {
		words := []string{op.verb, chain}
		for _, w := range op.rule.spec {
			words = append(words, quoteWord(w))
		}
		lines[i] = strings.Join(words, " ")
	}
	return lines
}

// quoteWord is the inverse of splitWords, for one word.
func quoteWord(w string) string {
	if w != "" && !strings.ContainsAny(w, " \"'\\\t") {
		return w
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(w) + `"`
}
