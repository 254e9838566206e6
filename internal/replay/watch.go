package replay

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/parse"
	"stoplog/internal/pipeline"
	"stoplog/internal/source"
)

// Seen is one line, or one event of a line, that Watch read.
type Seen struct {
	Event  *parse.Event // nil: the line is not understood
	Origin *source.Origin
	Line   *source.Line
	// Known says that somebody logged in from the event's source before.
	Known bool
	// Rules are the rules that count the event, in their order.
	Rules []string
	// Answers are what came of it.
	Answers []Answer
}

// settleEvery is the time between two looks for events that are held back until
// their records are over.
const settleEvery = time.Second

// Watch reads the files as they grow, or standard input to its end ("-", alone),
// and calls each for every event, and for every line without one, in order.
// The argument is valid during the call. Options.Since is where files are read
// from (zero: their ends); Until and Progress have no meaning. What the rules
// would do is computed as in Run; nothing is changed. A line that no source
// explains is shown as what it could be, and counts toward nothing. Watch
// blocks until ctx is done, standard input ends, or each returns an error;
// report gets problems from other goroutines.
func Watch(ctx context.Context, o Options, report func(error), each func(*Seen) error) error {
	r, err := newReplay(o, nil)
	if err != nil {
		return err
	}
	w := &watcher{replay: r, each: each, origins: map[*source.Origin]*watched{}}
	if w.sniff, err = pipeline.NewLineReader("", "", o.Zone); err != nil {
		return err
	}
	var specs []source.Spec
	for _, name := range o.Files {
		if name == "-" {
			specs = append(specs, source.Spec{Stdin: true})
			continue
		}
		path, err := filepath.Abs(name)
		if err != nil {
			return err
		}
		specs = append(specs, source.Spec{File: path})
	}
	set, err := source.New(specs, source.Options{
		Since: o.Since, Stamp: r.compiled.Stamps(time.Now()), Report: func(p source.Problem) { report(p) },
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches, ended := make(chan *source.Batch), make(chan error, 1)
	go func() {
		ended <- set.Run(ctx, batches)
		close(batches)
	}()
	err = w.run(batches, cancel)
	return errors.Join(err, <-ended)
}

type watcher struct {
	*replay
	each    func(*Seen) error
	origins map[*source.Origin]*watched
	sniff   *pipeline.LineReader
	steps   [][]string
	answers []Answer
	seen    int
}

// watched is an origin under the name that the rules know it by.
type watched struct {
	origin *source.Origin
	reader *pipeline.Reader
}

// run takes the batches until there are no more. After an error it only drains.
func (w *watcher) run(batches <-chan *source.Batch, cancel func()) (err error) {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for {
		select {
		case b, ok := <-batches:
			if !ok {
				w.machine.Settle(forever, true, w.apply)
				return errors.Join(err, w.err)
			}
			if err == nil {
				err = w.batch(b)
			}
			b.Release()
		case now := <-tick.C:
			if err == nil {
				w.machine.Settle(now, false, w.apply)
				err = w.err
			}
		}
		if err != nil {
			cancel()
			w.err = nil
		}
	}
}

// batch takes the lines one by one: what a line is must be known before the next.
func (w *watcher) batch(b *source.Batch) error {
	if len(b.Lines) == 0 {
		return nil
	}
	o, err := w.of(b)
	if err != nil {
		return err
	}
	for i := range b.Lines {
		one := &source.Batch{Origin: o.origin, Lines: b.Lines[i : i+1], Arrival: b.Arrival, Backlog: true}
		o.reader.Read(one)
		w.machine.Join(o.reader, forever)
		w.apply(o.reader)
		if o.reader.Known() == 0 && w.err == nil {
			w.err = w.each(&Seen{Event: w.sniff.Line(&b.Lines[i], b.Arrival), Origin: o.origin, Line: &b.Lines[i]})
		}
		if w.err != nil {
			return w.err
		}
	}
	return nil
}

// of is the origin of a batch, with its reader. A file that no source lists is
// read as what its first lines show it to be.
func (w *watcher) of(b *source.Batch) (*watched, error) {
	if o := w.origins[b.Origin]; o != nil {
		return o, nil
	}
	o := &source.Origin{Name: b.Origin.Name, Log: b.Origin.Log, Service: w.opt.Service, Format: w.opt.Format, Spec: -1}
	switch {
	case w.opt.As != "":
		o.Path, o.Spec = w.opt.As, w.as
	case o.Name != "stdin":
		o.Path = w.opt.Set.LogOf(o.Name)
	}
	var err error
	if o.Service, err = w.compiled.Identify(o, b.Lines, b.Arrival); err != nil {
		return nil, err
	}
	reader, err := w.compiled.Reader(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Name, err)
	}
	w.origins[b.Origin] = &watched{o, reader}
	return w.origins[b.Origin], nil
}

// apply counts the events that rd read last, and shows them.
func (w *watcher) apply(rd *pipeline.Reader) {
	w.steps, w.seen = w.steps[:0], 0
	var known []bool
	rd.Between(0, 0, func(ev *parse.Event, _ *source.Line) {
		var names []string
		for _, s := range w.machine.Engine.Explain(ev, rd.Origin(), w.machine.Ledger) {
			if s.Why == "" {
				names = append(names, s.Rule)
			}
		}
		w.steps = append(w.steps, names)
		known = append(known, ev.Addr.IsValid() && w.machine.Ledger.Verdict(ev.Addr, ev.Service, ev.User, ev.Time) == detect.KnownGood)
	})
	w.machine.ApplyAt(rd, pipeline.Past{
		Emit: func(b *detect.Breach, o ledger.Outcome) { w.answers = append(w.answers, w.replay.answers(b, o)...) },
		Seen: func(ev *parse.Event, line *source.Line, _ bool) {
			if w.err == nil {
				w.err = w.each(&Seen{Event: ev, Origin: rd.Origin(), Line: line, Known: known[w.seen], Rules: w.steps[w.seen], Answers: w.answers})
			}
			w.seen++
			w.answers = w.answers[:0]
		},
	})
}
