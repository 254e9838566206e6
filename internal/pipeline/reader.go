package pipeline

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"stoplog/internal/parse"
	"stoplog/internal/parse/pack"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// item is one event and the line it is of.
type item struct {
	parse.Event
	line int
	tail bool  // the line is the end of a record that began before
	held *held // of an event that a guard held: its line is of an earlier batch
}

// text is the line that it is of.
func (it *item) text(b *source.Batch) *source.Line {
	if it.held != nil {
		return &source.Line{Text: it.held.Text, Number: it.held.Number}
	}
	return &b.Lines[it.line]
}

// shaped is a line that has a shape.
type shaped struct {
	parse.Shape
	line int
}

// Reader parses batches of one origin. Several may work at once, each on its
// own goroutine; what one read last is valid until it reads again or the
// batch is released.
type Reader struct {
	parser *parse.Parser
	hasOwn bool
	// filters of fail2ban read what Machine.filter gives them.
	filters []rules.Filter
	zone    *time.Location
	batch   *source.Batch
	events  []item
	shapes  []shaped
	cut     uint64
	known   int // lines understood, by the readers here or a rule's pattern
	// foreign is how many journal entries of the batch were by others than the
	// service's own units, and foreigner describes one.
	foreign   uint64
	foreigner string
}

// Compiled is what readers are made of: the rules and their patterns, compiled
// once. It may be used from several goroutines.
type Compiled struct {
	set    *rules.Set
	zone   *time.Location
	custom []rules.Custom
	packs  *pack.Set

	mu   sync.Mutex
	sets map[string]*pack.Set // of patterns, by their names: origins share them
}

// Compile compiles the patterns of set; zone is that of stamps which name none.
func Compile(set *rules.Set, zone *time.Location) (*Compiled, error) {
	custom, err := set.Custom()
	if err != nil {
		return nil, err
	}
	packs, err := builtinPacks()
	if err != nil {
		return nil, err
	}
	return &Compiled{set: set, zone: zone, custom: custom, packs: packs, sets: map[string]*pack.Set{}}, nil
}

// Reader makes a reader for lines of o by the source that o belongs to. A
// replayed file belongs to the source that would follow it, if one would. Which
// services may speak in it is decided here, once.
func (k *Compiled) Reader(o *source.Origin) (*Reader, error) {
	s := k.sourceOf(o)
	opt := parse.Options{Service: o.Service, Format: o.Format, Location: k.zone, Packs: k.packs}
	if s != nil {
		opt.Format = cmp.Or(opt.Format, s.Format)
		opt.Service = cmp.Or(opt.Service, s.Writer(o.Listed()))
		opt.Client = parse.ClientOptions{Header: s.Client.Header, Trusted: s.Client.Trusted}
		opt.Map = s.Fields
		opt.Journal = journalOptions(s)
		if s.Zone != nil {
			opt.Location = s.Zone
		}
	} else if path, err := filepath.Abs(o.Listed()); err == nil {
		opt.Service = cmp.Or(opt.Service, rules.ServiceOf(path))
	}
	opt.Custom = k.patterns(rules.Read(k.custom, o, s, opt.Service))
	p, err := parse.New(opt)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", o.Name, err)
	}
	return &Reader{parser: p, hasOwn: !opt.Custom.None(), filters: k.set.Filters(o), zone: opt.Location}, nil
}

// journalOptions says which writers of journal entries a source names: by units,
// containers and fields of their accounts. A file is named as a whole.
func journalOptions(s *rules.Source) parse.JournalOptions {
	if s.Kind != rules.Journal {
		return parse.JournalOptions{All: s.Kind != rules.Auth && s.Service != ""}
	}
	m := source.JournalMatch{Units: s.Units, Identifiers: s.Identifiers, Containers: s.Containers, Raw: s.Matches}
	all, users := m.Trusted()
	return parse.JournalOptions{Units: m.FullUnits(), Containers: s.Containers, All: all, Users: users}
}

func (k *Compiled) patterns(r rules.Reading) parse.Patterns {
	out := parse.Patterns{Bound: k.together(r.Bound), Free: k.together(r.Free)}
	for service, packs := range r.Tagged {
		if out.Tagged == nil {
			out.Tagged = map[string]*pack.Set{}
		}
		out.Tagged[service] = k.together(packs)
	}
	return out
}

// together returns the set of those packs, nil for none.
func (k *Compiled) together(packs []*pack.Pack) *pack.Set {
	if packs == nil {
		return nil
	}
	var names strings.Builder
	for _, p := range packs {
		names.WriteString(p.Name())
		names.WriteByte(0)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.sets[names.String()]
	if s == nil {
		s = pack.NewSet(packs...)
		k.sets[names.String()] = s
	}
	return s
}

// sourceOf is the source that o belongs to, nil when none lists it.
func (k *Compiled) sourceOf(o *source.Origin) *rules.Source {
	if o.Spec >= 0 && o.Spec < len(k.set.Sources) {
		return &k.set.Sources[o.Spec]
	}
	path, err := filepath.Abs(o.Listed())
	if err != nil {
		return nil
	}
	for i := range k.set.Sources {
		if s := &k.set.Sources[i]; s.Names(path) {
			return s
		}
	}
	return nil
}

// Read parses all lines of b. It keeps b until the next Read.
func (r *Reader) Read(b *source.Batch) {
	r.parser.Reset()
	r.batch, r.events, r.shapes, r.cut, r.known = b, r.events[:0], r.shapes[:0], 0, 0
	before, _ := r.parser.Foreign()
	arrival := b.Arrival.UnixNano()
	for i := range b.Lines {
		line := &b.Lines[i]
		if line.Cut {
			r.cut++
		}
		ev := r.next()
		ev.held = nil
		parsed := &ev.Event
		known := r.parser.Parse(line, arrival, parsed)
		shape, told := r.parser.Shape(known, parsed)
		if shape != (parse.Shape{}) {
			r.shapes = append(r.shapes, shaped{shape, i})
		}
		understood := known || told
		if understood {
			ev.line, ev.tail = i, told
		} else {
			r.events, parsed = r.events[:len(r.events)-1], nil
		}
		if r.hasOwn {
			before := len(r.events)
			r.own(i, parsed)
			understood = understood || len(r.events) > before
		}
		if understood {
			r.known++
		}
	}
	r.foreign, r.foreigner = r.parser.Foreign()
	r.foreign -= before
}

// Known is how many lines of the last batch were understood.
func (r *Reader) Known() int { return r.known }

// Origin is where the lines of the last batch are from.
func (r *Reader) Origin() *source.Origin { return r.batch.Origin }

// Each calls f for the events of the last batch, in order; they are valid
// until the next Read.
func (r *Reader) Each(f func(ev *parse.Event)) {
	for i := range r.events {
		f(&r.events[i].Event)
	}
}

// Between calls f for the joined events of the last batch whose time lies within
// from, and before until (Unix nanoseconds; 0: no bound), in order. It returns how
// many lines were left out. Both arguments are valid during the call.
func (r *Reader) Between(from, until int64, f func(ev *parse.Event, line *source.Line)) (skipped int) {
	return r.between(from, until, func(it *item) { f(&it.Event, it.text(r.batch)) })
}

func (r *Reader) between(from, until int64, f func(*item)) (skipped int) {
	last := -1
	for i := range r.events {
		it := &r.events[i]
		if it.Time < from && from != 0 || it.Time >= until && until != 0 {
			if it.line != last && it.held == nil {
				skipped++
			}
			last = it.line
			continue
		}
		f(it)
	}
	return skipped
}

// next makes room for one more event, reusing the memory of an earlier batch.
func (r *Reader) next() *item {
	if n := len(r.events); n < cap(r.events) {
		r.events = r.events[:n+1]
	} else {
		r.events = append(r.events, item{})
	}
	return &r.events[len(r.events)-1]
}

// own adds the events of the rules' own patterns; ev is what the line is
// besides, nil for nothing.
func (r *Reader) own(line int, ev *parse.Event) {
	r.parser.Custom(ev, func(ev *parse.Event) {
		it := r.next()
		it.held, it.tail = nil, false
		fields := append(it.Fields[:0], ev.Fields...)
		it.Event = *ev
		it.Fields = fields
		it.line = line
	})
}
