package ledger

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"stoplog/internal/addr"
	"stoplog/internal/detect"
)

// pardonLasts is how long a prefix unblocked by hand is not widened over.
const pardonLasts = day

// episode is one bucket that runs over, again and again while it is poured.
type episode struct {
	rule  string
	level int
	key   string
}

// answer is when an episode was answered last, and until when that stands.
type answer struct{ at, until int64 }

// latest is the last instant that a log may tell of (in the year 2150): with the
// longest TTL it still fits into 64 bits of nanoseconds.
const latest = int64(180 * 365 * day)

// maxAnswered bounds the episodes remembered.
const maxAnswered = 50_000

// Breach answers a breach: it blocks, raises flags and locks down as the
// breach's answers say, and returns what is left to do. A breach that is known
// from before a restart, or that changes nothing because its answer still
// stands, gives an empty Outcome.
func (l *Ledger) Breach(b *detect.Breach, now time.Time) Outcome {
	l.out = nil
	if b.At > latest || b.At < -latest { // a log's clock gone mad
		mad := *b
		mad.At = min(max(b.At, -latest), latest)
		b = &mad
	}
	id := idOf(b)
	if e := l.found(id); e != nil {
		l.enter(e, now.UnixNano())
		return Outcome{}
	}
	l.entry = entry{Op: opBreach, Time: now.UTC(), ID: &id, Count: b.Count, Points: b.Points, Prefix: b.Prefix, Blocks: l.entry.Blocks[:0]}
	d := decision{l: l, b: b, now: now.UnixNano(), e: &l.entry}
	for _, a := range b.Answers {
		d.decide(a)
	}
	if len(b.Answers) == 0 && !b.Observe {
		d.decide(detect.Answer{})
	}
	return d.done()
}

// decision is what a breach comes to.
type decision struct {
	l    *Ledger
	b    *detect.Breach
	now  int64
	e    *entry
	out  Outcome
	left []detect.Answer
}

func (d *decision) decide(a detect.Answer) {
	switch {
	case a.Kind == detect.Observe:
	case a.Kind == detect.Notify:
		d.left = append(d.left, a)
	case d.b.Observe:
	case a.Kind == detect.Exec:
		d.left = append(d.left, a)
	case a.Kind == detect.Block:
		d.block(d.b.Prefix, a)
	case a.Kind == detect.BlockContributors:
		for _, p := range d.b.Contributors {
			d.block(p, a)
		}
	case a.Kind == detect.RaiseFlag:
		d.flag(a)
	case a.Kind == detect.Lockdown:
		d.lockdown(a)
	}
}

// block decides on one prefix, and on the network around it.
func (d *decision) block(p netip.Prefix, a detect.Answer) {
	if why := d.l.refuse(p, d.now); why != "" {
		d.l.stats.Refused++
		d.out.Refused = append(d.out.Refused, fmt.Sprintf("%s: not blocking %v: %s", d.b.Rule, p, why))
		return
	}
	p = p.Masked()
	k, at := keyOf(p), d.b.At
	r := d.l.blocks.get(k)
	n := d.l.strikes.of(k, at, d.l.o.Escalation.Decay) + 1
	stands := r != nil && r.since <= at && at < r.until
	if r != nil && at < r.until && !r.lifted && at+int64(d.ttl(int(r.strikes))) > r.since {
		n = max(int(r.strikes), 1) // within the block, or late and shortly before: the same offence
	}
	until := at + int64(d.ttl(n))
	if stands && (r.forever || until <= r.until) {
		return
	}
	blk := d.describe(p, a, until)
	if blk.Strikes = n; d.b.Multiply == 1 {
		blk.Strikes = 0 // a rule that never escalates leaves nothing behind
	}
	if d.l.pardoned(p.Addr(), at) {
		blk.Strikes, blk.Until = 0, blk.Since
	}
	if why := d.except(&blk); why != "" {
		d.l.stats.Refused++
		d.out.Refused = append(d.out.Refused, fmt.Sprintf("%s: not blocking %v: %s", d.b.Rule, p, why))
		return
	}
	d.set(k, blk)
	if blk.Strikes > 0 {
		d.widen(k, &blk)
	}
}

// set enters a block, and notes it for the journal.
func (d *decision) set(k pkey, blk Block) {
	l := d.l
	d.e.Blocks = append(d.e.Blocks, &blk)
	if l.blocks.get(k) == nil && l.waiting[k] == nil && blk.Until.UnixNano() > d.now {
		l.enterBlock(blk, d.now)
		l.out = append(l.out, Change{Set, blk, true})
		l.stats.Set++
		return
	}
	before, stood := l.standing(k, d.now)
	l.enterBlock(blk, d.now)
	l.change(k, before, stood, d.now)
}

// ttl is how long the n-th offence is blocked.
func (d *decision) ttl(n int) time.Duration {
	esc := d.l.o.Escalation
	base, multiply, most := esc.TTL, esc.Multiply, esc.Max
	if d.b.TTL > 0 {
		base = d.b.TTL
	}
	if d.b.Multiply > 0 {
		multiply = d.b.Multiply
	}
	if d.b.Max > 0 {
		most = d.b.Max
	}
	return ttl(base, multiply, most, n)
}

func (d *decision) describe(p netip.Prefix, a detect.Answer, until int64) Block {
	b := d.b
	return Block{
		Prefix: p, Rule: b.Rule, Since: time.Unix(0, b.At).UTC(), Until: time.Unix(0, until).UTC(),
		Count: b.Count, Points: b.Points, Reason: counted(b),
		Action: a.Action, Ports: a.Ports, Cut: a.Cut,
		Evidence: cleanAll(b.Evidence), Partial: b.Partial, Source: b.Source, Line: b.Line,
		Key: clean(b.Key, 200), Service: b.Service, User: clean(b.User, 200), Level: b.Level,
	}
}

// counted says what breached: "2 failures, 6 points, by 192.0.2.0/28".
func counted(b *detect.Breach) string {
	s := b.Counted() + " by " + clean(b.Key, 200)
	if len(b.Nodes) > 0 {
		s += clean(", by fleet: "+strings.Join(b.Nodes, ", "), 500)
	}
	return s
}

// flag raises a flag. While the attack goes on it is prolonged in steps, so
// that not every event of a flood is written down.
func (d *decision) flag(a detect.Answer) {
	if !flagName(a.Flag) || len(d.l.flags.by) >= maxFlags && d.l.flags.by[a.Flag] == nil {
		d.l.stats.Refused++
		d.out.Refused = append(d.out.Refused, fmt.Sprintf("%s: not raising flag %q", d.b.Rule, a.Flag))
		return
	}
	until := d.b.At + int64(min(a.For, maxTTL))
	if d.l.flags.up(a.Flag, d.b.At) && d.l.flags.up(a.Flag, until-int64(a.For)/16) {
		return
	}
	s := FlagState{Name: a.Flag, Since: time.Unix(0, d.b.At).UTC(), Until: time.Unix(0, until).UTC(), Rule: d.b.Rule,
		Reason: counted(d.b)}
	d.e.Flags = append(d.e.Flags, s)
	d.l.flags.raise(s)
	d.l.store.health("flags", d.l.flags.write(s.Name, d.now))
}

func (d *decision) lockdown(a detect.Answer) {
	s := LockdownState{Ports: a.Ports, Services: d.b.Services, Since: time.Unix(0, d.b.At).UTC(), Until: time.Unix(0, d.b.At+int64(min(a.For, maxTTL))).UTC(), Rule: d.b.Rule}
	wider := d.join(&s)
	if !wider && s.Until.Sub(d.l.lockdown.Until) < a.For/16 {
		return
	}
	d.e.Lockdown = &s
	d.l.lockdown = s
	d.out.Policy = d.out.Policy || s.Until.UnixNano() > d.now
}

// join adds to a lockdown the ports of the one that stands, for there is one
// for all rules; it holds as long as the longer of the two. It reports whether
// ports came to those that are shut.
func (d *decision) join(s *LockdownState) (wider bool) {
	old := d.l.Lockdown()
	if s.Since.Before(old.Since) || !s.Since.Before(old.Until) {
		return false
	}
	if old.Until.After(s.Until) {
		s.Until = old.Until
	}
	if len(old.Services) == 0 || len(s.Services) == 0 {
		s.Services = nil
	} else {
		s.Services = union(old.Services, s.Services)
	}
	if len(old.Ports) == 0 || len(s.Ports) == 0 {
		s.Ports = nil
		return len(old.Ports) > 0
	}
	s.Ports = union(old.Ports, s.Ports)
	return len(s.Ports) > len(old.Ports)
}

// union is a and what of b is not in it.
func union[T comparable](a, b []T) []T {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// done writes down what was decided. Of a bucket that runs over again and
// again the first breach is told, and then what it adds.
func (d *decision) done() Outcome {
	b, e := d.b, d.e
	ep, stands := episode{b.Rule, b.Level, b.Key}, d.b.At
	for _, blk := range e.Blocks {
		stands = max(stands, blk.Until.UnixNano())
	}
	for _, s := range e.Flags {
		stands = max(stands, s.Until.UnixNano())
	}
	if e.Lockdown != nil {
		stands = max(stands, e.Lockdown.Until.UnixNano())
	}
	effects := len(e.Blocks)+len(e.Flags) > 0 || e.Lockdown != nil
	if !effects && b.Points > 1 {
		stands = b.At + int64(d.ttl(1)) // only told: as long as it would have been blocked
	}
	last, known := d.l.answered[ep]
	again := known && last.at-remember <= b.At && b.At < last.until
	if again && !effects {
		return Outcome{Refused: d.out.Refused}
	}
	e.Tells = stands
	d.l.told(ep, answer{b.At, stands})
	d.l.append(e, false)
	d.out.Changes, d.out.Flags, d.out.Lockdown = d.l.out, e.Flags, e.Lockdown
	if !again {
		d.out.Answers, d.out.Fresh = d.left, true
	}
	return d.out
}

// told notes that an episode is answered.
func (l *Ledger) told(ep episode, a answer) {
	if a.until <= a.at {
		return
	}
	if old, known := l.answered[ep]; known {
		a.until = max(a.until, old.until)
	} else if len(l.answered) >= maxAnswered {
		clear(l.answered) // the worst of it: some are told twice
	}
	l.answered[ep] = a
}

// refuse returns why p is never blocked; "" when it may be.
func (l *Ledger) refuse(p netip.Prefix, now int64) string {
	switch {
	case !p.IsValid():
		return "not an address"
	case p.Addr().Is4In6():
		return "it is an IPv4-mapped address"
	case l.o.tooWide(p):
		return "wider than the floor"
	case l.allow.whole(p, now):
		return "it is allowed"
	}
	return addr.Never(p)
}

// enterBlock adopts a rule's block and its strike. Of one that is over already
// the walls never hear.
func (l *Ledger) enterBlock(b Block, now int64) {
	old := l.blocks.get(keyOf(b.Prefix))
	lifted := old == nil || old.ended
	l.adopt(b)
	if r := l.blocks.get(keyOf(b.Prefix)); lifted && r.until <= now {
		r.ended = true
		l.moved(r, false)
	}
	if b.Strikes > 0 {
		l.strikes.set(keyOf(b.Prefix), b.Strikes, b.Until.UnixNano())
	}
}

// enter carries out what a breach came to before the restart, silently: the
// walls, the trail and people know.
func (l *Ledger) enter(e *entry, now int64) {
	for _, b := range e.Blocks {
		l.enterBlock(*b, now)
	}
	for _, s := range e.Flags {
		l.flags.raise(s)
	}
	if e.Lockdown != nil && !e.Lockdown.Until.Before(l.lockdown.Until) {
		l.lockdown = *e.Lockdown
	}
	if e.ID != nil {
		l.told(episode{e.ID.Rule, e.ID.Level, e.ID.Key}, answer{e.ID.At, e.Tells})
	}
}
