package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
	"unicode/utf8"

	"stoplog/internal/parse"
	"stoplog/internal/source"
)

// Some programs write a client's text with its line breaks into their logs
// (see parse.Shape). Such a client writes lines that look like the program's
// own. The guard believes an event of them only if the line can be nobody
// else's: if no record that may reach so far ends as another client's. It holds
// events until that is sure, which is when the longest record is over; it
// counts lines and bytes only, so that batches do not matter.
//
// A program writes a record with one call. So an end whose stamp is settled or
// more after a line's is another record's; live, unless it is ahead of the
// clock, for the stamp may be the client's text, too. What was held so long,
// live, is sure as well.
type guard struct {
	Pos     int64    // of the line that comes, since something was held
	Suspect int64    // until where a record may go on that began before,
	Time    int64    // by this stamp
	Chars   bool     // all of these are in characters
	Broken  int64    // until where one goes on for sure
	Ends    []int64  `json:",omitempty"` // where records would be cut that began before
	Held    []held   `json:",omitempty"`
	Open    int64    `json:",omitzero"` // until where a line may tell the client of a record that lacked it
	Failing bool     `json:",omitzero"` // that line is surely a failure's
	First   chain    `json:",omitzero"`
	Failed  lineTime `json:",omitzero"` // the last line without a success that a client may have gone on from

	origin *source.Origin // of the line before; nil after a restart
}

// lineTime is a line's stamp and, live, its arrival, 0 when unknown, and until
// where its record may go on.
type lineTime struct{ Until, Time, Arrival int64 }

// chain follows records that name their client before its text: while one may go
// on, only its client is believed, so that who writes others' lines behind its own
// cannot hide either.
type chain struct {
	Client, Other netip.Addr
	Last, Between lineTime // the last lines of Client, and of others; Other is invalid when they are several
}

// settled is how long the lines of one record may be apart, by their stamps or
// by arrival.
const settled = 2 * time.Second

const (
	maxHeld   = 64   // events a guard
	openReach = 4096 // bytes from a line without its record's end to one with it
	// blindReach replaces longer reaches in what was written before we looked
	// and has no stamps: nothing else tells records apart there.
	blindReach = 4096
	maxGuards  = 1024 // that have something to guard
)

// held is an event that waits, with its line.
type held struct {
	Until   int64 // position
	Arrival int64
	// Disputed: the last line that could end a record of many lines, this one
	// among them, was of another client.
	Disputed bool `json:",omitempty"`
	Backlog  bool `json:",omitempty"`
	Text     []byte
	Number   int64
	Event    parse.Event
}

// guardKey is what writes to a log by itself: an origin, and of the journal a
// unit.
type guardKey struct{ Origin, Unit string }

// framed ends the unit of entries that did not come line by line.
const framed = " (framed)"

func (k guardKey) compare(o guardKey) int {
	return cmp.Or(cmp.Compare(k.Origin, o.Origin), cmp.Compare(k.Unit, o.Unit))
}

// guards are those of all origins.
type guards struct {
	m map[guardKey]*guard
}

func (g *guard) idle() bool {
	return len(g.Held) == 0 && g.Pos >= g.Suspect && g.Pos >= g.Broken && g.Pos >= g.First.Last.Until
}

// guard takes the events out of r that may be a client's own text, and puts
// those in that were held and are sure by now. It is called batch by batch, in
// order.
func (m *Machine) guard(r *Reader, s *OriginStats) {
	name := r.batch.Origin.Whole()
	if len(r.shapes) == 0 && !m.guards.watching(name) {
		return
	}
	w := watch{m: m, r: r, stats: s, out: make([]item, 0, len(r.events)+4)}
	for i := range r.batch.Lines {
		w.line(i)
	}
	r.events = w.out
}

// watching reports whether a guard of the origin has something to guard.
func (gs *guards) watching(origin string) bool {
	for k, g := range gs.m {
		if k.Origin == origin && !g.idle() {
			return true
		}
	}
	return false
}

// of returns the guard of a line, nil when there is none and none is wanted.
func (gs *guards) of(k guardKey, wanted bool) *guard {
	g := gs.m[k]
	if g != nil || !wanted {
		return g
	}
	if len(gs.m) >= maxGuards {
		for k, g := range gs.m {
			if g.idle() {
				delete(gs.m, k)
			}
		}
		if len(gs.m) >= maxGuards {
			return nil
		}
	}
	g = &guard{}
	gs.m[k] = g
	return g
}

// watch takes one batch past the guards.
type watch struct {
	m     *Machine
	r     *Reader
	stats *OriginStats
	out   []item
	shape int // the next of r.shapes
	event int // the next of r.events
}

// line takes the line i and its events past its guard.
func (w *watch) line(i int) {
	line := &w.r.batch.Lines[i]
	var shape parse.Shape
	shaped := w.shape < len(w.r.shapes) && w.r.shapes[w.shape].line == i
	if shaped {
		shape = w.r.shapes[w.shape].Shape
		w.shape++
	}
	if w.r.batch.Backlog && shape.Time == 0 {
		shape.Reach = min(shape.Reach, blindReach)
	}
	k := guardKey{Origin: w.r.batch.Origin.Whole()}
	if line.Entry != nil {
		k.Unit = string(line.Entry.Unit)
		if line.Entry.Transport != source.StdoutTransport {
			k.Unit += framed // no line break of another entry reaches it
		}
	}
	g := w.m.guards.of(k, shaped)
	if g == nil {
		for ; w.event < len(w.r.events) && w.r.events[w.event].line == i; w.event++ {
			if shaped {
				w.stats.Doubted++ // too many guards
			} else {
				w.out = append(w.out, w.r.events[w.event])
			}
		}
		return
	}
	if g.idle() {
		*g = guard{}
	}
	g.origin = w.r.batch.Origin
	w.release(g, i)
	if shape.Ends {
		w.dispute(g, &shape, w.stamp(i))
	}
	at, good := w.lineTime(g, &shape, i), false
	if shape.First.IsValid() {
		w.follow(g, shape.First, &at)
	}
	for ; w.event < len(w.r.events) && w.r.events[w.event].line == i; w.event++ {
		it := &w.r.events[w.event]
		good = good || it.Outcome == parse.Success
		switch {
		case it.Addr.IsValid() && it.Addr != g.First.Client && w.goesOn(g, &g.First.Last, &at),
			it.Outcome == parse.Success && w.goesOn(g, &g.Failed, &at):
			w.stats.Doubted++
		default:
			w.take(g, &shape, line)
		}
	}
	if shape.Open {
		g.Open, g.Failing = g.Pos+openReach, shape.Failing
	}
	if shape.Reach > 0 && !good {
		g.Failed = at
	}
	g.Ends = slices.DeleteFunc(g.Ends, func(at int64) bool { return at < g.Pos })
	if shape.Reach > 0 {
		if len(g.Ends) < maxHeld {
			g.Ends = append(g.Ends, g.Pos+int64(shape.Reach))
		}
		g.Suspect, g.Time = max(g.Suspect, g.Pos+int64(shape.Reach)), shape.Time
		if shape.Broken {
			g.Broken = g.Suspect
		}
	}
	if g.Chars = g.Chars || shape.Chars; g.Chars {
		g.Pos += int64(utf8.RuneCount(line.Text)) + 1
	} else {
		g.Pos += int64(len(line.Text)) + 1
	}
}

// stamp is the time of the line's first event, 0 when it has none.
func (w *watch) stamp(i int) int64 {
	if w.event < len(w.r.events) && w.r.events[w.event].line == i {
		return w.r.events[w.event].Time
	}
	return 0
}

// lineTime describes line i.
func (w *watch) lineTime(g *guard, s *parse.Shape, i int) lineTime {
	m := lineTime{Until: g.Pos + int64(s.Reach), Time: cmp.Or(s.Time, w.stamp(i))}
	if b := w.r.batch; !b.Backlog {
		m.Arrival = b.Arrival.UnixNano()
	}
	return m
}

// goesOn reports whether the record of the earlier line m may go on in the line at.
func (w *watch) goesOn(g *guard, m, at *lineTime) bool {
	if m.Until <= g.Pos || m.Arrival != 0 && at.Arrival-m.Arrival >= int64(settled) {
		return false
	}
	return m.Time == 0 || at.Time-m.Time < int64(settled) || w.ahead(at.Time)
}

// ahead reports whether a live line's stamp is later than it came.
func (w *watch) ahead(stamp int64) bool {
	return !w.r.batch.Backlog && stamp-w.r.batch.Arrival.UnixNano() > int64(settled)
}

// follow adds a line that names client before all that a client wrote. Another
// client than before is believed when none but it was named for as long as a
// record may go on.
func (w *watch) follow(g *guard, client netip.Addr, at *lineTime) {
	c := &g.First
	before, between := w.goesOn(g, &c.Last, at), w.goesOn(g, &c.Between, at)
	switch {
	case client == c.Client:
		c.Last = *at
	case !before && (!between || c.Other == client):
		*c = chain{Client: client, Last: *at}
	default:
		if between && c.Other != client {
			client = netip.Addr{}
		}
		c.Other, c.Between = client, *at
		if !before { // several others: nobody is believed
			c.Client, c.Last = netip.Addr{}, *at
		}
	}
}

// release gives out, with line i, what no record reaches any more.
func (w *watch) release(g *guard, i int) {
	n := 0
	for ; n < len(g.Held) && g.Held[n].Until <= g.Pos; n++ {
		w.give(&g.Held[n], i)
	}
	g.Held = slices.Delete(g.Held, 0, n)
}

// give gives out a held event, unless it is disputed.
func (w *watch) give(h *held, i int) {
	if h.Disputed {
		w.stats.Doubted++
		return
	}
	w.out = append(w.out, h.item(i))
}

// late reports whether a line with that stamp is surely of a later record than h.
func (w *watch) late(h *held, stamp int64) bool {
	return h.Event.Time != 0 && stamp-h.Event.Time >= int64(settled) && !w.ahead(stamp)
}

// dispute marks what was held and may be text of the client whose record ends
// here. The last such end that reaches an event decides about it: a client that
// writes another's lines between its own does not hide.
func (w *watch) dispute(g *guard, s *parse.Shape, stamp int64) {
	for i := range g.Held {
		h := &g.Held[i]
		if g.Pos+int64(s.At) <= h.Until && !w.late(h, stamp) {
			h.Disputed = !s.Client.IsValid() || h.Event.Addr != s.Client
		}
	}
}

// take holds, drops or passes the next event.
func (w *watch) take(g *guard, s *parse.Shape, line *source.Line) {
	it := &w.r.events[w.event]
	if it.tail {
		it.Time = g.Time
	}
	within := g.Pos < g.Suspect
	switch {
	case g.Pos < g.Broken && !s.Ends, g.cutBehind(line), it.tail && (!within || s.Weak && (g.Pos >= g.Open || !g.Failing && !s.Failing)),
		s.Ends && (within || s.Reach > 0) && (s.Client != it.Addr || !it.Addr.IsValid()):
		w.stats.Doubted++
	case within || s.Reach > 0:
		if len(g.Held) >= maxHeld {
			if h := &g.Held[0]; w.late(h, w.stamp(it.line)) {
				w.give(h, it.line)
			} else {
				w.stats.Doubted++
			}
			g.Held = slices.Delete(g.Held, 0, 1)
		}
		b := w.r.batch
		until := max(g.Suspect, g.Pos+int64(s.Reach))
		g.Held = append(g.Held, held{
			Until: until, Arrival: b.Arrival.UnixNano(), Backlog: b.Backlog,
			Text: slices.Clone(line.Text), Number: line.Number, Event: clone(it.Event),
		})
	default:
		w.out = append(w.out, *it)
	}
}

// cutBehind reports whether a record that began before would be cut where the
// line ends: nothing behind it would show that it is another client's.
func (g *guard) cutBehind(line *source.Line) bool {
	return slices.Contains(g.Ends, g.Pos+int64(len(line.Text))+1)
}

// clone is an event that outlives the memory of the parser that made it.
func clone(ev parse.Event) parse.Event {
	for _, b := range []*[]byte{&ev.User, &ev.Message, &ev.Method, &ev.Path, &ev.Query, &ev.Agent, &ev.Referrer, &ev.Host} {
		*b = slices.Clone(*b)
	}
	ev.Fields = slices.Clone(ev.Fields)
	for i := range ev.Fields {
		ev.Fields[i].Value = slices.Clone(ev.Fields[i].Value)
	}
	return ev
}

// item is the held event, given out with line i.
func (h held) item(i int) item { return item{line: i, held: &h, Event: h.Event} }

// Settle hands apply the events of lines that came longer ago than any record
// takes to be written, or with all every event that is held, because no line
// comes any more. The events are joined.
func (m *Machine) Settle(now time.Time, all bool, apply func(*Reader)) {
	for _, k := range slices.SortedFunc(maps.Keys(m.guards.m), guardKey.compare) {
		g, n := m.guards.m[k], 0
		for n < len(g.Held) && (all || now.UnixNano()-g.Held[n].Arrival > int64(settled)) {
			n++
		}
		if n == 0 {
			continue
		}
		r := &Reader{batch: &source.Batch{Origin: cmp.Or(g.origin, m.origin(k.Origin)), Arrival: now}}
		for i := range g.Held[:n] {
			if h := &g.Held[i]; h.Disputed {
				m.origins(r.batch.Origin.Name).Doubted++
			} else {
				r.events = append(r.events, h.item(0))
			}
		}
		g.Held = slices.Delete(g.Held, 0, n)
		m.join(r, now)
		apply(r)
	}
}

// origin finds the origin of a name among those read, or makes one up.
func (m *Machine) origin(name string) *source.Origin {
	for o := range m.readers {
		if o.Name == name {
			return o
		}
	}
	return &source.Origin{Name: name, Spec: -1}
}

// savedGuard is one of the guards in a snapshot.
type savedGuard struct {
	Key   guardKey
	Guard *guard
}

// MarshalGuards writes what the guards know, for a snapshot with the positions
// of the same moment.
func (m *Machine) MarshalGuards() ([]byte, error) {
	var all []savedGuard
	for k, g := range m.guards.m {
		if !g.idle() {
			all = append(all, savedGuard{k, g})
		}
	}
	return json.Marshal(all)
}

// UnmarshalGuards replaces what the guards know.
func (m *Machine) UnmarshalGuards(b []byte) error {
	var all []savedGuard
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	clear(m.guards.m)
	for _, s := range all {
		if s.Guard == nil || len(s.Guard.Held) > maxHeld || len(m.guards.m) >= maxGuards {
			return fmt.Errorf("saved guard of %s is corrupt", s.Key.Origin)
		}
		m.guards.m[s.Key] = s.Guard
	}
	return nil
}
