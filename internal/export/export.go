// Package export writes what is blocked in the formats that other firewalls
// and proxies read. Whatever the format, a list is the blocks minus the
// allowlist: an allowed address is in none, even inside a blocked prefix.
package export

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"
)

// Entry is one block. The zero Until means without an end.
type Entry struct {
	Prefix netip.Prefix
	Until  time.Time
	Rule   string
	Count  int // failures
	Points int // what they weighed
	Limit  Limit
}

// Options say what is left out.
type Options struct {
	// Cap is how many prefixes a list may have; 0: the format's own cap, less
	// than 0: no cap. Over it those that end last stay in.
	Cap int
	// Allow is cut out of every block.
	Allow []netip.Prefix
	// Now is the time of writing: blocks that ended by then are no more, and
	// formats that count down count from here.
	Now time.Time
	// Guard says which limited blocks are listed as if they closed everything;
	// the zero Guard is WebPorts in formats for web servers, none in others.
	Guard Guard
}

// Format describes one format.
type Format struct {
	Name  string
	About string // one line: what reads it
	MIME  string
	// Cap is the default of Options.Cap: what its reader can bear.
	Cap int
	// Counts says that the text holds seconds that are left, so that it
	// differs from second to second.
	Counts bool
	// Mute formats have no place for a comment, and so for what is left out.
	Mute bool
	// Web formats are read by web servers.
	Web bool
}

// grain says what prefixes may be merged into one.
type grain uint8

const (
	byCover grain = iota // neighbours, whatever their end
	byEnd                // neighbours that end in the same second
	byEntry              // pieces of one block
)

// writer writes a list. Errors of w stick in it.
type writer func(w *bufio.Writer, l *List)

// format is a Format with its writer, and which limits it can express.
type format struct {
	Format
	grain grain
	able  able
	write writer
}

// Formats lists what Write can write.
func Formats() []Format {
	var fs []Format
	for _, f := range formats() {
		fs = append(fs, f.Format)
	}
	return fs
}

// Find returns the format of that name.
func Find(name string) (Format, error) {
	f, err := find(name)
	return f.Format, err
}

func find(name string) (format, error) {
	var names []string
	for _, f := range formats() {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return format{}, fmt.Errorf("unknown format %q; expected one of %s", name, strings.Join(names, ", "))
}

// Write writes es in a format: the fewest prefixes that cover exactly what is
// blocked and not allowed, in order of address, IPv4 first. Formats that know
// an end for each prefix merge only neighbours that end together; json and csv
// merge nothing. What the cap leaves out is counted in left and stated in a
// comment where the format has comments. Limited blocks, which close some ports
// or slow down, are written as such where the format can express it, or as whole
// blocks as Options.Guard says; the first comment says how many were left out. Prefixes that are not valid or hold
// a whole family are an error, and nothing is written.
func Write(w io.Writer, name string, es []Entry, o Options) (left int, err error) {
	l, err := Build(name, es, o)
	if err != nil {
		return 0, err
	}
	return l.Left, l.Write(w)
}

// Build makes the list that Write writes.
func Build(name string, es []Entry, o Options) (*List, error) {
	f, err := find(name)
	if err != nil {
		return nil, err
	}
	if o.Guard.IsZero() && f.Web {
		o.Guard = WebPorts()
	}
	l, err := build(es, o, f)
	if err != nil {
		return nil, err
	}
	if c := cmp.Or(o.Cap, f.Cap); c > 0 {
		l.cut(c)
	}
	return l, nil
}

// Write writes the list's text. It may be called again.
func (l *List) Write(w io.Writer) error {
	b := bufio.NewWriterSize(w, 64<<10)
	l.format.write(b, l)
	return b.Flush()
}
