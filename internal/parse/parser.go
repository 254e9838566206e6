package parse

import (
	"time"

	"stoplog/internal/source"
)

// Options say how lines are to be read. The zero value sniffs.
type Options struct {
	// Service names the family that is tried first ("sshd", "postfix"…).
	Service string
	// Format is "", "auto", "combined", "common", "vhost", "json", "logfmt",
	// or an nginx log_format or Apache LogFormat string.
	Format string
	// Location is the zone of stamps that tell none; nil is UTC.
	Location *time.Location
	// Client tells which peers are proxies and which header names the client.
	Client ClientOptions
	// Verified marks every event: only the server itself writes the origin.
	Verified bool
}

// Parser turns lines into events. It is used by one goroutine.
type Parser struct {
	opt Options
	now int64
	tag []byte // of the line being read, nil when it has none
	pid []byte // its process id, nil when it has none
	msg []byte // its message after the envelope
	web web    // formats and memory of the web families
}

// New checks o and returns a parser for it.
func New(o Options) (*Parser, error) {
	if o.Location == nil {
		o.Location = time.UTC
	}
	w, err := newWeb(&o)
	if err != nil {
		return nil, err
	}
	return &Parser{opt: o, web: w}, nil
}

// Parse reads one line, which arrived at now (Unix ns), and reports whether it
// is understood. It clears ev first.
func (p *Parser) Parse(line *source.Line, now int64, ev *Event) bool {
	*ev = Event{Fields: ev.Fields[:0]}
	p.now = now
	return bareWeb(p, line.Text, ev) || bareDaemon(p, line.Text, ev)
}

// Reset forgets the memory that unescaped fields of earlier events live in.
func (p *Parser) Reset() { p.web.reset() }
