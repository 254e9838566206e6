// Package replay runs past logs through the pipeline and reports what the rules
// would have done. It touches no firewall and no state.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/parse"
	"stoplog/internal/pipeline"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// Options say what to replay.
type Options struct {
	// Service and Format say what wrote the files, for those that no source lists.
	Service, Format string
	// As, when set, is the name of a source of the rules, or the usual path of a
	// known service's log: the files are read as that one's. See rules.SourceAs.
	As    string
	Set   *rules.Set
	Files []string // "-" is Stdin
	// Journal is what of the systemd journal is read, after the files: see
	// JournalOf. Its times and counters are set here.
	Journal []source.JournalRead
	// Since and Until bound the time of the lines that count; zero: no bound.
	Since, Until time.Time
	// Progress, when set, is kept up to date while Run works.
	Progress *Progress
	Zone     *time.Location
	Stdin    io.Reader
}

// Progress is how far a replay is. It may be read at any time.
type Progress struct {
	Bytes atomic.Int64 // read of the files, as they are on disk
	Lines atomic.Int64
}

// ErrNoSource says that Options.As names no source.
var ErrNoSource = errors.New("no source of the rules has this name")

// Summary counts a whole replay. Prevented are the events whose source
// was blocked by then. Parse and Detect are time spent there, by all workers.
// Notes tell what of the rules' lists could not be read.
type Summary struct {
	Lines, Events, Blocks, Prevented uint64
	Wall, Parse, Detect              time.Duration
	Workers                          int
	Notes                            []string
	// Rules are those with breaches, sorted by name.
	Rules []RuleSummary
	// GoodHit is how many good sources met a block; see GoodSource.
	GoodHit int
	// Of Options.Since and Until: understood lines that did not count.
	Skipped uint64
}

// chunk is how many lines travel together: few enough that their events stay
// in a core's cache until detection reads them.
const chunk = 256

// slot carries one chunk from the reader by a parser to detection.
type slot struct {
	readers map[*source.Origin]*pipeline.Reader
	reader  *pipeline.Reader
	part    source.Batch  // the chunk
	whole   *source.Batch // set on its last chunk: to release
	parsed  chan error    // holds one
	took    time.Duration
	err     error
}

// Run runs the files through the same code as a live daemon and calls emit
// for each thing that would have happened, in order. Lines are parsed in parallel and judged in their
// order, so that the outcome does not depend on the number of cores. It
// touches no wall and no state, and blocks until done.
func Run(ctx context.Context, o Options, emit func(Answer) error) (Summary, error) {
	r, err := newReplay(o, emit)
	if err != nil {
		return Summary{}, err
	}
	if err = r.run(ctx); err != nil {
		return r.sum, err
	}
	r.sum.Prevented = r.machine.Engine.Stopped()
	r.sum.Rules, r.sum.GoodHit = r.tally.summaries()
	if n := r.tally.note(); n != "" {
		r.sum.Notes = append(r.sum.Notes, n)
	}
	return r.sum, nil
}

// Read reads the files as Run does and calls each for every event, joined to its
// connection, in order; its arguments are valid during the call. Nothing is
// counted. An error of each ends it.
func Read(ctx context.Context, o Options, each func(*parse.Event, *source.Origin, *source.Line) error) (Summary, error) {
	r, err := newReplay(o, nil)
	if err != nil {
		return Summary{}, err
	}
	r.each = each
	err = r.run(ctx)
	return r.sum, err
}

// run reads, parses, joins and judges all files.
func (r *replay) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now()
	work, ordered, joined := make(chan *slot, cap(r.free)), make(chan *slot, cap(r.free)), make(chan *slot, cap(r.free))
	for range r.sum.Workers {
		go r.parse(work)
	}
	go func() {
		defer close(joined)
		for s := range ordered {
			r.join(s)
			joined <- s
		}
	}()
	read := make(chan error, 1)
	go func() {
		err := r.read(ctx, work, ordered)
		close(work)
		close(ordered)
		read <- err
	}()
	err := r.judge(joined, cancel)
	if e := <-read; err == nil {
		err = e
	}
	r.sum.Wall = time.Since(begin)
	return err
}

type replay struct {
	opt      Options
	emit     func(Answer) error
	each     func(*parse.Event, *source.Origin, *source.Line) error // of Read; nil: Run
	as       int                                                    // the index of Options.As
	tally    *tally
	compiled *pipeline.Compiled
	machine  *pipeline.Machine
	free     chan *slot
	sum      Summary
	last     []Answer // of the last breach
	err      error    // of emit or each
}

func newReplay(o Options, emit func(Answer) error) (*replay, error) {
	opt, notes := pipeline.LedgerOptions(o.Set)
	led, _, err := ledger.Open("", time.Unix(0, 0), opt)
	if err != nil {
		return nil, err
	}
	compiled, err := pipeline.Compile(o.Set, o.Zone)
	if err != nil {
		return nil, err
	}
	r := &replay{opt: o, emit: emit, compiled: compiled, machine: pipeline.New(compiled, pipeline.NewEngine(o.Set), led)}
	if o.As != "" {
		as, ok := o.Set.SourceAs(o.As)
		if !ok {
			return nil, fmt.Errorf("%s: %w", o.As, ErrNoSource)
		}
		r.as = as
	}
	if o.Progress == nil {
		r.opt.Progress = new(Progress)
	}
	r.tally = newTally(led, o.Set.Privacy.Lines)
	r.sum.Notes = notes
	r.sum.Workers = max(1, runtime.GOMAXPROCS(0)-1)
	slots := 4 * (r.sum.Workers + 1)
	r.free = make(chan *slot, slots)
	for range slots {
		r.free <- &slot{readers: map[*source.Origin]*pipeline.Reader{}, parsed: make(chan error, 1)}
	}
	return r, nil
}

// read cuts batches into chunks and hands each to the parsers and, in order,
// to detection.
func (r *replay) read(ctx context.Context, work, ordered chan<- *slot) error {
	ro := source.ReadOptions{Stdin: r.opt.Stdin, Service: r.opt.Service, Format: r.opt.Format, Stamp: r.compiled.Stamps(time.Now()), As: r.opt.As, Spec: r.as, Bytes: &r.opt.Progress.Bytes}
	var known *source.Origin
	take := func(b *source.Batch) (err error) {
		if b.Origin != known && len(b.Lines) > 0 && b.Lines[0].Entry == nil {
			known = b.Origin // nobody reads its lines yet
			if known.Name != "stdin" && r.opt.As == "" {
				known.Path = r.opt.Set.LogOf(known.Name)
			}
			if known.Service, err = r.compiled.Identify(known, b.Lines, b.Arrival); err != nil {
				return err
			}
		}
		// The batch may be released as soon as its last chunk is on its way.
		lines := b.Lines
		for from := 0; from < len(lines) || from == 0; from += chunk {
			var s *slot
			select {
			case s = <-r.free:
			case <-ctx.Done():
				return ctx.Err()
			}
			to := min(from+chunk, len(lines))
			s.part, s.whole = *b, nil
			s.part.Lines = lines[from:to]
			if to == len(lines) {
				s.whole = b
			}
			ordered <- s
			work <- s
		}
		return nil
	}
	if err := source.ReadFiles(ctx, r.opt.Files, ro, take); err != nil {
		return err
	}
	for _, j := range r.opt.Journal {
		j.Since, j.Until, j.Bytes = r.opt.Since, r.opt.Until, &r.opt.Progress.Bytes
		if err := source.ReadJournal(ctx, j, take); err != nil {
			return fmt.Errorf("reading the journal: %w", err)
		}
	}
	return nil
}

// unit is a unit without the suffix that may be left out.
func unit(name string) string { return strings.TrimSuffix(name, ".service") }

// JournalOf lists what the rules' sources read of the journal; with units, what
// those wrote, as the source that names a unit reads it.
func JournalOf(set *rules.Set, units []string) (out []source.JournalRead) {
	for i := range set.Sources {
		s := &set.Sources[i]
		switch {
		case s.Kind == rules.Journal && len(units) == 0:
			out = append(out, source.JournalRead{Match: &source.JournalMatch{Units: s.Units, Identifiers: s.Identifiers, Containers: s.Containers, Raw: s.Matches}, Service: s.Service, Spec: i})
		case s.Kind == rules.Auth && len(units) == 0:
			out = append(out, source.JournalRead{Spec: i})
		}
	}
	var rest []string
	for _, u := range units {
		i := slices.IndexFunc(set.Sources, func(s rules.Source) bool {
			return s.Kind == rules.Journal && slices.ContainsFunc(s.Units, func(v string) bool { return unit(v) == unit(u) })
		})
		if i < 0 {
			rest = append(rest, u)
			continue
		}
		out = append(out, source.JournalRead{Match: &source.JournalMatch{Units: []string{u}}, Service: set.Sources[i].Service, Spec: i})
	}
	if len(rest) > 0 {
		out = append(out, source.JournalRead{Match: &source.JournalMatch{Units: rest}, Spec: -1})
	}
	return out
}

// parse is one worker.
func (r *replay) parse(work <-chan *slot) {
	for s := range work {
		begin := time.Now()
		s.reader = s.readers[s.part.Origin]
		if s.reader == nil {
			rd, err := r.compiled.Reader(s.part.Origin)
			if err != nil {
				s.parsed <- err
				continue
			}
			s.reader, s.readers[s.part.Origin] = rd, rd
		}
		s.reader.Read(&s.part)
		if r.sum.Workers == 1 {
			r.machine.Join(s.reader, forever) // in order, for there is no other
		}
		s.took = time.Since(begin)
		s.parsed <- nil
	}
}

// join waits for a chunk to be parsed and joins its events to their
// connections, on a core of its own where there are enough.
func (r *replay) join(s *slot) {
	if s.err = <-s.parsed; s.err == nil && r.sum.Workers > 1 {
		begin := time.Now()
		r.machine.Join(s.reader, forever)
		s.took += time.Since(begin)
	}
}

// forever is later than any line of a replay: each is at its own time.
var forever = time.Unix(1<<33, 0)

// judge runs the chunks in order through detection and the ledger. On an
// error it stops the reader and drains what is under way.
func (r *replay) judge(joined <-chan *slot, stop func()) (err error) {
	for s := range joined {
		if err == nil {
			err = s.err
		}
		if err == nil {
			err = r.apply(s)
		}
		if err != nil {
			stop()
		}
		if s.whole != nil {
			s.whole.Release()
		}
		r.free <- s
	}
	if err == nil {
		r.machine.Settle(forever, true, r.applyLines)
		err = r.err
	}
	return err
}

func (r *replay) apply(s *slot) error {
	begin := time.Now()
	r.sum.Lines += uint64(len(s.part.Lines))
	r.opt.Progress.Lines.Add(int64(len(s.part.Lines)))
	r.sum.Parse += s.took
	r.sum.Events += uint64(s.reader.Known())
	r.applyLines(s.reader)
	r.sum.Detect += time.Since(begin)
	return r.err
}

// applyLines counts the events that rd read last.
func (r *replay) applyLines(rd *pipeline.Reader) {
	origin, from, until := rd.Origin(), instant(r.opt.Since), instant(r.opt.Until)
	var skipped int
	if r.each != nil {
		skipped = rd.Between(from, until, func(ev *parse.Event, line *source.Line) {
			if r.err == nil {
				r.err = r.each(ev, origin, line)
			}
		})
	} else {
		skipped = r.machine.ApplyAt(rd, pipeline.Past{
			From: from, Until: until, Emit: r.breach,
			Seen: func(ev *parse.Event, line *source.Line, stopped bool) { r.tally.event(ev, origin, line, stopped) },
		})
	}
	r.sum.Skipped += uint64(skipped)
	r.sum.Events -= min(uint64(skipped), r.sum.Events)
}

// instant is t in Unix nanoseconds, 0 for the zero time.
func instant(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// breach counts and reports what came of one breach.
func (r *replay) breach(b *detect.Breach, o ledger.Outcome) {
	answers := r.answers(b, o)
	r.tally.breach(b, answers)
	for i := range answers {
		if answers[i].Kind == Block {
			r.sum.Blocks++
		}
		if err := r.emit(answers[i]); r.err == nil {
			r.err = err
		}
	}
}
