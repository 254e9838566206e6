package pipeline

import (
	"cmp"
	"path/filepath"
	"sync"
	"time"

	"stoplog/internal/parse"
	"stoplog/internal/parse/pack"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// builtinPacks reads the embedded packs once a process: they are immutable.
var builtinPacks = sync.OnceValues(pack.Builtin)

// LineReader parses single lines with no rules about them.
type LineReader struct {
	p  *parse.Parser
	ev parse.Event
}

// NewLineReader makes one that shows what a line could be, of whatever service:
// at first of this one and in this format, both "" when unknown.
func NewLineReader(service, format string, zone *time.Location) (*LineReader, error) {
	return newLineReader(parse.Options{Service: service, Format: format, Location: zone, Sniff: true})
}

// NewSourceReader makes one that reads a line of path as the daemon would read
// it by that source.
func NewSourceReader(s *rules.Source, path string, zone *time.Location) (*LineReader, error) {
	if s.Zone != nil {
		zone = s.Zone
	}
	return newLineReader(parse.Options{Service: s.Writer(path), Format: s.Format, Map: s.Fields, Location: zone})
}

func newLineReader(o parse.Options) (*LineReader, error) {
	packs, err := builtinPacks()
	if err != nil {
		return nil, err
	}
	o.Packs = packs
	p, err := parse.New(o)
	if err != nil {
		return nil, err
	}
	return &LineReader{p: p}, nil
}

// headLines is how many lines of a file tell what it is.
const headLines = 64

// Identify names the service whose own log lines is the beginning of, for files
// that no source lists: every line must be understood, and as of one service.
// It is "" when the lines have syslog headers, which tell by themselves, or when
// nobody can say. Not for what blocks: it believes the file.
func (k *Compiled) Identify(o *source.Origin, lines []source.Line, arrival time.Time) (string, error) {
	path, err := filepath.Abs(o.Listed())
	if err != nil || k.sourceOf(o) != nil || o.Service != "" || o.Format != "" || rules.ServiceOf(path) != "" {
		return o.Service, nil
	}
	plain, err := newLineReader(parse.Options{Location: k.zone})
	if err != nil {
		return "", err
	}
	any, err := NewLineReader("", "", k.zone)
	if err != nil {
		return "", err
	}
	service := ""
	for i := range lines[:min(len(lines), headLines)] {
		l := &lines[i]
		if len(l.Text) == 0 {
			continue
		}
		ev := any.Line(l, arrival)
		if ev == nil || ev.Service == "generic" || service != "" && ev.Service != service || plain.Line(l, arrival) != nil {
			return "", nil
		}
		service = ev.Service
	}
	return service, nil
}

// Line returns what the line says, nil when nobody knows; it is valid until
// the next call.
func (r *LineReader) Line(l *source.Line, arrival time.Time) *parse.Event {
	r.p.Reset()
	if !r.p.Parse(l, arrival.UnixNano(), &r.ev) {
		return nil
	}
	return &r.ev
}

// Stamps returns what reads the own times of lines of an origin: see
// Compiled.Stamps.
func (r *LineReader) Stamps(zone *time.Location, ref time.Time) func(*source.Origin) func([]byte) (int64, bool) {
	return func(*source.Origin) func([]byte) (int64, bool) { return stampOf(r.p, zone, ref) }
}

// Stamps returns what reads the own times of lines of an origin, in Unix
// nanoseconds, by the format of the source that it belongs to: an access log's
// stamp stands within the line, and JSON has it in a field. It is for putting
// files in order and finding where to begin; ref is the time that stamps without
// a year are read near. Each function that it makes is for one goroutine.
func (k *Compiled) Stamps(ref time.Time) func(*source.Origin) func([]byte) (int64, bool) {
	return func(o *source.Origin) func([]byte) (int64, bool) {
		s := k.sourceOf(o)
		if s == nil { // of a file that no source lists: no blame hangs on it
			if r, err := NewLineReader(o.Service, o.Format, k.zone); err == nil {
				return stampOf(r.p, k.zone, ref)
			}
			return Stamp(k.zone, ref)
		}
		zone := cmp.Or(s.Zone, k.zone)
		r, err := k.Reader(o)
		if err != nil {
			return Stamp(zone, ref) // Take reports the error
		}
		return stampOf(r.parser, zone, ref)
	}
}

// stampOf reads a stamp at the line's start, else where p finds it.
func stampOf(p *parse.Parser, zone *time.Location, ref time.Time) func([]byte) (int64, bool) {
	first := Stamp(zone, ref)
	var ev parse.Event
	return func(line []byte) (int64, bool) {
		if ns, ok := first(line); ok {
			return ns, true
		}
		p.Reset()
		known := p.Parse(&source.Line{Text: line}, ref.UnixNano(), &ev)
		return ev.Time, known && ev.Time != 0
	}
}

// Stamp returns what reads the time at a line's start, as Stamps does.
func Stamp(zone *time.Location, ref time.Time) func(line []byte) (int64, bool) {
	return func(line []byte) (int64, bool) {
		return parse.LineTime(line, ref.UnixNano(), zone)
	}
}
