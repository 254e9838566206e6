package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
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

// readStdin reads standard input to its end.
func readStdin(ctx context.Context, st *stream) {
	st.setState(Following, "")
	err := st.readFD(ctx, 0, true, func() bool { return true })
	if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		st.set.opts.Report(Problem{Origin: st.name, Err: fmt.Errorf("reading: %w", err)})
	}
}

const pipeRetry = time.Second

// readPipe reads a named pipe, whoever opens and closes it.
func readPipe(ctx context.Context, st *stream) {
	for ctx.Err() == nil {
		fd, id, err := openPipe(st.spec.Pipe)
		if err != nil {
			if !st.wait(ctx, fmt.Errorf("opening: %w", err), pipeRetry) {
				return
			}
			continue
		}
		st.setState(Following, "")
		err = st.readFD(ctx, fd, false, func() bool {
			info, err := statPath(st.spec.Pipe)
			return err == nil && info.fileID == id
		})
		unix.Close(fd)
		if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
			st.wait(ctx, fmt.Errorf("reading: %w", err), pipeRetry)
		} else {
			sleep(ctx, defaultPoll) // the pipe was made again
		}
	}
}

// openPipe opens a named pipe. Opened for writing as well it is never without a
// writer; that may not be allowed.
func openPipe(path string) (int, fileID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return -1, fileID{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return -1, fileID{}, errors.New("not a named pipe")
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	}
	if err != nil {
		return -1, fileID{}, err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, fileID{}, err
	}
	return fd, infoOf(&st).fileID, nil
}

// readFD hands on the lines of fd until it ends, ctx is done or good, asked
// when nothing came for a while, says that it is another one now.
func (st *stream) readFD(ctx context.Context, fd int, last bool, good func() bool) error {
	p, err := newPoller(ctx, fd, good)
	if err != nil {
		return err
	}
	defer p.close()
	p.reopened = !last
	lines := newLineReader(p, &st.set.pool, st.set.opts.maxLine(st.spec))
	lines.last = last
	for {
		b, err := lines.next()
		if err != nil {
			return err
		}
		if !st.deliver(ctx, b, Pos{Offset: lines.off, Line: lines.number}, lines.cut, false) {
			return ctx.Err()
		}
	}
}

// poller reads a descriptor without changing its flags, which other processes
// share, and ends when its context does.
type poller struct {
	fd   int
	good func() bool
	// reopened: others may come after the last writer. To close the descriptor
	// meanwhile would throw away what the next one writes.
	reopened bool
	wake     int // readable once wakeEnd was written to, which may be the same
	wakeEnd  int
	ended    atomic.Bool
	told     chan struct{} // closed once wake will not be written to
	stop     func() bool
}

// pollGood is how often good is asked, in milliseconds.
const pollGood = 2000

func newPoller(ctx context.Context, fd int, good func() bool) (*poller, error) {
	wake, end, err := newWake()
	if err != nil {
		return nil, fmt.Errorf("creating a wake-up descriptor: %w", err)
	}
	p := &poller{fd: fd, good: good, wake: wake, wakeEnd: end, told: make(chan struct{})}
	p.stop = context.AfterFunc(ctx, func() {
		defer close(p.told)
		p.ended.Store(true)
		_, _ = unix.Write(end, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	return p, nil
}

func (p *poller) Read(b []byte) (int, error) {
	for {
		fds := []unix.PollFd{
			{Fd: int32(p.fd), Events: unix.POLLIN},
			{Fd: int32(p.wake), Events: unix.POLLIN},
		}
		n, err := retry(func() (int, error) { return unix.Poll(fds, pollGood) })
		switch {
		case err != nil:
			return 0, err
		case p.ended.Load():
			return 0, context.Canceled
		case n == 0:
			if !p.good() {
				return 0, io.EOF
			}
			continue
		}
		n, err = retry(func() (int, error) { return unix.Read(p.fd, b) })
		switch {
		case err == unix.EAGAIN:
			continue
		case err != nil:
			return 0, err
		case n > 0:
			return n, nil
		case !p.reopened || !p.good():
			return 0, io.EOF
		}
		p.rest()
	}
}

// rest waits a while, or until the poller is to end: a pipe without a writer is
// readable at all times.
func (p *poller) rest() {
	fds := []unix.PollFd{{Fd: int32(p.wake), Events: unix.POLLIN}}
	_, _ = unix.Poll(fds, int(defaultPoll.Milliseconds()))
}

// close ends the poller, not the descriptor.
func (p *poller) close() {
	if !p.stop() {
		<-p.told
	}
	unix.Close(p.wake)
	if p.wakeEnd != p.wake {
		unix.Close(p.wakeEnd)
	}
}
