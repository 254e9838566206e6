package daemon

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"runtime"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/pipeline"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// ReplayOptions say what to replay.
type ReplayOptions struct {
	Set   *rules.Set
	Files []string // "-" is Stdin
	Zone  *time.Location
	Stdin io.Reader
}

// ReplayBlock is a block that would have been set.
type ReplayBlock struct {
	At     time.Time
	Rule   string
	Prefix netip.Prefix
	TTL    time.Duration
	Count  int
	Source string
	Line   int64
}

// ReplaySummary counts a whole replay. Prevented are the events whose source
// was blocked by then. Parse and Detect are time spent there, by all workers.
// Notes tell what of the rules' lists could not be read.
type ReplaySummary struct {
	Lines, Events, Blocks, Prevented uint64
	Wall, Parse, Detect              time.Duration
	Workers                          int
	Notes                            []string
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

// Replay runs the files through the same code as a live daemon and calls emit
// for each block, in order. Lines are parsed in parallel and judged in their
// order, so that the outcome does not depend on the number of cores. It
// touches no wall and no state, and blocks until done.
func Replay(ctx context.Context, o ReplayOptions, emit func(ReplayBlock) error) (ReplaySummary, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := newReplay(o, emit)
	if err != nil {
		return ReplaySummary{}, err
	}
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
	err = r.judge(joined, cancel)
	if e := <-read; err == nil {
		err = e
	}
	es := r.machine.Engine.Stats()
	r.sum.Prevented = es.Stragglers
	r.sum.Wall = time.Since(begin)
	return r.sum, err
}

type replay struct {
	opt     ReplayOptions
	emit    func(ReplayBlock) error
	kit     *pipeline.Kit
	machine *pipeline.Machine
	free    chan *slot
	sum     ReplaySummary
	err     error // of emit
}

func newReplay(o ReplayOptions, emit func(ReplayBlock) error) (*replay, error) {
	d := &daemon{log: slog.New(slog.DiscardHandler), set: o.Set}
	opt := d.ledgerOptions(o.Set)
	opt.FlagsDir = ""
	led, _, err := ledger.Open("", time.Unix(0, 0), opt)
	if err != nil {
		return nil, err
	}
	kit, err := pipeline.NewKit(o.Set, o.Zone)
	if err != nil {
		return nil, err
	}
	eng := detect.New(o.Set, detect.Options{Seed: seed()})
	r := &replay{opt: o, emit: emit, kit: kit, machine: pipeline.New(kit, eng, led)}
	r.sum.Notes = d.listErrs
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
	ro := source.ReadOptions{Stdin: r.opt.Stdin, Stamp: pipeline.Stamp(r.opt.Zone, time.Now())}
	return source.ReadFiles(ctx, r.opt.Files, ro, func(b *source.Batch) error {
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
	})
}

// parse is one worker.
func (r *replay) parse(work <-chan *slot) {
	for s := range work {
		begin := time.Now()
		s.reader = s.readers[s.part.Origin]
		if s.reader == nil {
			rd, err := r.kit.Reader(s.part.Origin)
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
	return err
}

func (r *replay) apply(s *slot) error {
	begin := time.Now()
	r.sum.Lines += uint64(len(s.part.Lines))
	r.sum.Parse += s.took
	r.sum.Events += uint64(s.reader.Known())
	r.machine.ApplyAt(s.reader, r.breach)
	r.sum.Detect += time.Since(begin)
	return r.err
}

// breach counts and tells the blocks of one breach.
func (r *replay) breach(b *detect.Breach, o ledger.Outcome) {
	for _, c := range o.Changes {
		if c.Op != ledger.Set {
			continue
		}
		r.sum.Blocks++
		err := r.emit(ReplayBlock{
			At: c.Block.Since, Rule: c.Block.Rule, Prefix: c.Block.Prefix, TTL: c.Block.Until.Sub(c.Block.Since),
			Count: c.Block.Count, Source: b.Source, Line: b.Line,
		})
		if r.err == nil {
			r.err = err
		}
	}
}
