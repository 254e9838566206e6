package source

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// stream is a source that is read by a goroutine of its own: the journal, a
// named pipe, standard input.
type stream struct {
	name   string
	spec   Spec
	run    reader
	origin atomic.Pointer[Origin]
	set    *Set
	out    chan<- *Batch
	cancel context.CancelFunc
	done   chan struct{}
	// journal: its lines may be those of a file.
	journal bool

	mu     sync.Mutex // guards status
	status Status
}

// reader reads a stream until ctx is done or it has ended.
type reader func(ctx context.Context, st *stream)

// streams starts and ends the streams of a Set. The Set's mutex guards it.
type streams struct {
	set   *Set
	out   chan<- *Batch
	all   sync.WaitGroup
	ended func() // called when every source has ended
}

// arrange starts the streams that specs ask for, ends those that they do not,
// and returns specs with only files left in it. The Set's mutex is held.
func (m *streams) arrange(ctx context.Context, specs []Spec) []Spec {
	files := slices.Clone(specs)
	var wanted []*stream
	for i, spec := range specs {
		run, name := m.set.readerOf(&spec)
		if run == nil {
			continue
		}
		journal := spec.Journal != nil || spec.Auth
		files[i] = Spec{}
		st := m.find(spec, wanted)
		if st == nil {
			st = &stream{
				name: name, spec: spec, run: run, set: m.set, out: m.out, journal: journal,
				done:   make(chan struct{}),
				status: Status{Name: name, State: Starting},
			}
			if journal {
				m.set.twins.join(name, true, m.set.saved.get(name).Twin)
			}
		}
		st.origin.Store(&Origin{Name: name, Service: spec.Service, Format: spec.Format, Spec: i})
		wanted = append(wanted, st)
	}
	old := m.set.streams
	m.set.streams = wanted
	for _, st := range old {
		if !slices.Contains(wanted, st) {
			m.set.twins.leave(st.name)
			st.cancel()
		}
	}
	for _, st := range wanted {
		if !slices.Contains(old, st) {
			m.launch(ctx, st, old)
		}
	}
	return files
}

// readerOf returns what reads spec and the name of its origin, nil for files.
func (s *Set) readerOf(spec *Spec) (reader, string) {
	switch {
	case spec.Stdin:
		return readStdin, "stdin"
	case spec.Pipe != "":
		return readPipe, spec.Pipe
	case spec.Journal != nil:
		return readJournal, spec.Journal.name()
	case spec.Auth && s.authByJournal():
		return readJournal, journalName
	}
	return nil, ""
}

// find returns the stream that runs for spec and is not in taken.
func (m *streams) find(spec Spec, taken []*stream) *stream {
	for _, st := range m.set.streams {
		if !slices.Contains(taken, st) && reflect.DeepEqual(st.spec, spec) {
			return st
		}
	}
	return nil
}

// launch runs st, after the one of old that has its name has ended.
func (m *streams) launch(ctx context.Context, st *stream, old []*stream) {
	ctx, st.cancel = context.WithCancel(ctx)
	var before *stream
	for _, o := range old {
		if o.name == st.name {
			before = o
		}
	}
	if !st.spec.Stdin && st.spec.Pipe == "" {
		m.set.waitFor++
	}
	m.all.Go(func() {
		defer close(st.done)
		defer st.cancel()
		if before != nil {
			<-before.done
		}
		st.run(ctx, st)
		st.setState(Ended, "")
		m.checkEnded(st)
	})
}

// checkEnded ends the Set after st, when it was the last source.
func (m *streams) checkEnded(st *stream) {
	m.set.mu.Lock()
	defer m.set.mu.Unlock()
	if !slices.Contains(m.set.streams, st) {
		return
	}
	for _, spec := range m.set.specs {
		if run, _ := m.set.readerOf(&spec); run == nil {
			return
		}
	}
	for _, other := range m.set.streams {
		if other != st && other.snapshot().State != Ended {
			return
		}
	}
	m.ended()
}

// deliver hands on the lines of b, and reports whether to go on.
func (st *stream) deliver(ctx context.Context, b *block, pos Pos, cut int64, backlog bool) bool {
	now := time.Now()
	pos.Time = now.UnixNano()
	batch := b.asBatch()
	batch.Origin, batch.Arrival, batch.Backlog = st.origin.Load(), now, backlog
	if st.journal {
		pos.Twin = st.standBy(batch, now)
	}
	batch.Pos = pos
	st.mu.Lock()
	st.status.Lines += int64(len(batch.Lines))
	st.status.Cut = cut
	st.mu.Unlock()
	st.set.saved.set(st.name, pos)
	return send(ctx, st.out, batch)
}

// standBy leaves out lines that come from another origin as well.
func (st *stream) standBy(batch *Batch, now time.Time) string {
	other := ""
	if batch.Backlog {
		other = st.set.twins.standsBy(st.name)
	} else {
		other = st.set.twins.compare(st.name, batch.Lines, now)
	}
	switch {
	case other != "":
		batch.Lines = nil
		st.setState(Standby, "same lines as "+other)
	case !batch.Backlog:
		st.setState(Following, "")
	}
	return other
}

func (st *stream) setState(state State, why string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.status.State, st.status.Why = state, why
	if st.journal {
		st.set.twins.setAlive(st.name, state != Waiting && state != Ended)
	}
}

func (st *stream) snapshot() Status {
	st.mu.Lock()
	defer st.mu.Unlock()
	status := st.status
	status.Notes = slices.Clone(status.Notes)
	return status
}

// wait records why nothing comes, once, and sleeps.
func (st *stream) wait(ctx context.Context, err error, d time.Duration) bool {
	if st.snapshot().Why != err.Error() {
		st.set.opts.Report(Problem{Origin: st.name, Err: err})
	}
	st.setState(Waiting, err.Error())
	return sleep(ctx, d)
}

// sleep waits for d, and reports whether ctx is still good.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
