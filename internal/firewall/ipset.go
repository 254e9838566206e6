//go:build linux

package firewall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// IPSet is the wall of sets that one iptables rule a family and kind of block
// looks into. Sets are written by `ipset restore`, whole batches in one run;
// the rules by iptables, in chains of our own (NAME-SET and below), as the
// iptables wall's are. A set that fills up is made anew at twice its size.
type IPSet struct {
	xt   *IPTables
	x    execer
	name string
	prog string
	max  int
	slow int

	sets  map[string]ipsetInfo // all of the kernel's, as of the last look
	kinds map[ipsetKind]bool   // those with rules
	held  map[netip.Prefix]ipsetHeld
	count map[ipsetKind]int // of held
	grown []string
}

type ipsetHeld struct {
	kind  ipsetKind
	until time.Time
}

// NewIPSet prepares the wall; nothing is run before Setup.
func NewIPSet(o Options) (*IPSet, error) {
	xt, err := NewIPTables(o)
	if err != nil {
		return nil, err
	}
	xt.chain += "-SET"
	w := &IPSet{xt: xt, x: realExec{30 * time.Second}, name: xt.o.Name, prog: xt.o.IPSet, max: xt.o.MaxSet, slow: xt.o.Slow,
		kinds: map[ipsetKind]bool{}, held: map[netip.Prefix]ipsetHeld{}, count: map[ipsetKind]int{}}
	xt.viaSets = w.name
	return w, nil
}

// Name is "ipset".
func (w *IPSet) Name() string { return "ipset" }

func (w *IPSet) restore(ctx context.Context, lines string) error {
	if lines == "" {
		return nil
	}
	_, err := w.x.run(ctx, []string{w.prog, "restore", "-exist"}, []byte(lines))
	return err
}

// look reads which sets there are.
func (w *IPSet) look(ctx context.Context) error {
	out, err := w.x.run(ctx, []string{w.prog, "list", "-t"}, nil)
	if err != nil {
		return err
	}
	w.sets = parseIPSetList(string(out))
	return nil
}

// v6s are the families there are.
func (w *IPSet) v6s() []bool {
	if hasIPv6() {
		return []bool{false, true}
	}
	return []bool{false}
}

// Setup fills the sets of what passes, makes the chains, and learns which
// blocks stand.
func (w *IPSet) Setup(ctx context.Context, p Policy) error {
	if err := w.look(ctx); err != nil {
		return err
	}
	known := p.Lockdown.Known
	if !p.Lockdown.Until.After(time.Now()) {
		known = nil
	}
	var b strings.Builder
	for _, v6 := range w.v6s() {
		w.refill(&b, w.name+famDigit(v6)+"-allow", p.Allow, v6)
		w.refill(&b, w.name+famDigit(v6)+"-known", prefixesOf(known), v6)
	}
	if err := w.restore(ctx, b.String()); err != nil {
		return err
	}
	fresh := w.sets[w.name+"4-allow"] == (ipsetInfo{})
	err := w.xt.Setup(ctx, p)
	if err == nil {
		err = w.relearn(ctx)
	}
	if err != nil && fresh {
		_ = w.Teardown(ctx) // the error that matters is the first one
	}
	return err
}

// relearn reads sets, rules and blocks back.
func (w *IPSet) relearn(ctx context.Context) error {
	_, err := w.List(ctx)
	return err
}

// Block writes entries in one restore, having made the sets and rules that
// are new and grown the sets that are too small.
func (w *IPSet) Block(ctx context.Context, es []Entry) error {
	live, ended, err := prepare(es, time.Now())
	live, unfit := w.fitting(live)
	live, full := w.room(live)
	errs := []error{err, unfit, w.blockAll(ctx, live, ended)}
	if full != nil {
		errs = append(errs, full)
	}
	return errors.Join(errs...)
}

func (w *IPSet) fitting(es []Entry) ([]Entry, error) {
	es, err := w.xt.fitting(es)
	if err != nil {
		return es, fmt.Errorf("ipset by %w", err)
	}
	return es, nil
}

func (w *IPSet) room(es []Entry) ([]Entry, error) {
	if len(w.held)+len(es) <= w.max {
		return es, nil
	}
	now := time.Now()
	for p, h := range w.held {
		if !h.until.After(now) {
			w.forget(p)
		}
	}
	full := &FullError{Wall: w.Name(), Max: w.max}
	left := w.max - len(w.held)
	es = slices.DeleteFunc(es, func(e Entry) bool {
		if _, there := w.held[e.Prefix]; there {
			return false
		}
		if left > 0 {
			left--
			return false
		}
		full.Left = append(full.Left, e.Prefix)
		return true
	})
	if len(full.Left) == 0 {
		return es, nil
	}
	return es, full
}

func (w *IPSet) blockAll(ctx context.Context, live []Entry, ended []netip.Prefix) error {
	more := map[ipsetKind]int{}
	for _, e := range live {
		more[ipsetKindOf(e)]++
	}
	for k, n := range more {
		if err := w.ensure(ctx, k, n); err != nil {
			return err
		}
	}
	now := time.Now()
	var b strings.Builder
	for _, e := range live {
		k := ipsetKindOf(e)
		line, ok := ipsetAdd(k.set(w.name), e, now)
		if !ok {
			ended = append(ended, e.Prefix)
			continue
		}
		b.WriteString(line)
		if old, there := w.held[e.Prefix]; there && old.kind != k {
			fmt.Fprintf(&b, "del %s %s\n", old.kind.set(w.name), e.Prefix)
		}
	}
	w.deletions(&b, ended)
	if err := w.restore(ctx, b.String()); err != nil {
		return err
	}
	for _, e := range live {
		w.remember(ipsetKindOf(e), e)
	}
	for _, p := range ended {
		w.forget(p)
	}
	return nil
}

func (w *IPSet) remember(k ipsetKind, e Entry) {
	w.forget(e.Prefix)
	w.held[e.Prefix] = ipsetHeld{k, e.Until}
	w.count[k]++
}

func (w *IPSet) forget(p netip.Prefix) {
	if h, there := w.held[p]; there {
		delete(w.held, p)
		w.count[h.kind]--
	}
}

func (w *IPSet) deletions(b *strings.Builder, ps []netip.Prefix) {
	for _, p := range ps {
		if h, there := w.held[p]; there {
			fmt.Fprintf(b, "del %s %s\n", h.kind.set(w.name), p)
		}
	}
}

// Unblock deletes entries from the sets they are known to be in.
func (w *IPSet) Unblock(ctx context.Context, ps []netip.Prefix) error {
	return w.blockAll(ctx, nil, ps)
}

// List reads our rules, and the sets that they name, back.
func (w *IPSet) List(ctx context.Context) ([]Entry, error) {
	if err := w.look(ctx); err != nil {
		return nil, err
	}
	kinds := map[ipsetKind]bool{}
	err := w.xt.each(ctx, func(f *xtFamily) error {
		rules, err := f.rules(f.blocksChain())
		for _, r := range rules {
			k, ok := parseIPSetKind(r.comment, f.m.v6)
			if _, there := w.sets[k.set(w.name)]; ok && there {
				kinds[k] = true
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	w.kinds = kinds
	clear(w.held)
	clear(w.count)
	var es []Entry
	for k := range kinds {
		if es, err = w.listSet(ctx, k, es); err != nil {
			return nil, err
		}
	}
	return es, nil
}

func (w *IPSet) listSet(ctx context.Context, k ipsetKind, es []Entry) ([]Entry, error) {
	now := time.Now() // before the kernel counts what is left: never late
	out, err := w.x.run(ctx, []string{w.prog, "save", k.set(w.name)}, nil)
	if err != nil {
		return nil, err
	}
	for l := range strings.Lines(string(out)) {
		p, ttl, ok := parseIPSetAdd(l)
		if !ok {
			continue
		}
		e := Entry{Prefix: p, Until: now.Add(ttl).UTC(), Action: k.action, Ports: k.portList()}
		es = append(es, e)
		w.remember(k, e)
	}
	return es, nil
}

// Check looks whether chains, rules and sets stand, and whether a set that
// should hold blocks was emptied.
func (w *IPSet) Check(ctx context.Context) error {
	if err := w.xt.Check(ctx); err != nil {
		return err
	}
	if err := w.look(ctx); err != nil {
		return err
	}
	now := time.Now()
	live := map[ipsetKind]bool{}
	for _, h := range w.held {
		if h.until.After(now.Add(5 * time.Second)) {
			live[h.kind] = true
		}
	}
	for k := range w.kinds {
		set := k.set(w.name)
		if info, there := w.sets[set]; !there || live[k] && info.entries == 0 {
			return fmt.Errorf("ipset: set %s: %w", set, ErrBroken)
		}
	}
	return w.checkRules(ctx)
}

func (w *IPSet) checkRules(ctx context.Context) error {
	return w.xt.each(ctx, func(f *xtFamily) error {
		rules, err := f.rules(f.blocksChain())
		if err != nil {
			return err
		}
		for k := range w.kinds {
			if k.v6 == f.m.v6 && !slices.ContainsFunc(rules, func(r xtRule) bool { return r.comment == k.comment() }) {
				return fmt.Errorf("ipset: rule for set %s: %w", k.set(w.name), ErrBroken)
			}
		}
		return nil
	})
}

// Teardown removes the chains, then the sets that nothing names any more.
func (w *IPSet) Teardown(ctx context.Context) error {
	if err := w.xt.Teardown(ctx); err != nil {
		return err
	}
	if err := w.look(ctx); err != nil {
		return err
	}
	var b strings.Builder
	for set := range w.sets {
		if strings.HasPrefix(set, w.name+"4-") || strings.HasPrefix(set, w.name+"6-") {
			fmt.Fprintf(&b, "destroy %s\n", set)
		}
	}
	clear(w.kinds)
	clear(w.held)
	clear(w.count)
	return w.restore(ctx, b.String())
}

// Notes tells of sets that grew, and what iptables notes.
func (w *IPSet) Notes() []string {
	return append(w.xt.Notes(), w.grown...)
}

// probe proves that sets and rules can be read here.
func (w *IPSet) probe(ctx context.Context) error {
	if err := w.xt.probe(ctx); err != nil {
		return err
	}
	return w.look(ctx)
}
