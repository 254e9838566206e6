// Package pipeline joins the leaves into the one way from a line to a block:
// parse, sessions, detect, ledger. The daemon and a replay run the same code;
// neither a clock nor a goroutine is in it.
package pipeline

import (
	"fmt"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/parse"
	"stoplog/internal/source"
)

// maxSkew is how far a live line's stamp may be off its arrival before the
// arrival counts instead: a wrong clock or zone must not disarm us.
const maxSkew = int64(time.Minute)

// OriginStats counts one origin's lines. Skew is the stamp minus the arrival
// when it was last too far off, 0 when the last stamp was right.
type OriginStats struct {
	Lines, Events, Cut uint64
	Skew               time.Duration
}

// Machine takes batches in and gives outcomes out. One goroutine uses it.
type Machine struct {
	Engine   *detect.Engine
	Ledger   *ledger.Ledger
	Sessions *parse.Sessions

	kit     *Kit
	readers map[*source.Origin]*Reader
	stats   map[string]*OriginStats
	peers   *parse.PeerCount
	ahead   [groupSize]detect.Ahead
	touched int  // keeps looks from being left out
	stale   bool // the ledger changed since events were prepared
}

// New returns a machine whose readers are made of kit.
func New(kit *Kit, e *detect.Engine, l *ledger.Ledger) *Machine {
	return &Machine{
		Engine: e, Ledger: l, Sessions: parse.NewSessions(0),
		kit: kit, readers: map[*source.Origin]*Reader{}, stats: map[string]*OriginStats{},
		peers: new(parse.PeerCount),
	}
}

// Swap puts other rules in place; buckets whose meaning is unchanged stay.
func (m *Machine) Swap(kit *Kit) {
	m.kit = kit
	m.Engine.Swap(kit.set)
	clear(m.readers)
}

// Stats gives the counters of the origin of that name.
func (m *Machine) Stats(name string) OriginStats {
	if s := m.stats[name]; s != nil {
		return *s
	}
	return OriginStats{}
}

// Suspect names a peer that carries nearly all web traffic: a proxy that the
// rules do not know of, whose clients cannot be told apart.
func (m *Machine) Suspect() (string, bool) {
	a, share, ok := m.peers.Suspect()
	if !ok {
		return "", false
	}
	return fmt.Sprintf("%s carries %.0f %% of the web requests: if it is a proxy, name it under client.trusted", a, share*100), true
}

// Take handles one live or backlog batch, which it does not release; emit is
// called for each outcome of a breach, in order. now is the wall clock.
func (m *Machine) Take(b *source.Batch, now time.Time, emit func(*detect.Breach, ledger.Outcome)) error {
	r, err := m.reader(b.Origin)
	if err != nil {
		return err
	}
	r.Read(b)
	m.Join(r, now)
	m.Apply(r, now, emit)
	return nil
}

// reader returns the reader of an origin, made from the source it belongs to.
func (m *Machine) reader(o *source.Origin) (*Reader, error) {
	if r := m.readers[o]; r != nil {
		return r, nil
	}
	r, err := m.kit.Reader(o)
	if err != nil {
		return nil, err
	}
	m.readers[o] = r
	return r, nil
}

// Join gives the events that r read last their instants and what earlier lines
// of their connections told. It touches nothing that Apply does, so that one
// batch may be joined while the one before is applied; batches are joined in
// order. Live lines whose stamp is far from their arrival count as now; what
// was written before we looked cannot be of after now.
func (m *Machine) Join(r *Reader, now time.Time) {
	b := r.batch
	s := m.count(r)
	arrival, latest := b.Arrival.UnixNano(), now.UnixNano()+maxSkew
	for items := r.events; len(items) > 0; {
		group := items[:min(len(items), groupSize)]
		for i := range group {
			m.Sessions.Look(&group[i].Event, b.Origin)
		}
		m.Sessions.Fetch()
		for i := range group {
			ev := &group[i].Event
			m.settleTime(ev, arrival, b.Backlog, s)
			ev.Time = min(ev.Time, latest)
			m.Sessions.Join(ev, b.Origin)
		}
		items = items[len(group):]
	}
}

// Apply runs the joined events of r through detection and the ledger.
func (m *Machine) Apply(r *Reader, now time.Time, emit func(*detect.Breach, ledger.Outcome)) {
	for items := r.events; len(items) > 0; {
		group := m.prepare(items, r.batch)
		for i := range group {
			m.observe(i, &group[i], r.batch, now, emit)
		}
		items = items[len(group):]
	}
}

// ApplyAt is Apply of lines long past: it is always the time of the line.
func (m *Machine) ApplyAt(r *Reader, emit func(*detect.Breach, ledger.Outcome)) {
	for items := r.events; len(items) > 0; {
		group := m.prepare(items, r.batch)
		for i := range group {
			now := time.Unix(0, group[i].Time)
			if next := m.Ledger.NextExpiry(); !next.IsZero() && now.After(next) {
				m.Ledger.Expire(now)
				m.stale = true
			}
			m.observe(i, &group[i], r.batch, now, emit)
		}
		items = items[len(group):]
	}
}

// groupSize is how many events are prepared at once: enough for the waits for
// memory to overlap, few enough for what was fetched to stay in the cache.
const groupSize = 64

// prepare has the ledger and detection look ahead at the first of items, and
// returns those. Each pass fetches what the next one asks of.
func (m *Machine) prepare(items []item, b *source.Batch) []item {
	group := items[:min(len(items), groupSize)]
	for i := range group {
		m.touched |= group[i].touch()
	}
	for i := range group {
		if a := group[i].Addr; a.IsValid() {
			m.Ledger.Look(a)
		}
	}
	m.Ledger.Fetch()
	for i := range group {
		it := &group[i]
		m.Engine.Prepare(&m.ahead[i], &it.Event, &b.Lines[it.line], b.Origin, m.Ledger)
	}
	m.Engine.Fetch()
	m.stale = false
	return group
}

// touch looks at what of an event is asked for: it comes from another core.
func (it *item) touch() int {
	return int(it.Time) | len(it.User) | it.Count | int(it.Status) | it.line
}

// count adds the batch to its origin's counters.
func (m *Machine) count(r *Reader) *OriginStats {
	name := r.batch.Origin.Name
	s := m.stats[name]
	if s == nil {
		s = &OriginStats{}
		m.stats[name] = s
	}
	s.Lines += uint64(len(r.batch.Lines))
	s.Events += uint64(r.known)
	s.Cut += r.cut
	return s
}

// settleTime decides what instant an event counts at.
func (m *Machine) settleTime(ev *parse.Event, arrival int64, backlog bool, s *OriginStats) {
	if ev.Time == 0 {
		ev.Time = arrival
		return
	}
	if backlog {
		return
	}
	if d := ev.Time - arrival; d > maxSkew || d < -maxSkew {
		s.Skew = time.Duration(d)
		ev.Time = arrival
		return
	}
	s.Skew = 0
}

func (m *Machine) observe(i int, it *item, b *source.Batch, now time.Time, emit func(*detect.Breach, ledger.Outcome)) {
	ev := &it.Event
	if len(ev.Method) > 0 && ev.Addr.IsValid() {
		m.peers.Add(ev.Addr)
	}
	breaches := m.Engine.ObserveAhead(&m.ahead[i], m.stale)
	for i := range breaches {
		m.stale = true
		emit(&breaches[i], m.Ledger.Breach(&breaches[i], now))
	}
	// After Observe, so that a rule can see that a login is new.
	if ev.Outcome == parse.Success && ev.Verified && len(ev.User) > 0 && ev.Addr.IsValid() {
		m.stale = true
		m.Ledger.Login(ev.Service, ev.User, ev.Addr, ev.Time)
	}
}
