// Package pipeline joins the leaves into the one way from a line to a block:
// parse, sessions, detect, ledger. The daemon and a replay run the same code;
// neither a clock nor a goroutine is in it.
package pipeline

import (
	"fmt"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/f2b"
	"stoplog/internal/ledger"
	"stoplog/internal/parse"
	"stoplog/internal/session"
	"stoplog/internal/source"
)

// maxSkew is how far a live line's stamp may be off its arrival before the
// arrival counts instead: a wrong clock or zone must not disarm us.
const maxSkew = int64(time.Minute)

// OriginStats counts one origin's lines. Skew is the stamp minus the arrival
// when it was last too far off, 0 when the last stamp was right.
type OriginStats struct {
	Lines, Events, Cut uint64
	// Doubted are the events that were not believed, because a client may have
	// written their lines himself.
	Doubted uint64
	// Foreign counts journal entries about a service by others than its own
	// units, which are ignored; Foreigner describes one of them.
	Foreign   uint64
	Foreigner string
	// OverLimit counts lines that were too long for the filter OverLimitOf, or took
	// one of its expressions too many steps: they count toward nothing.
	OverLimit   uint64
	OverLimitOf string
	Skew        time.Duration
}

// Machine takes batches in and gives outcomes out. One goroutine uses it.
type Machine struct {
	Engine   *detect.Engine
	Ledger   *ledger.Ledger
	Sessions *session.Joiner

	compiled *Compiled
	readers  map[*source.Origin]*Reader
	stats    map[string]*OriginStats
	peers    *parse.PeerCount
	guards   guards
	filters  map[filterKey]*f2b.Session

	services map[string]*uint64 // events of each service
	service  string             // of the last event
	counted  *uint64            // its counter
}

// New returns a machine whose readers are made of compiled.
func New(compiled *Compiled, e *detect.Engine, l *ledger.Ledger) *Machine {
	return &Machine{
		Engine: e, Ledger: l, Sessions: session.New(0),
		compiled: compiled, readers: map[*source.Origin]*Reader{}, stats: map[string]*OriginStats{},
		peers: new(parse.PeerCount), guards: guards{m: map[guardKey]*guard{}}, filters: map[filterKey]*f2b.Session{},
		services: map[string]*uint64{},
	}
}

// Swap puts other rules in place; buckets whose meaning is unchanged stay.
func (m *Machine) Swap(compiled *Compiled) {
	m.compiled = compiled
	m.Engine.Swap(compiled.set)
	clear(m.readers)
	clear(m.filters)
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
	return fmt.Sprintf("%s sends %.0f %% of the web requests: if it is a proxy, list it under client.trusted", a, share*100), true
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
	r, err := m.compiled.Reader(o)
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
	m.filter(r)
	m.guard(r, m.count(r))
	m.join(r, now)
}

// join is Join of events that the guards let pass.
func (m *Machine) join(r *Reader, now time.Time) {
	b := r.batch
	s := m.origins(b.Origin.Name)
	arrival, latest := b.Arrival.UnixNano(), now.UnixNano()+maxSkew
	for i := range r.events {
		ev := &r.events[i].Event
		if h := r.events[i].held; h != nil {
			m.settleTime(ev, h.Arrival, h.Backlog, s)
		} else {
			m.settleTime(ev, arrival, b.Backlog, s)
		}
		ev.Time = min(ev.Time, latest)
		m.Sessions.Join(ev, b.Origin)
	}
}

// Apply runs the joined events of r through detection and the ledger.
func (m *Machine) Apply(r *Reader, now time.Time, emit func(*detect.Breach, ledger.Outcome)) {
	for i := range r.events {
		m.observe(&r.events[i], r.batch, now, emit)
	}
}

// Past says how lines of the past are applied.
type Past struct {
	// From and Until, Unix nanoseconds, bound the time of the events that count:
	// from From, before Until. Zero: no bound.
	From, Until int64
	// Emit is called for each outcome of a breach, in order.
	Emit func(*detect.Breach, ledger.Outcome)
	// Seen, if set, is called for each event after it was counted; stopped says that its
	// source was blocked at the time. Both arguments are valid during the call.
	Seen func(ev *parse.Event, line *source.Line, stopped bool)
}

// ApplyAt is Apply of lines of the past: the time is that of the line. It returns
// how many lines were left out because of their time.
func (m *Machine) ApplyAt(r *Reader, p Past) (skipped int) {
	return r.between(p.From, p.Until, func(it *item) {
		now := time.Unix(0, it.Time)
		if next := m.Ledger.NextExpiry(); !next.IsZero() && now.After(next) {
			m.Ledger.Pass(now)
		}
		before := m.Engine.Stopped()
		m.observe(it, r.batch, now, p.Emit)
		if p.Seen != nil {
			p.Seen(&it.Event, it.text(r.batch), m.Engine.Stopped() != before)
		}
	})
}

// count adds the batch to its origin's counters.
func (m *Machine) count(r *Reader) *OriginStats {
	s := m.origins(r.batch.Origin.Name)
	s.Lines += uint64(len(r.batch.Lines))
	s.Events += uint64(r.known)
	s.Cut += r.cut
	if r.foreign > 0 {
		s.Foreign, s.Foreigner = s.Foreign+r.foreign, r.foreigner
	}
	return s
}

func (m *Machine) origins(name string) *OriginStats {
	s := m.stats[name]
	if s == nil {
		s = &OriginStats{}
		m.stats[name] = s
	}
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

func (m *Machine) observe(it *item, b *source.Batch, now time.Time, emit func(*detect.Breach, ledger.Outcome)) {
	ev := &it.Event
	if len(ev.Method) > 0 && ev.Addr.IsValid() {
		m.peers.Add(ev.Addr)
	}
	m.countService(ev.Service)
	breaches := m.Engine.Observe(ev, it.text(b), b.Origin, m.Ledger)
	for i := range breaches {
		emit(&breaches[i], m.Ledger.Breach(&breaches[i], now))
	}
	// After Observe, so that a rule can see that a login is new.
	if ev.Outcome == parse.Success && len(ev.User) > 0 && ev.Addr.IsValid() {
		m.Ledger.Login(ev.Service, ev.User, ev.Addr, ev.Time, ev.Verified)
	}
}

// maxServices bounds the counters of services; the events of further ones are
// not counted apart.
const maxServices = 256

func (m *Machine) countService(name string) {
	if name != m.service || m.counted == nil {
		n := m.services[name]
		if n == nil {
			n = new(uint64)
			if len(m.services) < maxServices {
				m.services[name] = n
			}
		}
		m.service, m.counted = name, n
	}
	*m.counted++
}

// Services gives how many events of each service there were.
func (m *Machine) Services() map[string]uint64 {
	out := make(map[string]uint64, len(m.services))
	for name, n := range m.services {
		out[name] = *n
	}
	return out
}
