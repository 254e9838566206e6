package fleet

import (
	"cmp"
	"crypto/ed25519"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"
)

// Shared describes a level of a local rule that counts together with the
// levels of other nodes that have the same meaning.
type Shared struct {
	Rule     string
	Index    int // of the rule's level
	Capacity int
	Leak     time.Duration // of a bucket; 0 of a distinct window
	// Bits4 and Bits6 are the lengths of the prefixes that the level counts by;
	// no node's word covers more.
	Bits4, Bits6 int
	// TTL is for how long a decision stands: none is made about the same prefix
	// before.
	TTL time.Duration
}

// Share is the part of one node in a decision.
type Share struct {
	Node   string `json:"node"`
	Points int    `json:"points"` // as counted, at most the cap
	Line   uint32 `json:"line"`   // hash of the last line
	At     int64  `json:"at"`     // Unix nanoseconds
}

// Decision says that a prefix is to be blocked, and which nodes' words fill
// the fleet's bucket.
type Decision struct {
	Shared Shared
	Prefix netip.Prefix
	At     int64 // of the statement that decided, Unix nanoseconds
	Points int
	Most   int     // of one node that count
	Shares []Share // the largest first
}

// Limits bound what one node's word can do. Zero fields mean the defaults.
type Limits struct {
	Quorum  int // nodes that must contribute; default 2
	Cap     int // points of one node that count; default (capacity + 1) / quorum, rounded up
	Live    int // keys of one node that are remembered; default 50,000
	PerMin  int // new keys of one node a minute; default 1,200
	Orders  int // live orders of the fleet; default 10,000
	Ahead   time.Duration
	Longest time.Duration // how long an unblock voids what was said before; default 30 days
}

func (l Limits) filled() Limits {
	l.Quorum = max(cmp.Or(l.Quorum, 2), 1)
	l.Live = cmp.Or(l.Live, 50_000)
	l.PerMin = cmp.Or(l.PerMin, 1200)
	l.Orders = cmp.Or(l.Orders, 10_000)
	l.Ahead = cmp.Or(l.Ahead, 10*time.Second)
	l.Longest = cmp.Or(l.Longest, 30*24*time.Hour)
	return l
}

// State merges what nodes said. The result does not depend on the order in
// which entries arrive, nor on how often. It is not safe for concurrent use and
// looks at no clock.
type State struct {
	fleet  ID
	admin  ed25519.PublicKey
	limits Limits
	shared map[Meaning]Shared
	keys   map[key]*counted
	nodes  map[string]*said
	voids  map[netip.Prefix]int64 // instants of unblocks
	orders map[orderKey]Order
}

// key is what is counted together.
type key struct {
	meaning Meaning
	prefix  netip.Prefix
}

// counted are the nodes' words about one key.
type counted struct {
	by      map[string]word
	decided int64 // no decision before this instant
}

// word is the last that a node said about a key. Its values are those of a
// distinct count, nil otherwise.
type word struct {
	version   Version
	at, empty int64
	line      uint32
	values    []uint64
}

// said is what is kept of a node.
type said struct {
	live    int // keys
	minute  int64
	newKeys int // in that minute
	rules   map[Meaning]string
	Stats   NodeStats
}

// NodeStats count what a node said.
type NodeStats struct {
	Entries, Statements uint64
	Refused             uint64 // statements
	Why                 string // the last was refused
	Unshared            uint64 // of rules that mean something else here
}

// NewState returns a state of that fleet in which nobody said anything. admin is
// the administrator's public key.
func NewState(fleet ID, admin ed25519.PublicKey, l Limits) *State {
	return &State{fleet: fleet, admin: admin, limits: l.filled(), shared: map[Meaning]Shared{}, keys: map[key]*counted{},
		nodes: map[string]*said{}, voids: map[netip.Prefix]int64{}, orders: map[orderKey]Order{}}
}

// SetShared replaces the levels that this node shares. What was said about
// others is dropped.
func (s *State) SetShared(m map[Meaning]Shared) {
	s.shared = maps.Clone(m)
	for k, c := range s.keys {
		if _, ok := s.shared[k.meaning]; !ok {
			s.drop(k, c)
		}
	}
}

// SetLimits replaces the limits.
func (s *State) SetLimits(l Limits) { s.limits = l.filled() }

// Result is what an entry led to.
type Result struct {
	Decisions []Decision
	Orders    []Order // new ones
}

// Apply merges an entry that arrived when the engine's clock showed now. own
// says that it is this node's, whose word has no limit.
func (s *State) Apply(e *Entry, now int64, own bool) (r Result) {
	n := s.node(e.Node)
	n.Stats.Entries++
	n.Stats.Statements += uint64(e.Len())
	if ahead := now + int64(s.limits.Ahead); e.Made > ahead {
		n.refuse(e.Len(), "made in the future")
		return r
	}
	for _, x := range e.Rules {
		if len(n.rules) < 1024 || n.rules[x.Meaning] != "" {
			n.rules[x.Meaning] = x.Name
		}
	}
	// Unblocks come first: they void the levels of the same entry that are older.
	for i := range e.Orders {
		o := &e.Orders[i]
		if o.At > now+int64(s.limits.Ahead) {
			n.refuse(1, "an order of the future")
		} else if err := s.order(o, now, own, &r); err != nil {
			n.refuse(len(e.Orders)-i, err.Error()) // an honest node sends none of these
			break
		}
	}
	for i := range e.Levels {
		l := &e.Levels[i]
		s.put(e, key{l.Meaning, l.Prefix}, word{version: e.Version, at: l.At, empty: l.Empty, line: l.Line}, now, own, &r)
	}
	for i := range e.Distincts {
		d := &e.Distincts[i]
		s.put(e, key{d.Meaning, d.Prefix}, word{version: e.Version, at: d.At, empty: d.Until, values: d.Values}, now, own, &r)
	}
	return r
}

func (s *State) node(name string) *said {
	n := s.nodes[name]
	if n == nil {
		n = &said{rules: map[Meaning]string{}}
		s.nodes[name] = n
	}
	return n
}

func (n *said) refuse(statements int, why string) {
	n.Stats.Refused += uint64(statements)
	n.Stats.Why = why
}

// put merges one word.
func (s *State) put(e *Entry, k key, w word, now int64, own bool, r *Result) {
	n := s.node(e.Node)
	sh, ok := s.shared[k.meaning]
	if !ok {
		n.Stats.Unshared++
		return
	}
	if why := s.wrong(sh, k, w, now); why != "" {
		n.refuse(1, why)
		return
	}
	if w.at <= s.void(k.prefix) {
		return
	}
	c := s.keys[k]
	if c == nil || c.by[e.Node].version == (Version{}) {
		if w.ends(sh) <= now-int64(s.limits.Longest) { // nothing to remember
			return
		}
		if !own && !n.room(s.limits, now) {
			n.refuse(1, "too many prefixes")
			return
		}
		if c == nil {
			c = &counted{by: map[string]word{}}
			s.keys[k] = c
		}
		n.live++
	} else if !c.by[e.Node].version.Less(w.version) {
		return // repeated, or overtaken
	}
	c.by[e.Node] = w
	if d, ok := s.decide(sh, k, c); ok {
		r.Decisions = append(r.Decisions, d)
	}
}

// wrong says why a word cannot be true.
func (s *State) wrong(sh Shared, k key, w word, now int64) string {
	bits := sh.Bits6
	if k.prefix.Addr().Is4() {
		bits = sh.Bits4
	}
	switch {
	case k.prefix.Bits() < bits:
		return "a prefix wider than the rule's"
	case w.at > now+int64(s.limits.Ahead):
		return "an event in the future"
	case (sh.Leak > 0) != (w.values == nil):
		return "a count of another kind"
	case sh.Leak > 0 && w.empty-w.at > span(sh):
		return "a level that no bucket can have"
	case sh.Leak == 0 && w.empty-w.at > int64(s.limits.Longest):
		return "a window that is too long"
	}
	return ""
}

// span is how long the fullest bucket takes to drain. Buckets of rules that only
// observe go over their capacity, by one pour.
func span(sh Shared) int64 {
	n := int64(sh.Capacity) + 1001
	if int64(sh.Leak) > math.MaxInt64/n {
		return math.MaxInt64
	}
	return int64(sh.Leak) * n
}

// room reports whether the node may speak of one more key.
func (n *said) room(l Limits, now int64) bool {
	if n.live >= l.Live {
		return false
	}
	if m := now / int64(time.Minute); m != n.minute {
		n.minute, n.newKeys = m, 0
	}
	n.newKeys++
	return n.newKeys <= l.PerMin
}

// points is what a word weighs at an instant.
func (w *word) points(sh Shared, at int64) int {
	if w.empty <= at {
		return 0
	}
	if sh.Leak == 0 {
		return len(w.values)
	}
	return int((w.empty - at + int64(sh.Leak) - 1) / int64(sh.Leak))
}

// ends is until when a word is kept: while it holds something, and as long as an
// earlier one that comes late could.
func (w *word) ends(sh Shared) int64 {
	return max(w.empty, w.at+int64(sh.Capacity+1)*int64(sh.Leak))
}

// most is how much of one node counts.
func (s *State) most(sh Shared) int {
	return max(cmp.Or(s.limits.Cap, (sh.Capacity+s.limits.Quorum)/s.limits.Quorum), 1)
}

// decide adds up what the nodes say about k, at the instant of the latest event
// that one of them saw: so the order of arrival does not matter.
func (s *State) decide(sh Shared, k key, c *counted) (Decision, bool) {
	at := int64(math.MinInt64)
	for _, w := range c.by {
		at = max(at, w.at)
	}
	if at < c.decided || len(c.by) < s.limits.Quorum {
		return Decision{}, false
	}
	most := s.most(sh)
	d := Decision{Shared: sh, Prefix: k.prefix, At: at, Most: most}
	different := map[uint64]bool{}
	for node, w := range c.by {
		n := min(w.points(sh, at), most)
		if n == 0 {
			continue
		}
		d.Shares = append(d.Shares, Share{Node: node, Points: n, Line: w.line, At: w.at})
		d.Points += n
		for _, v := range w.values[:min(len(w.values), n)] {
			different[v] = true
		}
	}
	if sh.Leak == 0 {
		d.Points = len(different)
	}
	if len(d.Shares) < s.limits.Quorum || d.Points <= sh.Capacity {
		return Decision{}, false
	}
	slices.SortFunc(d.Shares, func(a, b Share) int { return cmp.Or(b.Points-a.Points, cmp.Compare(a.Node, b.Node)) })
	c.decided = at + int64(sh.TTL)
	return d, true
}

// void is the instant of the last unblock that covers p.
func (s *State) void(p netip.Prefix) int64 {
	at := int64(math.MinInt64)
	if len(s.voids) == 0 {
		return at
	}
	for q, t := range s.voids {
		if q.Overlaps(p) {
			at = max(at, t)
		}
	}
	return at
}

// order merges an order given by hand. The latest about its object counts,
// whichever node brings it. The error is of its signatures.
func (s *State) order(o *Order, now int64, own bool, r *Result) error {
	k := o.key()
	old, known := s.orders[k]
	news := (!known || old.At < o.At) && (known || len(s.orders) < s.limits.Orders)
	// An unblock voids what was said before it even if a later order came first.
	voids := o.Kind == Unblock && o.At > s.voids[o.Prefix] && len(s.voids) < s.limits.Orders
	if !news && !voids || o.ended(now, s.limits.Longest) {
		return nil // before its signatures, which take long to verify
	}
	if err := o.Verify(s.fleet, s.admin); err != nil {
		return err
	}
	if voids {
		s.unblock(o.Prefix, o.At)
	}
	if !news {
		return nil
	}
	s.orders[k] = *o
	if o.Kind == Block && o.At <= s.void(o.Prefix) {
		return nil
	}
	if !own {
		r.Orders = append(r.Orders, *o)
	}
	return nil
}

// Void forgets, on this node only, what was said about p up to an instant: it was
// unblocked here.
func (s *State) Void(p netip.Prefix, at int64) { s.unblock(p, at) }

// unblock voids every word up to an instant about prefixes that overlap p.
func (s *State) unblock(p netip.Prefix, at int64) {
	s.voids[p] = max(s.voids[p], at)
	for k, c := range s.keys {
		if !p.Overlaps(k.prefix) {
			continue
		}
		c.decided = 0
		for node, w := range c.by {
			if w.at <= at {
				s.forget(k, c, node)
			}
		}
	}
}

// forget drops a node's word about k.
func (s *State) forget(k key, c *counted, node string) {
	delete(c.by, node)
	s.nodes[node].live--
	if len(c.by) == 0 {
		delete(s.keys, k)
	}
}

func (s *State) drop(k key, c *counted) {
	for node := range c.by {
		s.forget(k, c, node)
	}
}

// Forget drops all that a node said: it was revoked.
func (s *State) Forget(node string) {
	for k, c := range s.keys {
		if _, ok := c.by[node]; ok {
			s.forget(k, c, node)
		}
	}
	delete(s.nodes, node)
}

// Sweep drops what had drained by now, orders that are over, and unblocks that
// are older than the longest time to void.
func (s *State) Sweep(now int64) {
	for k, c := range s.keys {
		sh := s.shared[k.meaning]
		for node, w := range c.by {
			if w.ends(sh) <= now {
				s.forget(k, c, node)
			}
		}
	}
	old := now - int64(s.limits.Longest)
	for p, at := range s.voids {
		if at < old {
			delete(s.voids, p)
		}
	}
	for k, o := range s.orders {
		if o.ended(now, s.limits.Longest) {
			delete(s.orders, k)
		}
	}
}

// Own lists what the node of that name said and still holds, to say it again,
// and all orders: any node may repeat what an operator signed.
func (s *State) Own(name string, now int64) (ls []Level, ds []Distinct, os []Order) {
	for k, c := range s.keys {
		w, ok := c.by[name]
		if !ok || w.empty <= now {
			continue
		}
		if w.values != nil {
			ds = append(ds, Distinct{Meaning: k.meaning, Prefix: k.prefix, At: w.at, Until: w.empty, Values: w.values})
		} else {
			ls = append(ls, Level{Meaning: k.meaning, Prefix: k.prefix, At: w.at, Empty: w.empty, Line: w.line})
		}
	}
	for _, o := range s.orders {
		os = append(os, o)
	}
	return ls, ds, os
}

// About lists what nodes say about the prefixes that overlap p, for explain.
func (s *State) About(p netip.Prefix, at int64) (out []Decision) {
	for k, c := range s.keys {
		if !k.prefix.Overlaps(p) {
			continue
		}
		sh := s.shared[k.meaning]
		d := Decision{Shared: sh, Prefix: k.prefix, At: at, Most: s.most(sh)}
		for node, w := range c.by {
			if n := min(w.points(sh, at), s.most(sh)); n > 0 {
				d.Shares = append(d.Shares, Share{Node: node, Points: n, Line: w.line, At: w.at})
				d.Points += n
			}
		}
		if len(d.Shares) > 0 {
			slices.SortFunc(d.Shares, func(a, b Share) int { return cmp.Or(b.Points-a.Points, cmp.Compare(a.Node, b.Node)) })
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Decision) int {
		return cmp.Or(cmp.Compare(a.Shared.Rule, b.Shared.Rule), a.Shared.Index-b.Shared.Index, a.Prefix.Addr().Compare(b.Prefix.Addr()))
	})
	return out
}

// Keys is how many prefixes some node speaks of.
func (s *State) Keys() int { return len(s.keys) }

// Stats returns what a node said, how many keys of it are live, and the names of
// the rules that mean something else here, sorted.
func (s *State) Stats(node string) (st NodeStats, live int, differ []string) {
	n := s.nodes[node]
	if n == nil {
		return st, 0, nil
	}
	for m, name := range n.rules {
		if _, ok := s.shared[m]; !ok && !slices.Contains(differ, name) {
			differ = append(differ, name)
		}
	}
	slices.Sort(differ)
	return n.Stats, n.live, differ
}
