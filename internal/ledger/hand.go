package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"stoplog/internal/addr"
)

// tooLong is the reason for refusing a time set by hand.
const tooLong = "expected a time of at most 36500d"

// BlockByHand blocks p for ttl, or without end if ttl is 0, and replaces any
// block of p. A non-nil error together with changes means that the block was set
// but is not on disk.
func (l *Ledger) BlockByHand(p netip.Prefix, ttl time.Duration, reason, by string, now time.Time) ([]Change, error) {
	l.out = nil
	p = addr.OfPrefix(p)
	if why := l.refuse(p, now.UnixNano()); why != "" {
		return nil, fmt.Errorf("not blocking %v: %s", p, why)
	}
	if ttl < 0 || ttl > maxTTL {
		return nil, fmt.Errorf("not blocking %v: %s", p, tooLong)
	}
	b := l.byHand(p, ttl, now)
	b.Reason, b.By = clean(reason, 500), cmp.Or(clean(by, 100), "hand")
	err := l.order(&entry{Op: opBlock, Time: now.UTC(), By: b.By, Reason: b.Reason, Blocks: []*Block{&b}}, now)
	return l.out, err
}

func (l *Ledger) byHand(p netip.Prefix, ttl time.Duration, now time.Time) Block {
	now = now.UTC()
	b := Block{Prefix: p.Masked(), Since: now, Until: now.Add(ttl)}
	if ttl == 0 {
		b.Until, b.Forever = now.Add(lease), true
	}
	return b
}

// found names blocks, and their reason, that a firewall held when the state was lost.
const (
	ruleFound   = "found"
	reasonFound = "found in the kernel"
)

// maxFound bounds the blocks of one entry of the journal.
const maxFound = 256

// Found takes over blocks that a firewall holds and that the ledger knows
// nothing of, with their prefix, end, action and ports. Those that may not be
// blocked, have ended, or stand already are left out. It returns how many were
// taken, and does not wait for the disk: Save is to follow.
func (l *Ledger) Found(bs []Block, now time.Time) (int, error) {
	l.out = nil
	var taken []*Block
	for _, b := range bs {
		if !b.Until.After(now) || l.refuse(b.Prefix, now.UnixNano()) != "" {
			continue
		}
		if _, stands := l.standing(keyOf(b.Prefix), now.UnixNano()); stands {
			continue
		}
		b.Prefix, b.Rule, b.Reason, b.Since = b.Prefix.Masked(), ruleFound, reasonFound, now.UTC()
		if most := now.Add(maxTTL); b.Until.After(most) {
			b.Until = most
		}
		taken = append(taken, &b)
		if l.blocks.len()+len(taken) >= l.o.MaxBlocks {
			break
		}
	}
	var errs []error
	for part := range slices.Chunk(taken, maxFound) {
		e := &entry{Op: opBlock, Time: now.UTC(), By: "stoplog", Reason: reasonFound, Blocks: part}
		l.carryOut(e, now.UnixNano())
		errs = append(errs, l.append(e, false))
	}
	l.out = nil // the walls hold them
	return len(taken), errors.Join(errs...)
}

// order carries out an order by hand, tells the walls, and has it on disk
// before it returns.
func (l *Ledger) order(e *entry, now time.Time) error {
	l.carryOut(e, now.UnixNano())
	return l.append(e, true)
}

// carryOut does what an entry by hand says, now or after a restart.
func (l *Ledger) carryOut(e *entry, now int64) {
	for _, b := range e.Blocks {
		k := keyOf(b.Prefix)
		before, stood := l.standing(k, now)
		delete(l.waiting, k)
		l.adopt(*b)
		l.change(k, before, stood, now)
	}
	for _, p := range e.Lifted {
		k := keyOf(p)
		before, stood := l.standing(k, now)
		l.cut(k, e.Time.UnixNano())
		l.change(k, before, stood, now)
		l.stats.Lifted++
	}
	for _, p := range e.Pardons {
		l.pardon(keyOf(p.Prefix), p.Until)
		delete(l.strikes.by, keyOf(p.Prefix))
		l.settle(p, now)
	}
	switch e.Op {
	case opAllow:
		l.allow.grant(*e.Allow)
	case opDisallow:
		l.allow.end(keyOf(e.Prefix), e.Time.UnixNano())
	case opFlag:
		l.flags.raise(e.Flags[0])
	case opClear:
		l.clearFlag(e.Name, e.Time)
	case opUnlock:
		l.endLockdown(e.Time)
	}
}

// lifting is the entry that lifts blocks. Of those that buckets led to the
// buckets are emptied, the strikes forgotten, and lines of up to now forgiven:
// they may still come, late or read again after a restart.
func (l *Ledger) lifting(op string, blocks []Block, by string, now time.Time) *entry {
	e := &entry{Op: op, Time: now.UTC(), By: cmp.Or(clean(by, 100), "hand")}
	for _, b := range blocks {
		e.Lifted = append(e.Lifted, b.Prefix)
		if b.Rule != ruleWiden && b.Rule != ruleDeny {
			e.Pardons = append(e.Pardons, pardon{b.Prefix, max(now.UnixNano(), b.Since.UnixNano())})
		}
	}
	return e
}

func (e *entry) forget() []netip.Prefix {
	var out []netip.Prefix
	for _, p := range e.Pardons {
		out = append(out, p.Prefix)
	}
	return out
}

// Unblock lifts every block that covers p or lies within it, takes back their
// strikes, and forgives the lines of up to now. Nothing in Lifted means that
// nothing stood there. A block of the deny list comes back with the next
// SetOptions or Open. A non-nil error means that the order was carried out but
// is not on disk.
func (l *Ledger) Unblock(p netip.Prefix, by string, now time.Time) (Lifted, error) {
	l.out = nil
	if !p.IsValid() {
		return Lifted{}, fmt.Errorf("%v is not a prefix", p)
	}
	p = addr.OfPrefix(p)
	blocks := l.sorted(now.UnixNano(), func(q netip.Prefix) bool { return within(q, p) || within(p, q) })
	if len(blocks) == 0 {
		return Lifted{}, nil
	}
	e := l.lifting(opUnblock, blocks, by, now)
	e.Prefix = p
	err := l.order(e, now)
	return Lifted{l.out, e.forget()}, err
}

// Allow exempts p for ttl, or for good when ttl is 0, from now on, and lifts
// the blocks within it. The caller then tells the walls AllowedPrefixes. A
// non-nil error of the disk means that the order was carried out all the same.
func (l *Ledger) Allow(p netip.Prefix, ttl time.Duration, reason, by string, now time.Time) (Lifted, error) {
	l.out = nil
	switch {
	case !p.IsValid() || p.Addr().Is4In6():
		return Lifted{}, fmt.Errorf("not allowing %v: not a prefix", p)
	case ttl < 0 || ttl > maxTTL:
		return Lifted{}, fmt.Errorf("not allowing %v: %s", p, tooLong)
	case len(l.allow.hand) >= maxByHand:
		return Lifted{}, fmt.Errorf("not allowing %v: there are already %d prefixes allowed by hand", p, maxByHand)
	}
	p, now = p.Masked(), now.UTC()
	a := Allowance{Prefix: p, Since: now, Reason: clean(reason, 500), By: cmp.Or(clean(by, 100), "hand")}
	if ttl > 0 {
		a.Until = now.Add(ttl)
	}
	e := l.lifting(opAllow, l.sorted(now.UnixNano(), func(q netip.Prefix) bool { return within(q, p) }), by, now)
	e.Prefix, e.Reason, e.Allow = p, a.Reason, &a
	err := l.order(e, now)
	return Lifted{l.out, e.forget()}, err
}

// Disallow ends the allowance by hand of exactly p; false when there is none.
func (l *Ledger) Disallow(p netip.Prefix, by string, now time.Time) (bool, error) {
	p = p.Masked()
	stands := false
	for _, h := range l.allow.hand[keyOfOrZero(p)] {
		stands = stands || h.until > now.UnixNano()
	}
	if !stands {
		return false, nil
	}
	return true, l.order(&entry{Op: opDisallow, Time: now.UTC(), By: cmp.Or(clean(by, 100), "hand"), Prefix: p}, now)
}

func keyOfOrZero(p netip.Prefix) pkey {
	if !p.IsValid() {
		return pkey{}
	}
	return keyOf(p)
}

// SetProtected replaces the machine's own addresses, gateways, resolvers and
// SSH peers, and lifts the blocks within them.
func (l *Ledger) SetProtected(ps []netip.Prefix, now time.Time) Lifted {
	l.out = nil
	l.allow.protected = minimal(ps)
	l.allow.rebuild()
	return l.liftAllowed(now)
}

// SetOptions replaces the options, as a reload does; FlagsDir and the audit
// trail's stay. Blocks within what is newly allowed are lifted, those of Deny
// are brought up to date.
func (l *Ledger) SetOptions(o Options, now time.Time) (Lifted, error) {
	o, err := o.filled()
	if err != nil {
		return Lifted{}, err
	}
	l.out = nil
	l.use(o)
	l.rejoin()
	lifted := l.liftAllowed(now)
	l.deny(now)
	lifted.Changes = l.out
	return lifted, nil
}

// liftAllowed lifts the blocks of which every address is exempt now, and those
// of addresses that are never blocked, which an older version may have set.
func (l *Ledger) liftAllowed(now time.Time) Lifted {
	n := now.UnixNano()
	all := newRanges(l.allow.standing(n))
	blocks := l.sorted(n, func(p netip.Prefix) bool { return all.coversAll(p) || addr.Never(p) != "" })
	if len(blocks) == 0 {
		return Lifted{}
	}
	e := l.lifting(opUnblock, blocks, "allowlist", now)
	l.carryOut(e, n)
	l.append(e, false) // is found again in the allowlist when it is lost
	return Lifted{l.out, e.forget()}
}

// deny brings the blocks of the deny list up to date.
func (l *Ledger) deny(now time.Time) {
	n, want := now.UnixNano(), map[pkey]bool{}
	var blocks []*Block
	for _, p := range minimal(canonical(l.o.Deny)) {
		k := keyOf(p)
		want[k] = true
		if old, stands := l.standing(k, n); (!stands || !old.Forever) && l.refuse(p, n) == "" {
			b := l.byHand(p, 0, now)
			b.Rule, b.By, b.Reason = ruleDeny, "rules", "on the deny list"
			blocks = append(blocks, &b)
		}
	}
	gone := l.sorted(n, func(p netip.Prefix) bool {
		k := keyOf(p)
		if r := l.blocks.get(k); (r == nil || r.about.Value().rule != ruleDeny) && l.waiting[k] == nil {
			return false
		}
		b, _ := l.standing(k, n)
		return b.Rule == ruleDeny && !want[k]
	})
	if len(blocks)+len(gone) == 0 {
		return
	}
	e := l.lifting(opBlock, gone, "rules", now)
	e.Blocks = blocks
	l.carryOut(e, n)
	l.append(e, false)
}

// canonical gives the prefixes that ps are blocked as.
func canonical(ps []netip.Prefix) []netip.Prefix {
	out := make([]netip.Prefix, len(ps))
	for i, p := range ps {
		out[i] = addr.OfPrefix(p)
	}
	return out
}

// RaiseFlag raises a flag by hand for ttl, or changes its end.
func (l *Ledger) RaiseFlag(name string, ttl time.Duration, reason, by string, now time.Time) error {
	switch {
	case !flagName(name):
		return fmt.Errorf("not raising flag %q: a name has at most 64 characters a-z, 0-9 and -", name)
	case ttl <= 0 || ttl > maxTTL:
		return fmt.Errorf("not raising flag %s: %s", name, tooLong)
	case len(l.flags.by) >= maxFlags && l.flags.by[name] == nil:
		return fmt.Errorf("not raising flag %s: %d flags are raised", name, maxFlags)
	}
	now = now.UTC()
	s := FlagState{Name: name, Since: now, Until: now.Add(ttl), Reason: clean(reason, 500), By: cmp.Or(clean(by, 100), "hand")}
	err := l.order(&entry{Op: opFlag, Time: now, By: s.By, Reason: s.Reason, Name: name, Flags: []FlagState{s}}, now)
	l.store.health("flags", l.flags.write(name, now.UnixNano()))
	return err
}

// ClearFlag lowers a flag by hand; false when it was not up.
func (l *Ledger) ClearFlag(name, by string, now time.Time) (bool, error) {
	if _, up := l.flags.state(name, now.UnixNano()); !up {
		return false, nil
	}
	err := l.order(&entry{Op: opClear, Time: now.UTC(), By: cmp.Or(clean(by, 100), "hand"), Name: name}, now)
	l.store.health("flags", l.flags.write(name, now.UnixNano()))
	return true, err
}

func (l *Ledger) clearFlag(name string, at time.Time) {
	l.flags.clear(name, at)
	l.eachPending(func(e *entry) {
		for i := range e.Flags {
			if s := &e.Flags[i]; s.Name == name && s.Until.After(at) {
				s.Until = at
			}
		}
	})
}

// Flags lists the flags that are up, by name.
func (l *Ledger) Flags(now time.Time) []FlagState {
	var out []FlagState
	for _, name := range l.flags.names() {
		if s, up := l.flags.state(name, now.UnixNano()); up {
			out = append(out, s)
		}
	}
	return out
}

// Lockdown is the last lockdown; it stands while its Until is after now.
func (l *Ledger) Lockdown() LockdownState {
	if l.locking.Until.After(l.lockdown.Until) {
		return l.locking
	}
	return l.lockdown
}

// EndLockdown ends a lockdown by hand.
func (l *Ledger) EndLockdown(by string, now time.Time) error {
	if !l.Lockdown().Until.After(now) {
		return nil
	}
	return l.order(&entry{Op: opUnlock, Time: now.UTC(), By: cmp.Or(clean(by, 100), "hand")}, now)
}

func (l *Ledger) endLockdown(at time.Time) {
	cut := func(s *LockdownState) {
		if s.Until.After(at) {
			s.Until = at
		}
	}
	cut(&l.lockdown)
	l.locking = LockdownState{}
	l.eachPending(func(e *entry) {
		if e.Lockdown != nil {
			cut(e.Lockdown)
		}
	})
}
