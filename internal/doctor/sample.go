package doctor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// Bounds of what is read of one log.
const (
	maxLines  = 1000
	maxBytes  = 1 << 20
	journalOf = 24 * time.Hour
	patience  = 5 * time.Second
)

// sample is what was read of one log.
type sample struct {
	name         string
	lines, known int
	last         time.Time // stamp of the last line that has one
}

func (x *sample) add(read Reader, text []byte, arrival time.Time) {
	x.count(read, &source.Line{Text: text}, arrival)
}

func (x *sample) count(read Reader, l *source.Line, arrival time.Time) {
	x.lines++
	stamp, known := read(l, arrival)
	if known {
		x.known++
	}
	if stamp != 0 {
		x.last = time.Unix(0, stamp)
	}
}

// command shows more of it.
func (x *sample) command() string {
	if strings.HasPrefix(x.name, "journal") {
		return "journalctl --since -1d | stoplog parse -"
	}
	return "stoplog parse " + quote(x.name)
}

// tail returns the last lines of a file, at most 1000 and of at most 1 MiB.
func tail(path string) ([][]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(0, fi.Size()-maxBytes)
	b, err := io.ReadAll(io.NewSectionReader(f, from, maxBytes))
	if err != nil {
		return nil, err
	}
	if from > 0 { // the first is half a line
		_, b, _ = bytes.Cut(b, []byte("\n"))
	}
	lines := bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
	if len(b) == 0 {
		return nil, nil
	}
	return lines[max(0, len(lines)-maxLines):], nil
}

// journal reads what the daemon would read of the journal, or of the file
// that stands for it, from the last day, and reports 1 when that is anything.
func (d *doctor) journal(ctx context.Context, s rules.Source) int {
	read, err := d.Reader(s)
	if err != nil {
		d.advise(Broken, "logs", s.Kind.String()+": "+err.Error(), "correct the source", "stoplog check")
		return 0
	}
	set, err := source.New([]source.Spec{d.journalSpec(s)}, d.journalOptions())
	if err != nil {
		d.advise(Broken, "logs", s.Kind.String()+": "+err.Error(), "correct the source", "stoplog check")
		return 0
	}
	x := sample{name: s.Kind.String()}
	d.drain(ctx, set, read, &x)
	if x.lines > 0 {
		d.judge(x)
		return 1
	}
	return d.noLines(s, set.Status())
}

func (d *doctor) journalSpec(s rules.Source) source.Spec {
	if s.Kind == rules.Auth {
		return source.Spec{Auth: true}
	}
	j := &source.JournalMatch{Units: s.Units, Identifiers: s.Identifiers, Containers: s.Containers, Raw: s.Matches}
	if d.Root != "" {
		j.Directory = d.path("/var/log/journal")
	}
	return source.Spec{Journal: j}
}

func (d *doctor) journalOptions() source.Options {
	o := source.Options{Since: d.Now.Add(-journalOf)}
	if d.Stamp != nil {
		o.Stamp = func(*source.Origin) func([]byte) (int64, bool) { return d.Stamp }
	}
	if d.Root != "" {
		o.JournalSocket = d.path("/run/systemd/journal/socket")
		o.JournalDirs = []string{d.path("/var/log/journal"), d.path("/run/log/journal")}
		o.AuthFiles = []string{d.path("/var/log/auth.log"), d.path("/var/log/secure")}
	}
	return o
}

// drain reads until everything written so far is read, enough is, or patience
// is over.
func (d *doctor) drain(ctx context.Context, set *source.Set, read Reader, x *sample) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	batches := make(chan *source.Batch)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = set.Run(ctx, batches) // what it could not read, Status says
	}()
	caughtUp := set.CaughtUp()
	for {
		select {
		case b := <-batches:
			if len(b.Lines) > 0 { // one that only marks how far is read says nothing
				x.name = d.shownSource(b.Origin.Name)
			}
			for i := range b.Lines {
				x.count(read, &b.Lines[i], b.Arrival)
			}
			b.Release()
			if x.lines >= maxLines {
				cancel()
			}
		case <-caughtUp:
			caughtUp = nil
			cancel()
		case <-done:
			return
		}
	}
}

// noLines reports why a source of logins has no lines.
func (d *doctor) noLines(s rules.Source, all []source.Status) int {
	name, why := s.Kind.String(), ""
	for _, st := range all {
		name = d.shownSource(st.Name)
		if st.Why != "" {
			why = ": " + st.Why
		}
	}
	switch {
	case why == "" && len(all) > 0:
		d.say(Note, "logs", fmt.Sprintf("%s: no line in the last day", name))
		return 1
	case s.Kind == rules.Auth:
		d.advise(Warning, "logs", "logins: found neither a journal nor a log file"+why,
			"enable the journal, or install rsyslog for /var/log/auth.log", "apt install rsyslog")
	default:
		d.advise(Warning, "logs", name+": nothing can be read"+why, "check the journal", "journalctl -n 5")
	}
	return 0
}

// shownSource is a source's name as the machine itself knows it.
func (d *doctor) shownSource(name string) string {
	if d.Root == "" {
		return name
	}
	return strings.ReplaceAll(name, filepath.Clean(d.Root), "")
}
