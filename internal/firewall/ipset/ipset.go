//go:build linux

// Package ipset blocks by kernel sets that rules of iptables look into. Sets are
// spoken to over netlink: no program and no raw socket.
package ipset

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
	"stoplog/internal/firewall/held"
	"stoplog/internal/firewall/iptables"
)

// IPSet is the wall of sets that one iptables rule a family and kind of block
// looks into. Sets are written by netlink, a thousand elements a message; the
// rules by iptables, in chains of our own (NAME-SET and below), as the iptables
// wall's are. A set that fills up is made again at twice its size. Each set holds
// a mark, which a flush takes with it: see ipsetMark.
type Wall struct {
	xt   *iptables.Wall
	x    *conn
	name string
	max  int
	slow int

	sets  map[string]setInfo // all of the kernel's, as of the last look
	kinds map[kind]bool      // those with rules
	marks map[kind]uint32    // the last change of each that has a set
	pass  uint32             // the mark of the sets of what passes
	lost  bool               // a mark was found missing, and List has not told
	held  held.Table[kind]
	grown []string
}

// NewIPSet prepares the wall; nothing is run before Setup.
func New(o firewall.Options) (*Wall, error) {
	xt, err := iptables.New(o)
	if err != nil {
		return nil, err
	}
	xt.Chain += "-SET"
	w := &Wall{xt: xt, x: &conn{}, name: xt.Options.Name, max: xt.Options.MaxSet, slow: xt.Options.Slow, pass: nextMark(rand.Uint32()),
		kinds: map[kind]bool{}, marks: map[kind]uint32{}}
	xt.ViaSets = w.name
	return w, nil
}

// Name is "ipset".
func (w *Wall) Name() string { return "ipset" }

// Close closes the netlink socket; the next use opens it again.
func (w *Wall) Close() error {
	w.x.close()
	return nil
}

// look reads which sets there are.
func (w *Wall) look(ctx context.Context) (err error) {
	w.sets, err = w.x.sets(ctx)
	return err
}

// v6s are the families there are.
func (w *Wall) v6s() []bool {
	if iptables.HasIPv6() {
		return []bool{false, true}
	}
	return []bool{false}
}

// passSets are the names of the sets of what passes, of one family.
func (w *Wall) passSets(v6 bool) (allow, known string) {
	return w.name + iptables.FamilyDigit(v6) + "-allow", w.name + iptables.FamilyDigit(v6) + "-known"
}

// Setup fills the sets of what passes, makes the chains, and learns which
// blocks stand.
func (w *Wall) Setup(ctx context.Context, p firewall.Policy) error {
	if err := w.look(ctx); err != nil {
		return err
	}
	known := p.Lockdown.Known
	if !p.Lockdown.Until.After(time.Now()) {
		known = nil
	}
	first, _ := w.passSets(false)
	_, stood := w.sets[first]
	err := w.refillAll(ctx, p.Allow, base.PrefixesOf(known))
	if err == nil {
		err = w.xt.Setup(ctx, p)
	}
	if err == nil {
		err = w.relearn(ctx)
	}
	if err != nil && !stood {
		_ = w.Teardown(ctx) // the error that matters is the first one
	}
	return err
}

func (w *Wall) refillAll(ctx context.Context, allow, known []netip.Prefix) error {
	w.pass = nextMark(w.pass)
	for _, v6 := range w.v6s() {
		a, k := w.passSets(v6)
		if err := w.refill(ctx, a, allow, v6); err != nil {
			return err
		}
		if err := w.refill(ctx, k, known, v6); err != nil {
			return err
		}
	}
	return nil
}

// relearn reads rules and blocks back, and gives a mark to each set that has
// none or an old one.
func (w *Wall) relearn(ctx context.Context) error {
	if err := w.look(ctx); err != nil {
		return err
	}
	err := w.read(ctx, func(firewall.Entry) {}, func(k kind, old []elem, marked bool) error {
		_, known := w.marks[k]
		w.lost = w.lost || known && !marked
		if marked {
			return nil
		}
		w.marks[k] = nextMark(rand.Uint32())
		if err := w.x.add(ctx, k.set(w.name), ipsetMark(k.v6, w.marks[k])); err != nil {
			return err
		}
		return w.x.del(ctx, k.set(w.name), old...)
	})
	for k := range w.marks {
		if !w.kinds[k] {
			delete(w.marks, k)
			w.lost = true
		}
	}
	return err
}

// read learns kinds and blocks from the kernel. of is told of each set which
// marks it holds that are not the last, and whether it holds that.
func (w *Wall) read(ctx context.Context, emit func(firewall.Entry), of func(k kind, old []elem, marked bool) error) error {
	kinds := map[kind]bool{}
	err := w.xt.EachFamily(ctx, func(f *iptables.Family) error {
		rules, err := f.Rules(f.BlocksChain())
		for _, r := range rules {
			k, ok := parseIPSetKind(r.Comment, f.Maker.V6)
			if _, there := w.sets[k.set(w.name)]; ok && there {
				kinds[k] = true
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	w.kinds = kinds
	w.held.Clear()
	for k := range kinds {
		var old []elem
		seq, known := w.marks[k]
		last, marked := ipsetMark(k.v6, seq), false
		now := time.Now() // before the kernel counts what is left: never late
		err := w.x.elems(ctx, k.set(w.name), func(el elem) {
			switch {
			case known && el == last:
				marked = true
			case isIPSetMark(el):
				old = append(old, el)
			case el.ttl > 0 && (firewall.Entry{Prefix: el.p}).Validate() == nil:
				e := firewall.Entry{Prefix: el.p, Until: now.Add(el.ttl).UTC(), Action: k.action, Ports: k.portList()}
				w.held.Put(el.p, k, e.Until)
				emit(e)
			}
		})
		if err == nil {
			err = of(k, old, marked)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Block writes entries, having made the sets and rules that are new and grown
// the sets that are too small.
func (w *Wall) Block(ctx context.Context, es []firewall.Entry) error {
	live, ended, err := firewall.Prepare(es, time.Now())
	live, unfit := w.fitting(live)
	live, full := w.room(live)
	errs := []error{err, unfit, w.blockAll(ctx, live, ended)}
	if full != nil {
		errs = append(errs, full)
	}
	return errors.Join(errs...)
}

func (w *Wall) fitting(es []firewall.Entry) ([]firewall.Entry, error) {
	es, err := w.xt.Fitting(es)
	if err != nil {
		return es, fmt.Errorf("ipset by %w", err)
	}
	return es, nil
}

func (w *Wall) room(es []firewall.Entry) ([]firewall.Entry, error) {
	if w.held.Len()+len(es) <= w.max {
		return es, nil
	}
	w.held.Expire(time.Now())
	return base.RoomFor(es, w.Name(), w.max, w.max-w.held.Len(), func(p netip.Prefix) bool { _, there := w.held.Get(p); return there })
}

// ipsetChange is what happens to one set.
type setChange struct{ add, del []elem }

func (w *Wall) blockAll(ctx context.Context, live []firewall.Entry, ended []netip.Prefix) error {
	more := map[kind]int{}
	for _, e := range live {
		more[ipsetKindOf(e)]++
	}
	for k, n := range more {
		if err := w.ensure(ctx, k, n); err != nil {
			return err
		}
	}
	changes := map[kind]*setChange{}
	of := func(k kind) *setChange {
		if changes[k] == nil {
			changes[k] = &setChange{}
		}
		return changes[k]
	}
	now := time.Now()
	for _, e := range live {
		k := ipsetKindOf(e)
		ttl, ok := ipsetTTL(e, now)
		if !ok {
			ended = append(ended, e.Prefix)
			continue
		}
		of(k).add = append(of(k).add, elem{e.Prefix, ttl})
		if old, there := w.held.Get(e.Prefix); there && old != k {
			of(old).del = append(of(old).del, elem{p: e.Prefix})
		}
	}
	for _, p := range ended {
		if k, there := w.held.Get(p); there {
			of(k).del = append(of(k).del, elem{p: p})
		}
	}
	err := w.write(ctx, changes)
	if err != nil && !errors.Is(err, firewall.ErrBroken) {
		return err
	}
	for _, e := range live {
		w.held.Put(e.Prefix, ipsetKindOf(e), e.Until)
	}
	for _, p := range ended {
		w.held.Drop(p)
	}
	return err
}

// write makes the changes: what is added before what goes, so that a block
// that changes its kind holds all the time.
func (w *Wall) write(ctx context.Context, changes map[kind]*setChange) error {
	for k, c := range changes {
		if err := w.x.add(ctx, k.set(w.name), c.add...); err != nil {
			return err
		}
	}
	var errs []error
	for k, c := range changes {
		if err := w.x.del(ctx, k.set(w.name), c.del...); err != nil {
			return err
		}
		errs = append(errs, w.mark(ctx, k))
	}
	return errors.Join(errs...)
}

// mark moves a set's mark on. Whatever was flushed, restored or swapped by
// others at any moment since the mark was moved last leaves the set without
// the old mark now, or without the new one later.
func (w *Wall) mark(ctx context.Context, k kind) error {
	set, old := k.set(w.name), w.marks[k]
	next := nextMark(old)
	if err := w.x.add(ctx, set, ipsetMark(k.v6, next)); err != nil {
		return err
	}
	w.marks[k] = next
	there, err := w.x.take(ctx, set, ipsetMark(k.v6, old))
	if err == nil && !there {
		w.lost = true
		err = fmt.Errorf("ipset: set %s was flushed or replaced: %w", set, firewall.ErrBroken)
	}
	return err
}

// Unblock deletes entries from the sets they are known to be in.
func (w *Wall) Unblock(ctx context.Context, ps []netip.Prefix) error {
	return w.blockAll(ctx, nil, ps)
}

// List reads our rules, and the sets that they name, back.
func (w *Wall) List(ctx context.Context, emit func(firewall.Entry)) error {
	if err := w.look(ctx); err != nil {
		return err
	}
	lost := w.lost
	err := w.read(ctx, emit, func(k kind, _ []elem, marked bool) error {
		lost = lost || !marked
		return nil
	})
	for k := range w.marks {
		lost = lost || !w.kinds[k]
	}
	if err == nil && lost {
		w.lost = false
		return fmt.Errorf("ipset: a set was flushed or replaced: %w", firewall.ErrBroken)
	}
	return err
}

// Check looks whether chains, rules and sets stand, and whether a set was
// flushed.
func (w *Wall) Check(ctx context.Context) error {
	if err := w.xt.Check(ctx); err != nil {
		return err
	}
	whole := func(set string, mark elem) error {
		there, err := w.x.has(ctx, set, mark)
		if err == nil && !there {
			err = fmt.Errorf("ipset: set %s was flushed or replaced: %w", set, firewall.ErrBroken)
		}
		return err
	}
	for _, v6 := range w.v6s() {
		allow, known := w.passSets(v6)
		if err := errors.Join(whole(allow, ipsetMark(v6, w.pass)), whole(known, ipsetMark(v6, w.pass))); err != nil {
			return err
		}
	}
	for k := range w.kinds {
		if err := whole(k.set(w.name), ipsetMark(k.v6, w.marks[k])); err != nil {
			return err
		}
	}
	return w.checkRules(ctx)
}

func (w *Wall) checkRules(ctx context.Context) error {
	return w.xt.EachFamily(ctx, func(f *iptables.Family) error {
		rules, err := f.Rules(f.BlocksChain())
		if err != nil {
			return err
		}
		for k := range w.kinds {
			if k.v6 == f.Maker.V6 && !slices.ContainsFunc(rules, func(r iptables.Rule) bool { return r.Comment == k.comment() }) {
				return fmt.Errorf("ipset: rule for set %s: %w", k.set(w.name), firewall.ErrBroken)
			}
		}
		return nil
	})
}

// Teardown removes the chains, then the sets that nothing names any more.
func (w *Wall) Teardown(ctx context.Context) error {
	if err := w.xt.Teardown(ctx); err != nil {
		return err
	}
	if err := w.look(ctx); err != nil {
		return err
	}
	var errs []error
	for set := range w.sets {
		if strings.HasPrefix(set, w.name+"4-") || strings.HasPrefix(set, w.name+"6-") {
			errs = append(errs, w.x.destroy(ctx, set))
		}
	}
	clear(w.kinds)
	clear(w.marks)
	w.held, w.lost = held.Table[kind]{}, false
	return errors.Join(errs...)
}

// Notes reports sets that grew, and what iptables notes.
func (w *Wall) Notes() []string {
	return append(w.xt.Notes(), w.grown...)
}

// probe proves that sets and rules can be read here, and that iptables may look
// into sets, which it asks the kernel about over a raw socket.
func (w *Wall) Probe(ctx context.Context) error {
	if err := w.xt.Probe(ctx); err != nil {
		return err
	}
	raw, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return fmt.Errorf("ipset: opening a raw socket, which iptables needs for sets (CAP_NET_RAW): %w", err)
	}
	unix.Close(raw)
	return w.look(ctx)
}

// leftSets are ipsets of ours that nothing uses.
func Leftovers(ctx context.Context, o firewall.Options) []firewall.Leftover {
	x := &conn{}
	sets, err := x.sets(ctx)
	if err != nil {
		return nil
	}
	var ours []string
	for s := range sets {
		if strings.HasPrefix(s, o.Name+"4-") || strings.HasPrefix(s, o.Name+"6-") {
			ours = append(ours, s)
		}
	}
	if len(ours) == 0 {
		return nil
	}
	slices.Sort(ours)
	return []firewall.Leftover{{What: "ipset: sets " + strings.Join(ours, ", "), Remove: func(ctx context.Context) error {
		defer x.close()
		for _, s := range ours {
			if err := x.destroy(ctx, s); err != nil {
				return err
			}
		}
		return nil
	}}}
}
