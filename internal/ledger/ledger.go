package ledger

import (
	"net/netip"
	"time"

	"stoplog/internal/detect"
)

// Ledger holds the blocks, the allowlist, logins, strikes and flags, and
// their state on disk. It is not safe for concurrent use: one goroutine owns
// it, or the caller holds a lock around every call. No method waits for
// anything but the disk, and none looks at a clock: now is the wall clock,
// at is the log's time in Unix nanoseconds.
type Ledger struct {
	o Options

	blocks  map[pkey]*record
	roster  roster  // of blocks
	lengths lengths // of the prefixes in blocks
	ends    ends
	members map[pkey]map[pkey]struct{} // prefixes by the network they may widen to

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
	stats    Stats
}

// newLedger makes an empty one that keeps nothing on disk.
func newLedger(o Options) *Ledger {
	l := &Ledger{
		blocks:   map[pkey]*record{},
		forgiven: map[pkey]int64{},
		answered: map[episode]answer{},
		members:  map[pkey]map[pkey]struct{}{},
		pending:  map[breachID][]*entry{}, pendingOf: map[pkey][]*Block{}, waiting: map[pkey]*Block{},
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
// detect.Gate, as KnownAddr and Flag do.
func (l *Ledger) Verdict(addr netip.Addr, service string, user []byte, at int64) detect.Verdict {
	switch {
	case !addr.IsValid():
		return detect.Stranger
	case l.allow.judges(addr, at) || l.pardoned(addr, at):
		return detect.Allowed
	case l.blocked(addr, service, at):
		return detect.Blocked
	case user != nil && l.known.good(addr, service, user, at):
		return detect.KnownGood
	}
	return detect.Stranger
}

// Look notes that Verdict is asked about addr soon, and Fetch has what it then
// needs in the processor's cache: over many addresses the waits for memory
// overlap. Neither changes an answer.
func (l *Ledger) Look(addr netip.Addr) {
	for _, n := range l.lengths.of(addr) {
		l.roster.look(keyAt(addr, n))
	}
}

// Fetch is for what was noted since it was called last.
func (l *Ledger) Fetch() { l.roster.fetch() }

// blocked reports whether a block stood at an event's time.
func (l *Ledger) blocked(addr netip.Addr, service string, at int64) bool {
	for _, n := range l.lengths.of(addr) {
		if r := l.roster.find(keyAt(addr, n)); r != nil && r.covers(at, service) {
			return true
		}
	}
	return false
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
func (l *Ledger) KnownAddr(addr netip.Addr, service string, at int64) bool {
	return addr.IsValid() && l.known.good(addr, service, nil, at)
}

// Flag reports whether the named flag was up at the event time.
func (l *Ledger) Flag(name string, at int64) bool { return l.flags.up(name, at) }

// Login remembers that user logged in to service from addr. Call it only for
// lines that no local user can forge. It reports whether this login was not
// known-good before.
func (l *Ledger) Login(service string, user []byte, addr netip.Addr, at int64) bool {
	return l.known.add(service, user, addr, at)
}

// KnownAddrs lists the addresses from which somebody logged in lately, at most
// 10,000, the latest first: those that a lockdown lets in.
func (l *Ledger) KnownAddrs(now time.Time) []netip.Addr { return l.known.addrs(now.UnixNano(), 10_000) }

// AllowedPrefixes lists all that is exempt now: configured, protected and by
// hand, sorted and without those within others, for the walls and exports.
func (l *Ledger) AllowedPrefixes(now time.Time) []netip.Prefix {
	return l.allow.standing(now.UnixNano())
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
	if len(l.ends) > 0 && (next == 0 || l.ends[0].at < next) {
		next = l.ends[0].at
	}
	if next == 0 {
		return time.Time{}
	}
	return time.Unix(0, next).UTC()
}

// Stats gives counts and sizes.
func (l *Ledger) Stats() Stats {
	s := l.stats
	for _, r := range l.blocks {
		if r.ended {
			s.Ended++
		}
	}
	s.Blocks, s.Pending = len(l.blocks)-s.Ended, len(l.waiting)
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
	for _, line := range r.Evidence {
		n += len(line) + 16
	}
	if n == 0 {
		return
	}
	e.queue = append(e.queue, held{k, r.since, n})
	for e.bytes += n; e.bytes > e.max && len(e.queue) > 0; e.queue = e.queue[1:] {
		old := e.queue[0]
		e.bytes -= old.bytes
		if o := l.blocks[old.k]; o != nil && o.since == old.since {
			o.Evidence, o.Partial = nil, true
		}
	}
}
