package pipeline

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
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
}

// Reader parses batches of one origin. Several may work at once, each on its
// own goroutine; what one read last is valid until it reads again or the
// batch is released.
type Reader struct {
	parser *parse.Parser
	hasOwn bool
	batch  *source.Batch
	events []item
	cut    uint64
	known  int // lines understood, by more than the rules' own patterns
	// spare is where a line is parsed before it is known to be an event.
	spare parse.Event
}

// Kit is what readers are made of: the rules and their patterns, compiled
// once. It may be used from several goroutines.
type Kit struct {
	set    *rules.Set
	zone   *time.Location
	custom *pack.Set
	packs  *pack.Set
}

// NewKit compiles the patterns of set; zone is that of stamps which name none.
func NewKit(set *rules.Set, zone *time.Location) (*Kit, error) {
	custom, err := set.Custom()
	if err != nil {
		return nil, err
	}
	packs, err := builtinPacks()
	if err != nil {
		return nil, err
	}
	return &Kit{set, zone, custom, packs}, nil
}

// Reader makes a reader for lines of o by the source that o belongs to. A
// replayed file belongs to the source that would follow it, if one would;
// other lines are sniffed.
func (k *Kit) Reader(o *source.Origin) (*Reader, error) {
	opt := parse.Options{Service: o.Service, Format: o.Format, Location: k.zone, Custom: k.custom, Packs: k.packs}
	if s := k.sourceOf(o); s != nil {
		opt.Service, opt.Format = cmp.Or(opt.Service, s.Service), cmp.Or(opt.Format, s.Format)
		opt.Client = parse.ClientOptions{Header: s.Client.Header, Trusted: s.Client.Trusted}
		opt.Map = s.Fields
		if s.Zone != nil {
			opt.Location = s.Zone
		}
	}
	p, err := parse.New(opt)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", o.Name, err)
	}
	return &Reader{parser: p, hasOwn: k.custom != nil}, nil
}

func (k *Kit) sourceOf(o *source.Origin) *rules.Source {
	if o.Spec >= 0 && o.Spec < len(k.set.Sources) {
		return &k.set.Sources[o.Spec]
	}
	path, err := filepath.Abs(o.Name)
	if err != nil {
		return nil
	}
	for i := range k.set.Sources {
		s := &k.set.Sources[i]
		if s.Kind != rules.File {
			continue
		}
		// A rotated file is named after the one it was: access.log.2.gz,
		// access.log-20261120.gz.
		for name := path; name != ""; name = cutExtension(name) {
			if ok, _ := filepath.Match(s.Path, name); ok {
				return s
			}
		}
	}
	return nil
}

// cutExtension takes the last extension or date off a path, "" when it has
// none.
func cutExtension(path string) string {
	base := filepath.Base(path)
	i := strings.LastIndexAny(base, ".-")
	if i <= 0 || base[i] == '-' && strings.Trim(base[i+1:], "0123456789") != "" {
		return ""
	}
	return path[:len(path)-len(base)+i]
}

// Read parses all lines of b. It keeps b until the next Read.
func (r *Reader) Read(b *source.Batch) {
	r.parser.Reset()
	r.batch, r.events, r.cut, r.known = b, r.events[:0], 0, 0
	arrival := b.Arrival.UnixNano()
	for i := range b.Lines {
		line := &b.Lines[i]
		if line.Cut {
			r.cut++
		}
		ev := r.next()
		known := r.parser.Parse(line, arrival, &ev.Event)
		if known {
			ev.line = i
			r.known++
		} else {
			r.events = r.events[:len(r.events)-1]
		}
		if r.hasOwn {
			r.own(i)
		}
	}
}

// Known is how many lines of the last batch were understood.
func (r *Reader) Known() int { return r.known }

// Each calls f for the events of the last batch, in order; they are valid
// until the next Read.
func (r *Reader) Each(f func(ev *parse.Event)) {
	for i := range r.events {
		f(&r.events[i].Event)
	}
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

// own adds the events of the rules' own patterns.
func (r *Reader) own(line int) {
	r.parser.Custom(&r.spare, func(ev *parse.Event) {
		it := r.next()
		fields := append(it.Fields[:0], ev.Fields...)
		it.Event = *ev
		it.Fields = fields
		it.line = line
	})
}
