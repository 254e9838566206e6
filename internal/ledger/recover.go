package ledger

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"stoplog/internal/addr"
)

// redo brings an entry of the journal back after a restart. What a rule did
// waits until the log reports it again; what was ordered by hand stands.
func (l *Ledger) redo(e *entry, rec *Recovered, now int64) {
	if !e.usable() {
		return
	}
	if e.Op == opBreach {
		l.wait(e, now)
		return
	}
	l.carryOut(e, now)
	rec.Forget = append(rec.Forget, e.forget()...)
}

// settle puts the breaches in place that cannot come again, because the lines
// that led to them are forgiven.
func (l *Ledger) settle(p pardon, now int64) {
	l.eachPending(func(e *entry) {
		if e.ID.At <= p.Until && e.ID.Addr.IsValid() && p.Prefix.Contains(addr.Of(e.ID.Addr)) {
			l.enter(l.found(*e.ID), now)
		}
	})
}

// usable reports whether an entry has what its op needs. One of this program
// has; its sum was right.
func (e *entry) usable() bool {
	for _, b := range e.Blocks {
		if b == nil || !b.Prefix.IsValid() || !sane(b.Since) || !sane(b.Until) {
			return false
		}
	}
	for _, s := range e.Flags {
		if !flagName(s.Name) || !sane(s.Since) || !sane(s.Until) {
			return false
		}
	}
	if a := e.Allow; a != nil && (!a.Prefix.IsValid() || !sane(a.Since) || !a.Until.IsZero() && !sane(a.Until)) {
		return false
	}
	for _, p := range e.Pardons {
		if !p.Prefix.IsValid() {
			return false
		}
	}
	if slices.ContainsFunc(e.Lifted, func(p netip.Prefix) bool { return !p.IsValid() }) {
		return false
	}
	switch e.Op {
	case opBreach:
		return e.ID != nil
	case opAllow:
		return e.Allow != nil
	case opFlag:
		return len(e.Flags) == 1
	case opDisallow:
		return e.Prefix.IsValid()
	}
	return true
}

// sane reports whether t is an instant that 64 bits of nanoseconds can tell.
func sane(t time.Time) bool { return t.Year() > 1700 && t.Year() < 2250 }

// wait keeps a breach until it is found again. Its effects stand for the walls
// and for people, but not for detection: the lines that led to it are read
// again and must fill the buckets as they did.
func (l *Ledger) wait(e *entry, now int64) {
	l.pending[*e.ID] = append(l.pending[*e.ID], e)
	for _, b := range e.Blocks {
		k := keyOf(b.Prefix)
		l.pendingOf[k] = append(l.pendingOf[k], b)
		if until := b.Until.UnixNano(); until > now && (l.waiting[k] == nil || b.Until.After(l.waiting[k].Until)) {
			l.waiting[k] = b
			l.waits.push(until, k)
		}
	}
	for _, s := range e.Flags {
		if s.Until.After(l.flags.waiting[s.Name].Until) {
			l.flags.waiting[s.Name] = s
		}
	}
	if e.Lockdown != nil && !e.Lockdown.Until.Before(l.locking.Until) {
		l.locking = *e.Lockdown
	}
}

// found takes the breach of that name out of those that wait; nil when it is
// new.
func (l *Ledger) found(id breachID) *entry {
	es := l.pending[id]
	if len(es) == 0 {
		return nil
	}
	if l.pending[id] = es[1:]; len(es) == 1 {
		delete(l.pending, id)
	}
	return es[0]
}

// eachPending calls f with every breach that waits, in the order they came.
func (l *Ledger) eachPending(f func(*entry)) {
	var all []*entry
	for _, es := range l.pending {
		all = append(all, es...)
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, e := range all {
		f(e)
	}
}

// RecoveryDone ends recovering: call it when the logs have been read up to
// where they end now. Breaches that the log did not tell of again (lines that
// are gone, or forgiven) stand from now on like any other.
func (l *Ledger) RecoveryDone(now time.Time) []Change {
	l.out = nil
	n := now.UnixNano()
	before := map[pkey]Block{}
	for k := range l.waiting {
		if b, stands := l.standing(k, n); stands {
			before[k] = b
		}
	}
	l.eachPending(func(e *entry) { l.enter(e, n) })
	clear(l.pending)
	clear(l.pendingOf)
	clear(l.waiting)
	l.waits = nil
	clear(l.flags.waiting)
	l.locking = LockdownState{}
	l.recovering = false
	for k, b := range before {
		l.change(k, b, true, n)
	}
	var over []pkey
	for r := range l.blocks.all() {
		if r.ended && r.until+remember <= n {
			over = append(over, r.k)
		}
	}
	for _, k := range over {
		l.forget(k)
	}
	l.expireBlocks(n)
	return l.out
}
