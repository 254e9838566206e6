package pipeline

import (
	"sync"
	"time"

	"stoplog/internal/parse"
	"stoplog/internal/parse/pack"
	"stoplog/internal/parse/scan"
	"stoplog/internal/source"
)

// builtinPacks reads the embedded packs once a process: they are immutable.
var builtinPacks = sync.OnceValues(pack.Builtin)

// LineReader parses single lines with no rules about them.
type LineReader struct {
	p  *parse.Parser
	ev parse.Event
}

// NewLineReader makes one for a service and a format, both "" to sniff.
func NewLineReader(service, format string, zone *time.Location) (*LineReader, error) {
	packs, err := builtinPacks()
	if err != nil {
		return nil, err
	}
	p, err := parse.New(parse.Options{Service: service, Format: format, Location: zone, Packs: packs})
	if err != nil {
		return nil, err
	}
	return &LineReader{p: p}, nil
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

// Stamp returns what reads a line's own time in Unix nanoseconds, for putting
// files in order and finding where to begin; ref is the time that stamps
// without a year are read near.
func Stamp(zone *time.Location, ref time.Time) func(line []byte) (int64, bool) {
	return func(line []byte) (int64, bool) {
		ns, _, ok := scan.Stamp(line, ref.UnixNano(), zone)
		return ns, ok
	}
}
