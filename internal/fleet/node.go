package fleet

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// How often a node does what no event asks for. Each is varied by a fifth, so
// that a fleet does not speak all at once.
const (
	assertEvery   = 10 * time.Minute // says again all that it holds
	announceEvery = time.Minute
	clockEvery    = 30 * time.Second
	checkEvery    = 10 * time.Second // whether the engine still has what was sent
	sweepEvery    = 30 * time.Second
	newsEvery     = 200 * time.Millisecond
	retryMost     = 5 * time.Second
	retryLeast    = 50 * time.Millisecond
)

// maxOutbox bounds the keys that wait for the engine; each waits once, with its
// last value.
const maxOutbox = 200_000

// Options are what a node is made of.
type Options struct {
	Member *Member
	Limits Limits
	// Cache holds the certificates and revocations seen before, as Node.Cache
	// wrote them; nil at the first start.
	Cache []byte
	// Save keeps what Cache returned; it may wait for the disk.
	Save func([]byte) error
	// Dial connects to the engine. It may wait.
	Dial func() (Carrier, error)
	// Decided and Ordered are called, one at a time, when the fleet decides or an
	// operator orders something. Instants in them are of this machine's clock.
	// They may wait.
	Decided func(context.Context, Decision)
	Ordered func(context.Context, Order)
	Log     *slog.Logger
	Now     func() time.Time // nil: time.Now
}

// Node is this machine in its fleet. Put, Void, Order and SetShared never wait for
// the network: what they leave is sent by Run.
type Node struct {
	o    Options
	key  ed25519.PrivateKey
	name string
	wake chan struct{} // holds one: something is to be sent

	mu      sync.Mutex
	state   *State
	offset  time.Duration // the engine's clock is ahead by this
	clocked bool          // the offset was measured
	seq     uint64
	dirty   map[key]struct{}
	orders  []Order // to be sent
	rules   []Rule  // to be sent
	own     []Rule
	dropped uint64 // keys that found no room in the outbox

	certs   map[string]Certificate
	revoked map[string]Revocation
	peers   map[string]*peer

	connected time.Time // zero: not connected
	err       string    // why not
	errSince  time.Time
	place     string // of the last entry sent
	snapshot  string // of the first entry of the last full assertion
	before    string // and of the one before
	sent      uint64
	refused   map[string]uint64 // entries by reason
	decisions uint64
	queue     []func(context.Context)
	queued    chan struct{}
}

// peer is what is known of another node's stream.
type peer struct {
	at   int64         // the engine's time of its last entry
	skew time.Duration // what its stamp was ahead of the engine
	lag  time.Duration // from the engine to us
}

// New returns a node. The member's incarnation must be higher than at any start
// before.
func New(o Options) *Node {
	if o.Now == nil {
		o.Now = time.Now
	}
	n := &Node{o: o, key: ed25519.NewKeyFromSeed(o.Member.Seed), name: o.Member.Cert.Name, wake: make(chan struct{}, 1),
		state: NewState(o.Member.Fleet, o.Member.Admin, o.Limits), dirty: map[key]struct{}{},
		certs: map[string]Certificate{}, revoked: map[string]Revocation{}, peers: map[string]*peer{}, refused: map[string]uint64{},
		queued: make(chan struct{}, 1)}
	var c cache
	if json.Unmarshal(o.Cache, &c) == nil {
		n.meet(c.Nodes, c.Revoked)
	}
	n.certs[n.name] = o.Member.Cert
	return n
}

// cache is what is kept of other nodes, so that an empty engine does not make a
// fleet forget its members, or that one was revoked.
type cache struct {
	Nodes   map[string][]byte `json:"nodes"`
	Revoked map[string][]byte `json:"revoked"`
}

// meet verifies certificates and revocations, and keeps those that are new. It
// reports whether any was. The caller holds the lock.
func (n *Node) meet(certs, revoked map[string][]byte) (changed bool) {
	for name, b := range revoked {
		var r Revocation
		if json.Unmarshal(b, &r) != nil || r.Name != name || !r.Verify(n.o.Member.Fleet, n.o.Member.Admin) {
			continue
		}
		if old, ok := n.revoked[name]; !ok || old.At.Before(r.At) {
			n.revoked[name] = r
			changed = true
			n.expel(name)
		}
	}
	for name, b := range certs {
		var c Certificate
		if json.Unmarshal(b, &c) != nil || c.Name != name || c.Verify(n.o.Member.Fleet, n.o.Member.Admin) != nil {
			continue
		}
		if r, ok := n.revoked[name]; ok && r.ends(&c) {
			continue
		}
		if old, ok := n.certs[name]; (!ok || c.replaces(&old)) && len(n.certs) < maxNodes {
			n.certs[name] = c
			changed = true
		}
	}
	return changed
}

// expel drops what a revoked node said.
func (n *Node) expel(name string) {
	c, ok := n.certs[name]
	if r := n.revoked[name]; ok && r.ends(&c) && name != n.name {
		delete(n.certs, name)
		delete(n.peers, name)
		n.state.Forget(name)
	}
}

// cached encodes what was met. The caller holds the lock.
func (n *Node) cached() []byte {
	c := cache{map[string][]byte{}, map[string][]byte{}}
	for name, x := range n.certs {
		c.Nodes[name] = certJSON(&x)
	}
	for name, x := range n.revoked {
		b, err := json.Marshal(x)
		if err == nil {
			c.Revoked[name] = b
		}
	}
	b, err := json.Marshal(c)
	if err != nil {
		return nil // cannot be: strings and bytes
	}
	return b
}

// Name is the node's name.
func (n *Node) Name() string { return n.name }

// SetShared replaces the levels that count together with other nodes', and the
// limits.
func (n *Node) SetShared(m map[Meaning]Shared, l Limits) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state.SetLimits(l)
	n.state.SetShared(m)
	n.own = nil
	for k, s := range m {
		n.own = append(n.own, Rule{Meaning: k, Name: s.Rule, Index: s.Index})
	}
	slices.SortFunc(n.own, func(a, b Rule) int { return cmp.Or(cmp.Compare(a.Name, b.Name), a.Index-b.Index) })
	n.rules = n.own
	n.poke()
}

// Put says how full buckets of this node are now. Instants are of this machine's
// clock.
func (n *Node) Put(ls []Level, ds []Distinct) {
	if len(ls)+len(ds) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seq++
	e := &Entry{Node: n.name, Version: Version{n.o.Member.Incarnation, n.seq}}
	off := int64(n.offset)
	for _, l := range ls {
		l.At, l.Empty = l.At+off, l.Empty+off
		e.Levels = append(e.Levels, l)
		n.mark(key{l.Meaning, l.Prefix})
	}
	for _, d := range ds {
		d.At, d.Until = d.At+off, d.Until+off
		e.Distincts = append(e.Distincts, d)
		n.mark(key{d.Meaning, d.Prefix})
	}
	n.apply(e, n.now())
	n.poke()
}

func (n *Node) mark(k key) {
	if _, ok := n.dirty[k]; !ok && len(n.dirty) >= maxOutbox {
		n.dropped++
		return
	}
	n.dirty[k] = struct{}{}
}

// now is the engine's time as far as it is known.
func (n *Node) now() int64 { return n.o.Now().Add(n.offset).UnixNano() }

// apply merges an entry and queues what it leads to. The caller holds the lock.
func (n *Node) apply(e *Entry, now int64) {
	r := n.state.Apply(e, now, e.Node == n.name)
	off := int64(n.offset)
	for _, d := range r.Decisions {
		d.At -= off
		for i := range d.Shares {
			d.Shares[i].At -= off
		}
		n.decisions++
		n.enqueue(func(ctx context.Context) { n.o.Decided(ctx, d) })
	}
	for _, o := range r.Orders {
		n.enqueue(func(ctx context.Context) { n.o.Ordered(ctx, o.local(n.offset)) })
	}
}

// local is the order in the time of a clock that the engine's is ahead of.
func (o Order) local(offset time.Duration) Order {
	o.At -= int64(offset)
	if o.Until != 0 {
		o.Until -= int64(offset)
	}
	return o
}

// maxQueue bounds what waits for the callbacks.
const maxQueue = 100_000

func (n *Node) enqueue(f func(context.Context)) {
	if len(n.queue) < maxQueue {
		n.queue = append(n.queue, f)
	}
	select {
	case n.queued <- struct{}{}:
	default:
	}
}

func (n *Node) poke() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Void forgets what all nodes said about p up to an instant of this machine's
// clock: somebody unblocked it here.
func (n *Node) Void(p netip.Prefix, at int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state.Void(p, at+int64(n.offset))
}

// Order passes an operator's order to the fleet. Its instants are of the engine's
// clock: see Clock. The error is of its signature.
func (n *Node) Order(o Order) error {
	if err := o.Verify(n.o.Member.Fleet, n.o.Member.Admin); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seq++
	n.apply(&Entry{Node: n.name, Version: Version{n.o.Member.Incarnation, n.seq}, Orders: []Order{o}}, n.now())
	n.enqueue(func(ctx context.Context) { n.o.Ordered(ctx, o.local(n.offset)) })
	n.orders = append(n.orders, o)
	n.poke()
	return nil
}

// Offset is how far the engine's clock is ahead of this machine's; false if it was
// not measured yet.
func (n *Node) Offset() (time.Duration, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.offset, n.clocked
}

// About lists what the fleet says about prefixes that overlap p, at an instant of
// this machine's clock.
func (n *Node) About(p netip.Prefix, at int64) []Decision {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state.About(p, at+int64(n.offset))
}

// Run carries entries until ctx ends; it returns nil then. The engine may be away
// for as long as it likes.
func (n *Node) Run(ctx context.Context) error {
	done := make(chan struct{})
	go func() { n.call(ctx); close(done) }()
	wait := retryLeast
	for ctx.Err() == nil {
		c, err := n.o.Dial()
		if err == nil {
			started := time.Now()
			err = n.carry(ctx, c)
			c.Close()
			if time.Since(started) > time.Minute {
				wait = retryLeast
			}
		}
		n.failed(ctx, err)
		select {
		case <-ctx.Done():
		case <-time.After(vary(wait)):
		}
		wait = min(2*wait, retryMost)
	}
	<-done
	return nil
}

// call runs the callbacks, in order.
func (n *Node) call(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.queued:
		}
		n.mu.Lock()
		q := n.queue
		n.queue = nil
		n.mu.Unlock()
		for _, f := range q {
			f(ctx)
		}
	}
}

// failed notes why the engine is not reached.
func (n *Node) failed(ctx context.Context, err error) {
	if ctx.Err() != nil || err == nil {
		return
	}
	err = EngineError(err, n.o.Member.URL)
	n.mu.Lock()
	fresh := n.err != err.Error()
	if n.errSince.IsZero() {
		n.errSince = time.Now()
	}
	n.connected, n.err = time.Time{}, err.Error()
	n.mu.Unlock()
	if fresh {
		n.o.Log.Warn("fleet: going on alone", "error", err)
	}
}

// carry sends and receives over one connection until something fails.
func (n *Node) carry(ctx context.Context, c Carrier) error {
	if err := n.arrive(ctx, c); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, 2)
	go func() { errs <- n.receive(ctx, c) }()
	go func() { errs <- n.send(ctx, c) }()
	err := <-errs
	cancel()
	<-errs
	return err
}

// arrive measures the clock, makes this node known, and says all that it holds if
// the engine lost it.
func (n *Node) arrive(ctx context.Context, c Carrier) error {
	if err := n.setClock(ctx, c); err != nil {
		return err
	}
	if err := c.Announce(ctx, n.name, certJSON(&n.o.Member.Cert), true); err != nil {
		return err
	}
	if err := n.members(ctx, c); err != nil {
		return err
	}
	_, last, err := c.Ends(ctx, n.name)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if last != n.place || last == "" {
		n.assert()
	}
	n.connected, n.err, n.errSince = time.Now(), "", time.Time{}
	return nil
}

func (n *Node) setClock(ctx context.Context, c Carrier) error {
	d, err := c.Clock(ctx, n.o.Now)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if by := d - n.offset; by.Abs() > time.Second || !n.clocked {
		n.shift(by)
	}
	n.clocked = true
	return nil
}

// shift changes the offset by that much, and says again what was said by the old
// one. The caller holds the lock.
func (n *Node) shift(by time.Duration) {
	n.offset += by
	ls, ds, _ := n.state.Own(n.name, 0)
	n.seq++
	e := &Entry{Node: n.name, Version: Version{n.o.Member.Incarnation, n.seq}}
	for _, l := range ls {
		l.At, l.Empty = l.At+int64(by), l.Empty+int64(by)
		e.Levels = append(e.Levels, l)
		n.mark(key{l.Meaning, l.Prefix})
	}
	for _, d := range ds {
		d.At, d.Until = d.At+int64(by), d.Until+int64(by)
		e.Distincts = append(e.Distincts, d)
		n.mark(key{d.Meaning, d.Prefix})
	}
	n.apply(e, n.now())
}

// assert says again all that this node holds, and what operators ordered. The
// caller holds the lock.
func (n *Node) assert() {
	ls, ds, os := n.state.Own(n.name, n.now())
	for _, l := range ls {
		n.mark(key{l.Meaning, l.Prefix})
	}
	for _, d := range ds {
		n.mark(key{d.Meaning, d.Prefix})
	}
	n.orders, n.rules = os, n.own
	n.before, n.snapshot = n.snapshot, ""
	n.poke()
}

// members reads who belongs to the fleet.
func (n *Node) members(ctx context.Context, c Carrier) error {
	certs, revoked, err := c.Members(ctx)
	if err != nil {
		return err
	}
	n.mu.Lock()
	changed := n.meet(certs, revoked)
	var b []byte
	if changed {
		b = n.cached()
	}
	_, out := n.revoked[n.name]
	n.mu.Unlock()
	if changed && n.o.Save != nil {
		if err := n.o.Save(b); err != nil {
			n.o.Log.Warn("fleet: the list of nodes is not saved", "error", err)
		}
	}
	if out && n.Revoked() {
		return errors.New("this node was revoked")
	}
	return nil
}

// Revoked reports whether the administrator ended this node's membership.
func (n *Node) Revoked() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, ok := n.revoked[n.name]
	return ok && r.ends(&n.o.Member.Cert)
}

// receive reads the other nodes' streams, and this node's own from before.
func (n *Node) receive(ctx context.Context, c Carrier) error {
	after := map[string]string{}
	var looked, next time.Time
	for ctx.Err() == nil {
		if now := time.Now(); now.After(next) {
			if err := n.members(ctx, c); err != nil {
				return err
			}
			n.mu.Lock()
			for name := range n.certs {
				if _, ok := after[name]; !ok {
					after[name] = "0"
				}
			}
			maps.DeleteFunc(after, func(name, _ string) bool { _, ok := n.certs[name]; return !ok && name != "" })
			n.mu.Unlock()
			looked, next = now, now.Add(vary(announceEvery))
		}
		news, err := c.Receive(ctx, after, time.Until(next), n.take)
		if err != nil {
			return err
		}
		if news { // any node can make them, as often as it likes
			next = looked.Add(newsEvery)
		}
	}
	return ctx.Err()
}

// take merges what arrived.
func (n *Node) take(r Received) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e, err := Open(r.Entry, n.o.Member.Fleet, n.publicKey)
	if err == nil && e.Node != r.Node {
		err = ErrForeign // copied into another's stream
	}
	if err != nil {
		n.refused[err.Error()]++
		return
	}
	if e.Node == n.name { // of before the restart: only what operators ordered
		e.Levels, e.Distincts, e.Rules = nil, nil, nil
		if e.Version.Incarnation == n.o.Member.Incarnation {
			return
		}
		for _, o := range e.Orders {
			n.state.Apply(&Entry{Node: n.name, Version: e.Version, Orders: []Order{o}}, n.now(), true)
		}
		return
	}
	p := n.peers[e.Node]
	if p == nil {
		p = &peer{}
		n.peers[e.Node] = p
	}
	p.at, p.skew = r.At, time.Duration(e.Made-r.At)
	p.lag = max(time.Duration(n.now()-r.At), 0)
	if e.Made > r.At+int64(n.state.limits.Ahead) {
		n.refused["an entry of the future"]++
		return
	}
	// The engine's clock may be ahead of what was measured, by little.
	now := n.now()
	n.apply(e, min(max(now, r.At), now+int64(n.state.limits.Ahead)))
}

func (n *Node) publicKey(node string) ed25519.PublicKey {
	c, ok := n.certs[node]
	if !ok {
		return nil
	}
	return c.Key
}

// send sends what waits, and does what is due.
func (n *Node) send(ctx context.Context, c Carrier) error {
	assert, announce, clock := time.NewTicker(vary(assertEvery)), time.NewTicker(vary(announceEvery)), time.NewTicker(vary(clockEvery))
	check, sweep := time.NewTicker(vary(checkEvery)), time.NewTicker(sweepEvery)
	for _, t := range []*time.Ticker{assert, announce, clock, check, sweep} {
		defer t.Stop()
	}
	for {
		if err := n.flush(ctx, c); err != nil {
			return err
		}
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-n.wake:
		case <-assert.C:
			n.mu.Lock()
			n.assert()
			n.mu.Unlock()
		case <-announce.C:
			err = c.Announce(ctx, n.name, certJSON(&n.o.Member.Cert), false)
		case <-clock.C:
			err = n.setClock(ctx, c)
		case <-check.C:
			err = n.check(ctx, c)
		case <-sweep.C:
			n.mu.Lock()
			n.state.Sweep(n.now())
			n.mu.Unlock()
		}
		if err != nil {
			return err
		}
	}
}

// check says everything again if the engine does not have what it was sent, from
// the last time that everything was said on: it was emptied, or has the data of an
// earlier day, or is another replica.
func (n *Node) check(ctx context.Context, c Carrier) error {
	n.mu.Lock()
	sent, oldest := n.place, n.snapshot
	n.mu.Unlock()
	first, last, err := c.Ends(ctx, n.name)
	if err != nil || last == sent && (oldest == "" || !later(first, oldest)) {
		return err
	}
	n.mu.Lock()
	n.assert()
	n.mu.Unlock()
	return c.Announce(ctx, n.name, certJSON(&n.o.Member.Cert), true)
}

// flush sends all that waits. What could not be sent waits on.
func (n *Node) flush(ctx context.Context, c Carrier) error {
	for {
		n.mu.Lock()
		e, keys := n.next()
		n.mu.Unlock()
		if e == nil {
			return nil
		}
		b, err := e.Sign(n.o.Member.Fleet, n.key)
		if err != nil {
			return err
		}
		place, err := c.Send(ctx, n.name, b)
		if err != nil {
			n.mu.Lock()
			for _, k := range keys {
				n.dirty[k] = struct{}{}
			}
			n.orders, n.rules = append(e.Orders, n.orders...), n.own
			n.mu.Unlock()
			return err
		}
		n.mu.Lock()
		n.place = place
		n.sent++
		before := ""
		if n.snapshot == "" {
			n.snapshot, before = place, n.before
		}
		n.mu.Unlock()
		if before != "" {
			if err := c.Trim(ctx, n.name, before); err != nil {
				return err
			}
		}
	}
}

// next makes an entry of what waits; nil if nothing does. The caller holds the
// lock.
func (n *Node) next() (*Entry, []key) {
	if len(n.dirty)+len(n.orders)+len(n.rules) == 0 {
		return nil, nil
	}
	n.seq++
	e := &Entry{Node: n.name, Version: Version{n.o.Member.Incarnation, n.seq}, Made: n.now()}
	// Orders are large: so many fit into an entry beside the rest.
	k := min(len(n.orders), 25)
	e.Orders, n.orders = n.orders[:k:k], n.orders[k:]
	k = min(len(n.rules), 50)
	e.Rules, n.rules = n.rules[:k:k], n.rules[k:]
	var keys []key
	for k := range n.dirty {
		if e.Len() >= MaxStatements || len(e.Distincts) >= 50 {
			break
		}
		delete(n.dirty, k)
		c := n.state.keys[k]
		if c == nil {
			continue // drained before it could be sent
		}
		w, ok := c.by[n.name]
		if !ok {
			continue
		}
		keys = append(keys, k)
		if w.values != nil {
			e.Distincts = append(e.Distincts, Distinct{Meaning: k.meaning, Prefix: k.prefix, At: w.at, Until: w.empty, Values: w.values})
		} else {
			e.Levels = append(e.Levels, Level{Meaning: k.meaning, Prefix: k.prefix, At: w.at, Empty: w.empty, Line: w.line})
		}
	}
	if e.Len() == 0 {
		return n.next()
	}
	return e, keys
}

// Status is what status and the page show of the fleet.
type Status struct {
	Fleet     ID            `json:"fleet"`
	Node      string        `json:"node"`
	Mode      string        `json:"mode"` // observe or on
	Connected bool          `json:"connected"`
	Error     string        `json:"error,omitempty"`
	Since     time.Time     `json:"since,omitzero"` // of Connected or Error
	Skew      time.Duration `json:"skew_ns"`        // this machine's clock ahead of the engine's
	Waiting   int           `json:"waiting"`        // keys to be sent
	Dropped   uint64        `json:"dropped,omitempty"`
	Sent      uint64        `json:"sent"` // entries
	Keys      int           `json:"keys"` // prefixes that some node speaks of
	Decisions uint64        `json:"decisions"`
	// Refused counts entries by reason.
	Refused map[string]uint64 `json:"refused,omitempty"`
	Nodes   []Peer            `json:"nodes"`
}

// Peer is another node, as this one sees it.
type Peer struct {
	Name    string        `json:"name"`
	Joined  time.Time     `json:"joined"`
	Last    time.Time     `json:"last,omitzero"` // entry, by the engine's clock
	Skew    time.Duration `json:"skew_ns"`
	Lag     time.Duration `json:"lag_ns"`
	Keys    int           `json:"keys"`
	Entries uint64        `json:"entries"`
	Refused uint64        `json:"refused,omitempty"`
	Why     string        `json:"why,omitempty"` // the last statement was refused
	// Differ are rules of that node which mean something else here.
	Differ []string `json:"differ,omitempty"`
}

// Status returns the state of the node.
func (n *Node) Status() Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := Status{Fleet: n.o.Member.Fleet, Node: n.name, Connected: !n.connected.IsZero(), Error: n.err, Since: n.connected, Skew: -n.offset,
		Waiting: len(n.dirty) + len(n.orders), Dropped: n.dropped, Sent: n.sent, Keys: n.state.Keys(), Decisions: n.decisions, Refused: maps.Clone(n.refused)}
	if !s.Connected {
		s.Since = n.errSince
	}
	for name, c := range n.certs {
		if name == n.name {
			continue
		}
		p := Peer{Name: name, Joined: c.Joined}
		if x := n.peers[name]; x != nil {
			p.Last, p.Skew, p.Lag = time.Unix(0, x.at).UTC(), x.skew, x.lag
		}
		st, keys, differ := n.state.Stats(name)
		p.Keys, p.Entries, p.Refused, p.Why, p.Differ = keys, st.Entries, st.Refused, st.Why, differ
		s.Nodes = append(s.Nodes, p)
	}
	slices.SortFunc(s.Nodes, func(a, b Peer) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// vary changes d by up to a fifth.
func vary(d time.Duration) time.Duration {
	return d - d/5 + rand.N(2*d/5+1)
}
