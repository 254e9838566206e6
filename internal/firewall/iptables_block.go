//go:build linux

package firewall

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// heldBlock is the rules of one prefix in the kernel.
type heldBlock struct {
	entry Entry // of the last rule
	rules []xtRule
}

func (f *xtFamily) held() (map[netip.Prefix]*heldBlock, error) {
	rs, err := f.rules(f.blocksChain())
	if err != nil {
		return nil, err
	}
	held := map[netip.Prefix]*heldBlock{}
	for _, r := range rs {
		e, ok := parseNote(r.comment)
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
func (f *xtFamily) block(ctx context.Context, live []Entry, ended map[netip.Prefix]bool, full *FullError) error {
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
		if e.Prefix.Addr().Is6() != f.m.v6 {
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
	if err := f.apply(ctx, ops); err != nil {
		return f.fail(fmt.Sprintf("blocking %d prefixes", len(live)), err)
	}
	return nil
}

// put adds the rules of e, then takes out those that stood before. What slows
// goes to the end and all else to the front: a slowed prefix leaves the chain by
// RETURN, which must not save it from a harder block of the same addresses.
func (f *xtFamily) put(e Entry, old *heldBlock) []xtOp {
	rules := f.m.block(e)
	f.w.held[e.Prefix] = e.Until
	if len(old.rules) == len(rules) && !slices.ContainsFunc(old.rules, func(r xtRule) bool { return r.comment != rules[0].comment }) {
		return nil
	}
	ops := make([]xtOp, 0, len(rules)+len(old.rules))
	for _, r := range rules {
		ops = append(ops, xtOp{"-A", r})
	}
	if e.Action != Slow {
		slices.Reverse(ops)
		for i := range ops {
			ops[i].verb = "-I"
		}
	}
	return append(ops, deletions(old.rules)...)
}

func (f *xtFamily) remove(ctx context.Context, which func(Entry) bool) error {
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
	return f.fail("deleting from "+f.blocksChain(), f.apply(ctx, ops))
}

// xtOp is one change to the chain of blocks: "-A", "-I" or "-D", and the rule.
type xtOp struct {
	verb string
	rule xtRule
}

func deletions(rules []xtRule) []xtOp {
	ops := make([]xtOp, len(rules))
	for i, r := range rules {
		ops[i] = xtOp{"-D", r}
	}
	return ops
}

// fewOps is up to how many changes one run of iptables each is quicker, or
// simple enough, compared with iptables-restore.
const fewOps = 4

// apply makes the changes: a few by iptables, many in one go, as iptables
// reads all rules each time it adds one.
func (f *xtFamily) apply(ctx context.Context, ops []xtOp) error {
	if len(ops) > fewOps {
		return f.x.Restore(ctx, f.w.table, restoreLines(f.blocksChain(), ops))
	}
	for _, op := range ops {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.applyOne(op); err != nil {
			return err
		}
	}
	return nil
}

func (f *xtFamily) applyOne(op xtOp) error {
	chain, spec := f.blocksChain(), op.rule.spec
	switch op.verb {
	case "-I":
		return f.x.Insert(f.w.table, chain, 1, spec...)
	case "-D":
		return f.x.Delete(f.w.table, chain, spec...)
	}
	return f.x.Append(f.w.table, chain, spec...)
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
