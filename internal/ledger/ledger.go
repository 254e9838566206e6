package ledger

import (
	"net/netip"
	"time"

	"stoplog/internal/addr"
	"stoplog/internal/detect"
)

// Ledger holds the blocks, the allowlist, logins, strikes and flags, and
// their state on disk. It is not safe for concurrent use: one goroutine owns
// it, or the caller holds a lock around every call. No method waits for
// anything but the disk, and none looks at a clock: now is the wall clock,
// at is the log's time in Unix nanoseconds.
type Ledger struct {
	o Options

	blocks    records
	lengths   lengths // of the prefixes in blocks
	ends      agenda[*record]
	waits     agenda[pkey]      // likewise of waiting
	victims   victims           // nil until there are too many
	members   map[pkey]*record  // the first of the prefixes of each network that may be widened to
	excepting map[pkey]struct{} // the blocks that have exceptions

	allow    allowlist
	known    known
	strikes  strikes
	forgiven map[pkey]int64 // lines of up to then are not counted
	pardons  lengths        // of the prefixes in forgiven
	flags    flags
	lockdown LockdownState
	answered map[episode]answer

	// While recovering: what the journal holds and the log has not told again.
	recovering bool
	pending    map[breachID][]*entry
	pendingOf  map[pkey][]*Block // the blocks of pending
	waiting    map[pkey]*Block   // of those the one that lasts longest, for the walls
	locking    LockdownState     // likewise a lockdown

	evidence evidence
	store    *store // nil: nothing is kept on disk
	out      []Change
	past     bool   // no wall waits for what expires
	common   common // of the block before
	entry    entry  // of the breach that is being answered
	stats    Stats
}

// newLedger makes an empty one that keeps nothing on disk.
func newLedger(o Options) *Ledger {
	l := &Ledger{
		forgiven: map[pkey]int64{},
		answered: map[episode]answer{},
		members:  map[pkey]*record{},
		pending:  map[breachID][]*entry{}, pendingOf: map[pkey][]*Block{}, waiting: map[pkey]*Block{},
		excepting:  map[pkey]struct{}{},
		recovering: true,
	}
	l.allow.hand = map[pkey][]allowed{}
	l.known.by = map[[16]byte][]login{}
	l.strikes.by = map[pkey]strike{}
	l.flags = flags{by: map[string][]FlagState{}, waiting: map[string]FlagState{}, dir: o.FlagsDir}
	l.use(o)
	return l
}

// use takes over options, which are filled.
func (l *Ledger) use(o Options) {
	l.o = o
	l.allow.configured = minimal(o.Allow)
	l.allow.rebuild()
	l.known.max, l.known.lasts = o.MaxKnown, int64(max(o.KnownGood, 0))
	l.strikes.max = o.MaxStrikes
	l.evidence.max = o.MaxEvidence
}

// Verdict judges an event's source at the event time. It implements
// detect.Gate, as KnownAddr and Flag do. An IPv6 address that stands for an
// IPv4 client is judged as that client; the allowlist may hold either.
func (l *Ledger) Verdict(from netip.Addr, service string, user []byte, at int64) detect.Verdict {
	a := addr.Of(from)
	switch {
	case !a.IsValid():
		return detect.Stranger
	case l.allow.judges(a, at) || a != from && l.allow.judges(from, at) || l.pardoned(a, at):
		return detect.Allowed
	case l.blocked(a, service, at):
		return detect.Blocked
	case user != nil && l.known.good(a, service, user, at):
		return detect.KnownGood
	}
	return detect.Stranger
}

// blocked reports whether a block stood at an event's time.
func (l *Ledger) blocked(addr netip.Addr, service string, at int64) bool {
	return l.holding(addr, service, at) != nil
}

// holding is the block that stood at an event's time, nil when there was none.
func (l *Ledger) holding(addr netip.Addr, service string, at int64) *record {
	for _, n := range l.lengths.of(addr) {
		if r := l.blocks.get(keyAt(addr, n)); r != nil && r.covers(at, service) && !r.excepts(addr) {
			return r
		}
	}
	return nil
}

// BlockedBy returns the rule and the prefix of the block that stopped an event
// of addr; false when none did.
func (l *Ledger) BlockedBy(from netip.Addr, service string, at int64) (rule string, p netip.Prefix, ok bool) {
	if !from.IsValid() {
		return "", p, false
	}
	r := l.holding(addr.Of(from), service, at)
	if r == nil {
		return "", p, false
	}
	return r.about.Value().rule, r.prefix(), true
}

// pardoned reports whether an unblock by hand came after the event.
func (l *Ledger) pardoned(addr netip.Addr, at int64) bool {
	for _, n := range l.pardons.of(addr) {
		if at <= l.forgiven[keyAt(addr, n)] {
			return true
		}
	}
	return false
}

// pardon forgives the lines of k of up to an instant.
func (l *Ledger) pardon(k pkey, until int64) {
	if _, found := l.forgiven[k]; !found {
		l.pardons.add(k)
	}
	l.forgiven[k] = max(l.forgiven[k], until)
}

// KnownAddr reports whether somebody logged in from addr to service lately.
func (l *Ledger) KnownAddr(from netip.Addr, service string, at int64) bool {
	return from.IsValid() && l.known.good(addr.Of(from), service, nil, at)
}

// Struck returns when the last block that gave p its strikes ended or will end;
// false when none is left at the instant at.
func (l *Ledger) Struck(p netip.Prefix, at int64) (ended int64, ok bool) {
	if len(l.strikes.by) == 0 {
		return 0, false
	}
	st := l.strikes.by[keyOf(p.Masked())]
	return st.last, st.left(at, l.o.Escalation.Decay) > 0
}

// Flag reports whether the named flag was up at the event time.
func (l *Ledger) Flag(name string, at int64) bool { return l.flags.up(name, at) }

// Login remembers that user logged in to service from addr; verified, that no
// local user can have forged the line. It forgives the strikes of a prefix whose
// last block ended less than a day before, and reports whether this login was not
// known-good before.
func (l *Ledger) Login(service string, user []byte, from netip.Addr, at int64, verified bool) bool {
	from = addr.Of(from)
	l.strikes.forgive(from, at)
	return l.known.add(service, user, from, at, verified)
}

// KnownAddrs lists the addresses from which verified logins to one of the
// services, or to any if none is named, came lately, at most 10,000, the latest
// first.
func (l *Ledger) KnownAddrs(now time.Time, services ...string) []netip.Addr {
	return l.known.addrs(services, now.UnixNano(), 10_000)
}

// AllowedPrefixes lists all that is exempt now: configured, protected and by
// hand, and the exceptions of blocks of networks, sorted and without those
// within others, for the walls and exports.
func (l *Ledger) AllowedPrefixes(now time.Time) []netip.Prefix {
	n := now.UnixNano()
	all := l.allow.standing(n)
	if in := l.excepted(n); len(in) > 0 {
		return minimal(append(all, in...))
	}
	return all
}

// Allowances lists the allowances by hand, sorted by prefix.
func (l *Ledger) Allowances(now time.Time) []Allowance { return l.allow.list(now.UnixNano(), false) }

// Expire ends what has ended by now, renews leases, and retries what the disk
// refused. Lifts are for walls that cannot expire by themselves.
func (l *Ledger) Expire(now time.Time) []Change {
	l.out = nil
	n := now.UnixNano()
	l.expireBlocks(n)
	l.store.retry()
	l.store.health("flags", l.flags.expire(n, l.recovering))
	if !l.recovering {
		l.prune(n)
	}
	return l.out
}

// Pass is Expire in a replay, where no wall waits for the lifts.
func (l *Ledger) Pass(now time.Time) {
	l.past = true
	l.Expire(now)
	l.past = false
}

// prune forgets what can no longer matter.
func (l *Ledger) prune(now int64) {
	l.allow.prune(now - remember)
	for k, until := range l.forgiven {
		if until < now-int64(pardonLasts) {
			delete(l.forgiven, k)
			l.pardons.remove(k)
		}
	}
	for e, a := range l.answered {
		if a.until < now-remember {
			delete(l.answered, e)
		}
	}
}

// NextExpiry is when Expire has something to do; zero: nothing is waiting.
func (l *Ledger) NextExpiry() time.Time {
	next := l.flags.next()
	if end := min(l.ends.next(), l.waits.next()); end != never && (next == 0 || end < next) {
		next = end
	}
	if next == 0 {
		return time.Time{}
	}
	return time.Unix(0, next).UTC()
}

// Stats gives counts and sizes.
func (l *Ledger) Stats() Stats {
	s := l.stats
	for r := range l.blocks.all() {
		if r.ended {
			s.Ended++
		}
	}
	s.Blocks, s.Pending = l.blocks.len()-s.Ended, len(l.waiting)
	s.Known, s.Strikes, s.Allowed = l.known.n, len(l.strikes.by), len(l.allow.hand)
	s.KnownEvicted, s.StrikesEvicted = l.known.evicted, l.strikes.evicted
	s.Journal = l.store.journalBytes()
	return s
}

// evidence bounds the lines that blocks carry in memory: over max those of the
// oldest blocks are dropped. The audit trail keeps them.
type evidence struct {
	max, bytes int
	queue      []held
}

type held struct {
	k     pkey
	since int64
	bytes int
}

func (l *Ledger) keepEvidence(k pkey, r *record) {
	e, n := &l.evidence, 0
	if r.more != nil {
		for _, line := range r.more.evidence {
			n += len(line) + 16
		}
	}
	if n == 0 {
		return
	}
	e.queue = append(e.queue, held{k, r.since, n})
	for e.bytes += n; e.bytes > e.max && len(e.queue) > 0; e.queue = e.queue[1:] {
		old := e.queue[0]
		e.bytes -= old.bytes
		if o := l.blocks.get(old.k); o != nil && o.since == old.since {
			o.partial = true
			if m := o.more; m != nil {
				o.keep(more{key: m.key, except: m.except, past: m.past, spans: m.spans})
			}
		}
	}
}
