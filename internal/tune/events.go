// Package tune looks for better settings of a rule in past logs: it reads the
// lines once into compact events, runs the real detection and ledger over them
// with each setting, and compares what would have been stopped with whom it
// would have cost a login. Nothing is changed.
package tune

import (
	"hash/maphash"
	"net/netip"
	"strings"
	"time"

	"stoplog/internal/addr"
	"stoplog/internal/parse"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// event is one event of the log, 24 bytes; the rest is in tables.
type event struct {
	at    int64
	src   uint32 // index of tables.sources
	user  uint32 // of tables.texts; 0: none
	rec   uint32 // of tables.records; 0: none
	class uint16 // of tables.classes
	count uint16 // attempts
}

// class is what many events have in common.
type class struct {
	proto  parse.Event // without time, address, user, count and record
	origin *source.Origin
}

type classKey struct {
	service                 string
	origin                  *source.Origin
	outcome                 parse.Outcome
	kind                    parse.Kind
	first, verified, inform bool
}

// tables hold what events refer to.
type tables struct {
	classes  []class
	classOf  map[classKey]uint16
	sources  []client
	sourceOf map[netip.Addr]uint32
	texts    [][]byte
	textOf   map[string]uint32
	records  []parse.Event // of web requests: the fields that rules look at
	recordOf map[string]uint32
	bytes    int // of texts and records
}

// client is a source: an address.
type client struct {
	addr  netip.Addr
	group uint32 // in the layout that is in use
	label label
	bad   uint32 // failures seen while reading
	good  uint32 // successes, and pages of web servers
	lines []Shown
}

// Shown is a line and its place. Text is empty when lines are not kept.
type Shown struct {
	Source string `json:"source"`
	Line   int64  `json:"line,omitempty"`
	Text   string `json:"text,omitempty"`
}

func newTables() tables {
	return tables{
		classOf: map[classKey]uint16{}, sourceOf: map[netip.Addr]uint32{},
		texts: make([][]byte, 1), textOf: map[string]uint32{},
		records: make([]parse.Event, 1), recordOf: map[string]uint32{},
	}
}

// Bounds of what is kept. Above them every second network is dropped, again and
// again: what is left of a network is complete.
const (
	maxEvents  = 12_000_000
	maxClients = 2_000_000
	maxBytes   = 256 << 20
	maxClasses = 1 << 16
	maxText    = 512
	maxShown   = 4 // lines of one source
	maxLine    = 300
	maxLines   = 16 << 20 // bytes of lines shown
)

// bounds are those of a collector: smaller in tests.
type bounds struct{ events, clients, bytes int }

// collector gathers the events of a log that rules look at.
type collector struct {
	tables
	rules  []*rules.Rule
	fields fields
	keep   bool // texts of lines may be kept
	bounds bounds
	seed   maphash.Seed
	half   uint // networks whose hash ends in so many zeros are kept
	events []event
	shown  int // bytes of lines

	left  uint64 // events that no table had room for
	backs int    // how often an origin's clock went back by more than an hour
	last  map[*source.Origin]int64
	buf   []byte
	// takes caches which rules may match a class: bit i for rules[i]; serves,
	// whether any looks at its service.
	takes  []uint64
	serves []bool
}

// fields says which fields of an event the rules' texts name.
type fields struct{ path, query, agent, referrer, host, message, captured bool }

func fieldsOf(rs []*rules.Rule) (f fields) {
	for _, r := range rs {
		cut := strings.HasSuffix(r.Text, "…\n") // too long: it may name any
		has := func(words ...string) bool {
			for _, w := range words {
				if cut || strings.Contains(r.Text, w) {
					return true
				}
			}
			return false
		}
		f.path = f.path || has("path")
		f.query = f.query || has("query", "param")
		f.agent = f.agent || has("agent")
		f.referrer = f.referrer || has("referrer")
		f.host = f.host || has("host")
		f.message = f.message || has("message")
		f.captured = f.captured || has("field")
	}
	return f
}

// newCollector gathers for at most 64 rules.
func newCollector(rs []*rules.Rule, keepLines bool) *collector {
	return &collector{
		tables: newTables(), rules: rs, fields: fieldsOf(rs), keep: keepLines,
		bounds: bounds{maxEvents, maxClients, maxBytes}, seed: maphash.MakeSeed(), last: map[*source.Origin]int64{},
	}
}

// add takes one event of the log, in order.
func (c *collector) add(ev *parse.Event, origin *source.Origin, line *source.Line) {
	if !ev.Addr.IsValid() {
		return
	}
	web := len(ev.Method) > 0
	matched := false
	k := classKey{ev.Service, origin, ev.Outcome, ev.Kind, ev.First, ev.Verified, ev.Informs}
	cl, known := c.classOf[k]
	if !known {
		if len(c.classes) == maxClasses {
			c.left++
			return
		}
		cl = uint16(len(c.classes))
		c.classOf[k] = cl
		c.classes = append(c.classes, class{parse.Event{Service: strings.Clone(ev.Service), Outcome: ev.Outcome, Kind: ev.Kind, First: ev.First, Verified: ev.Verified, Informs: ev.Informs}, origin})
		var takes uint64
		serves := false
		for i, r := range c.rules {
			serves = serves || r.Match.Serves(ev.Service)
			if r.Match.Takes(ev.Service, ev.Outcome, ev.Kind) {
				takes |= 1 << i
			}
		}
		c.takes, c.serves = append(c.takes, takes), append(c.serves, serves)
	}
	for i := range c.rules {
		if c.takes[cl]&(1<<i) != 0 && c.rules[i].Match.Event(ev, origin) {
			matched = true
			break
		}
	}
	page := web && isPage(ev)
	if !matched && (!c.serves[cl] || !page && ev.Outcome != parse.Success) {
		return
	}
	if matched && ev.Count == 0 && ev.Outcome != parse.Success {
		return // counted already by another line
	}
	if !c.wanted(ev.Addr) {
		return
	}
	if ev.Time < c.last[origin]-int64(time.Hour) {
		c.backs++
	}
	c.last[origin] = ev.Time
	e := event{at: ev.Time, class: cl, src: c.source(ev.Addr), user: c.text(ev.User), count: uint16(min(ev.Count, 1000))}
	if web || c.fields.captured || c.fields.message {
		e.rec = c.record(ev)
	}
	c.events = append(c.events, e)
	c.remember(&c.sources[e.src], matched && ev.Outcome != parse.Success, page || ev.Outcome == parse.Success, origin, line)
	for len(c.events) >= c.bounds.events || len(c.sources) >= c.bounds.clients || c.bytes >= c.bounds.bytes {
		if c.half++; c.half > 40 {
			c.left++
			return
		}
		c.thin()
	}
}

// isPage reports whether a web server answered a request for a page.
func isPage(ev *parse.Event) bool {
	return ev.Status >= 200 && ev.Status < 400 && (string(ev.Method) == "GET" || string(ev.Method) == "HEAD")
}

// network is what is kept or dropped as a whole.
func network(a netip.Addr) netip.Prefix {
	a = addr.Of(a)
	bits := 48
	if a.Is4() {
		bits = 16
	}
	p, _ := a.Prefix(bits)
	return p
}

func (c *collector) wanted(a netip.Addr) bool {
	return c.half == 0 || maphash.Comparable(c.seed, network(a))&(1<<c.half-1) == 0
}

// remember keeps the last lines of a source that may be honest.
func (c *collector) remember(s *client, bad, good bool, origin *source.Origin, line *source.Line) {
	if good {
		s.good++
		return
	}
	if !bad {
		return
	}
	if s.bad++; s.bad > 3*s.good+10 { // no honest source, as it looks
		for i := range s.lines {
			c.shown -= len(s.lines[i].Text)
		}
		s.lines = nil
		return
	}
	shown := Shown{Source: origin.Name, Line: line.Number}
	if c.keep && c.shown < maxLines {
		text := line.Text[:min(len(line.Text), maxLine)]
		shown.Text = strings.ToValidUTF8(string(text), "\uFFFD")
		c.shown += len(shown.Text)
	}
	if len(s.lines) == maxShown {
		c.shown -= len(s.lines[0].Text)
		s.lines = append(s.lines[:0], s.lines[1:]...)
	}
	s.lines = append(s.lines, shown)
}

func (t *tables) source(a netip.Addr) uint32 {
	i, ok := t.sourceOf[a]
	if !ok {
		i = uint32(len(t.sources))
		t.sourceOf[a] = i
		t.sources = append(t.sources, client{addr: a})
	}
	return i
}

// text keeps a name; a long one is cut, and still told from others by its end.
func (t *tables) text(v []byte) uint32 {
	if len(v) == 0 {
		return 0
	}
	v = v[:min(len(v), maxText)]
	if i, ok := t.textOf[string(v)]; ok {
		return i
	}
	s := string(v)
	i := uint32(len(t.texts))
	t.texts, t.textOf[s] = append(t.texts, []byte(s)), i
	t.bytes += 2*len(s) + 64
	return i
}

// record keeps the fields of a request, or those captured, that rules name.
func (c *collector) record(ev *parse.Event) uint32 {
	r := parse.Event{Method: ev.Method, Status: ev.Status}
	pick := func(wanted bool, dst *[]byte, v []byte) {
		if wanted {
			*dst = v[:min(len(v), 8*maxText)]
		}
	}
	pick(c.fields.path, &r.Path, ev.Path)
	pick(c.fields.query, &r.Query, ev.Query)
	pick(c.fields.agent, &r.Agent, ev.Agent)
	pick(c.fields.referrer, &r.Referrer, ev.Referrer)
	pick(c.fields.host, &r.Host, ev.Host)
	pick(c.fields.message, &r.Message, ev.Message)
	if c.fields.captured {
		r.Fields = ev.Fields
	}
	return c.recordOfEvent(&r)
}

func (c *collector) recordOfEvent(r *parse.Event) uint32 {
	b := append(c.buf[:0], byte(r.Status>>8), byte(r.Status))
	for _, v := range [][]byte{r.Method, r.Path, r.Query, r.Agent, r.Referrer, r.Host, r.Message} {
		b = append(append(b, byte(len(v)>>8), byte(len(v))), v...)
	}
	for _, f := range r.Fields {
		b = append(append(b, f.Name...), 0)
		v := f.Value[:min(len(f.Value), maxText)]
		b = append(append(b, byte(len(v)>>8), byte(len(v))), v...)
	}
	c.buf = b
	if i, ok := c.recordOf[string(b)]; ok {
		return i
	}
	own := parse.Event{Status: r.Status}
	copies := []struct {
		dst *[]byte
		v   []byte
	}{{&own.Method, r.Method}, {&own.Path, r.Path}, {&own.Query, r.Query}, {&own.Agent, r.Agent}, {&own.Referrer, r.Referrer}, {&own.Host, r.Host}, {&own.Message, r.Message}}
	for _, x := range copies {
		if x.v != nil {
			*x.dst = append([]byte{}, x.v...)
		}
	}
	for _, f := range r.Fields {
		own.Fields = append(own.Fields, parse.Field{Name: strings.Clone(f.Name), Value: append([]byte(nil), f.Value[:min(len(f.Value), maxText)]...)})
	}
	i := uint32(len(c.records))
	c.records, c.recordOf[string(b)] = append(c.records, own), i
	c.bytes += 2*len(b) + 256
	return i
}

// thin drops the events of networks that are no longer wanted, and what only
// they refer to.
func (c *collector) thin() {
	old := c.tables
	fresh := newTables()
	fresh.classes, fresh.classOf = old.classes, old.classOf
	c.tables = fresh
	c.shown = 0
	kept := c.events[:0]
	moved := make([]uint32, len(old.sources)) // and one
	for _, e := range c.events {
		s := &old.sources[e.src]
		if !c.wanted(s.addr) {
			continue
		}
		if moved[e.src] == 0 {
			i := c.source(s.addr)
			c.sources[i] = *s
			for _, l := range s.lines {
				c.shown += len(l.Text)
			}
			moved[e.src] = i + 1
		}
		e.src = moved[e.src] - 1
		if e.user != 0 {
			e.user = c.text(old.texts[e.user])
		}
		if e.rec != 0 {
			e.rec = c.recordOfEvent(&old.records[e.rec])
		}
		kept = append(kept, e)
	}
	c.events = kept
}

// fill makes the event that e was made of; the fields of a record alias it.
func (t *tables) fill(ev *parse.Event, e *event) {
	if e.rec != 0 {
		*ev = t.records[e.rec]
		p := &t.classes[e.class].proto
		ev.Service, ev.Outcome, ev.Kind, ev.First, ev.Verified, ev.Informs = p.Service, p.Outcome, p.Kind, p.First, p.Verified, p.Informs
	} else {
		*ev = t.classes[e.class].proto
	}
	ev.Time, ev.Addr, ev.User, ev.Count = e.at, t.sources[e.src].addr, t.texts[e.user], int(e.count)
}
