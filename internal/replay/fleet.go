package replay

import (
	"bytes"
	"container/heap"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/fleet"
	"stoplog/internal/ledger"
	"stoplog/internal/parse"
	"stoplog/internal/pipeline"
	"stoplog/internal/source"
)

// FleetOptions say what to replay as a fleet. Options.Files is not used.
type FleetOptions struct {
	Options
	// Dir has a folder of logs for each host, or one file.
	Dir string
	// Limits are those of the fleet. Decisions reach all hosts at once.
	Limits fleet.Limits
}

// FleetResult compares hosts that count alone with the same hosts as a fleet.
type FleetResult struct {
	Hosts, Events int
	Decisions     int
	Sources       int // that failed and never logged in on any host
	Attempts      int // of these sources
	Logins        int // of good sources, as tune and report judge them
	Alone         FleetSide
	Together      FleetSide
}

// FleetSide is what one way of counting lets through, and whom it refuses.
type FleetSide struct {
	Through        int // attempts
	Refused        int // logins of good sources
	RefusedSources int
	Blocks         int
}

// FleetBlock is a block on one host.
type FleetBlock struct {
	Host     string
	Together bool
	Answer   Answer
}

// maxFleetSources bounds the sources that are told apart; others are left out.
const maxFleetSources = 2_000_000

// Fleet replays the logs of several hosts in the order of their times, each host
// alone and all as one fleet, by the rules of one set. emit, if not nil, gets all
// blocks. Memory grows with the number of sources, up to two million, not with
// that of lines.
func Fleet(ctx context.Context, o FleetOptions, emit func(FleetBlock) error) (*FleetResult, error) {
	f := &fleetReplay{opt: o, emit: emit, sources: map[netip.Addr]*fleetSource{}, state: fleet.NewState(fleet.ID{}, nil, o.Limits)}
	if err := f.open(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, h := range f.hosts {
		h.batches = make(chan []fleetEvent, 2)
		go h.read(ctx, o.Options)
	}
	return f.run(ctx)
}

type fleetReplay struct {
	opt     FleetOptions
	emit    func(FleetBlock) error
	hosts   []*fleetHost
	state   *fleet.State
	levels  map[levelName]fleet.Meaning
	sources map[netip.Addr]*fleetSource
	result  FleetResult
	seq     uint64
	err     error
}

type levelName struct {
	rule  string
	index int
}

// fleetSource is what is counted of one address, on all hosts.
type fleetSource struct {
	fails, logins    int32
	through, refused [2]int32 // alone, together
}

// fleetHost is a host in both lives.
type fleetHost struct {
	name    string
	files   []string
	lives   [2]life // alone, together
	batches chan []fleetEvent
	batch   []fleetEvent
	err     error
}

type life struct {
	engine *detect.Engine
	ledger *ledger.Ledger
}

// fleetEvent is an event that owns its memory.
type fleetEvent struct {
	ev     parse.Event
	line   source.Line
	origin *source.Origin
}

// open finds the hosts and makes their engines.
func (f *fleetReplay) open() error {
	entries, err := os.ReadDir(f.opt.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		h := &fleetHost{name: e.Name()}
		path := filepath.Join(f.opt.Dir, e.Name())
		if !e.IsDir() {
			h.name, _, _ = strings.Cut(e.Name(), ".")
			h.files = []string{path}
		} else if h.files, err = filepath.Glob(filepath.Join(path, "*")); err != nil {
			return err
		}
		if len(h.files) == 0 {
			continue
		}
		for i := range h.lives {
			lo, _ := pipeline.LedgerOptions(f.opt.Set)
			led, _, err := ledger.Open("", time.Unix(0, 0), lo)
			if err != nil {
				return err
			}
			h.lives[i] = life{pipeline.NewEngine(f.opt.Set), led}
		}
		f.share(h)
		f.hosts = append(f.hosts, h)
	}
	if len(f.hosts) < 2 {
		return fmt.Errorf("%s: expected a folder or file for each of at least two hosts", f.opt.Dir)
	}
	f.result.Hosts = len(f.hosts)
	return nil
}

// share makes the host's engine note what it would tell the fleet.
func (f *fleetReplay) share(h *fleetHost) {
	rules := f.opt.Set.Fleet.Rules
	shared := map[fleet.Meaning]fleet.Shared{}
	f.levels = map[levelName]fleet.Meaning{}
	for _, l := range h.lives[1].engine.Share(func(rule string) bool { return len(rules) == 0 || slices.Contains(rules, rule) }) {
		m := fleet.MeaningOf(l.Meaning)
		ttl := l.TTL
		if ttl == 0 {
			ttl = f.opt.Set.Block.TTL
		}
		f.levels[levelName{l.Rule, l.Index}] = m
		shared[m] = fleet.Shared{Rule: l.Rule, Index: l.Index, Capacity: l.Capacity, Leak: l.Leak, Bits4: l.Bits4, Bits6: l.Bits6, TTL: ttl}
	}
	if f.state.Keys() == 0 {
		f.state.SetShared(shared)
	}
}

// read parses the host's files and sends their events in batches.
func (h *fleetHost) read(ctx context.Context, o Options) {
	defer close(h.batches)
	o.Files, o.Progress = h.files, nil
	batch := make([]fleetEvent, 0, chunk)
	send := func() error {
		select {
		case h.batches <- batch:
			batch = make([]fleetEvent, 0, chunk)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, h.err = Read(ctx, o, func(ev *parse.Event, origin *source.Origin, line *source.Line) error {
		batch = append(batch, fleetEvent{*ev, *line, origin})
		(&batch[len(batch)-1]).own()
		if len(batch) == cap(batch) {
			return send()
		}
		return nil
	})
	if h.err == nil {
		h.err = send()
	}
}

// own copies what the event points to.
func (e *fleetEvent) own() {
	ev := &e.ev
	for _, b := range []*[]byte{&ev.User, &ev.Message, &ev.Method, &ev.Path, &ev.Query, &ev.Agent, &ev.Referrer, &ev.Host, &e.line.Text} {
		*b = bytes.Clone(*b)
	}
	ev.Fields = slices.Clone(ev.Fields)
	for i := range ev.Fields {
		ev.Fields[i].Value = bytes.Clone(ev.Fields[i].Value)
	}
}

// next waits for the host's next event; false at its end.
func (h *fleetHost) next() bool {
	for len(h.batch) == 0 {
		b, ok := <-h.batches
		if !ok {
			return false
		}
		h.batch = b
	}
	return true
}

// queue has the hosts by the time of their next event.
type queue []*fleetHost

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	a, b := q[i].batch[0].ev.Time, q[j].batch[0].ev.Time
	return a < b || a == b && q[i].name < q[j].name
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(*fleetHost)) }
func (q *queue) Pop() any {
	h := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return h
}

// run takes the events of all hosts in the order of their times.
func (f *fleetReplay) run(ctx context.Context) (*FleetResult, error) {
	var q queue
	for _, h := range f.hosts {
		if h.next() {
			q = append(q, h)
		} else if h.err != nil {
			return nil, fmt.Errorf("%s: %w", h.name, h.err)
		}
	}
	heap.Init(&q)
	for swept := int64(0); q.Len() > 0; {
		h := q[0]
		e := &h.batch[0]
		if f.take(h, e); f.err != nil {
			return nil, f.err
		}
		if e.ev.Time-swept > int64(time.Minute) {
			swept = e.ev.Time
			f.sweep(swept)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
		if h.batch = h.batch[1:]; h.next() {
			heap.Fix(&q, 0)
			continue
		}
		if h.err != nil {
			return nil, fmt.Errorf("%s: %w", h.name, h.err)
		}
		heap.Pop(&q)
	}
	f.sum()
	return &f.result, nil
}

func (f *fleetReplay) sweep(at int64) {
	f.state.Sweep(at)
	for _, h := range f.hosts {
		for _, l := range h.lives {
			l.engine.Sweep(at)
			l.ledger.Expire(time.Unix(0, at))
		}
	}
}

// take runs one event through both lives of its host.
func (f *fleetReplay) take(h *fleetHost, e *fleetEvent) {
	f.result.Events++
	f.count(h, e)
	for i := range h.lives {
		l := &h.lives[i]
		ev := e.ev // Observe must find the same in both
		now := time.Unix(0, ev.Time)
		if next := l.ledger.NextExpiry(); !next.IsZero() && now.After(next) {
			l.ledger.Expire(now)
		}
		for _, b := range l.engine.Observe(&ev, &e.line, e.origin, l.ledger) {
			f.breach(h, i, &b, now)
		}
		if ev.Outcome == parse.Success && len(ev.User) > 0 && ev.Addr.IsValid() {
			l.ledger.Login(ev.Service, ev.User, ev.Addr, ev.Time, ev.Verified)
		}
	}
	f.tell(h, e.ev.Time)
}

// breach answers a breach in one life of a host.
func (f *fleetReplay) breach(h *fleetHost, i int, b *detect.Breach, now time.Time) {
	out := h.lives[i].ledger.Breach(b, now)
	for _, c := range out.Changes {
		if c.Op == ledger.Set {
			side := [...]*FleetSide{&f.result.Alone, &f.result.Together}[i]
			side.Blocks++
		}
		if f.emit == nil || f.err != nil {
			continue
		}
		x := &c.Block
		a := Answer{Kind: Block, At: x.Since, Rule: x.Rule, Prefix: x.Prefix, TTL: x.Until.Sub(x.Since), Count: x.Count, Points: x.Points,
			Counted: b.Counted, Source: x.Source, Line: x.Line, Except: x.Except, Key: b.Key}
		if c.Op == ledger.Lift {
			a.Kind, a.At = Unblock, now
		}
		f.err = f.emit(FleetBlock{Host: h.name, Together: i == 1, Answer: a})
	}
}

// tell passes what changed on a host to the fleet, and its decisions to all hosts.
func (f *fleetReplay) tell(h *fleetHost, at int64) {
	f.seq++
	e := &fleet.Entry{Node: h.name, Version: fleet.Version{Incarnation: 1, Seq: f.seq}, Made: at}
	h.lives[1].engine.Changes(func(c detect.Change) {
		m := f.levels[levelName{c.Rule, c.Index}]
		if c.Values != nil {
			e.Distincts = append(e.Distincts, fleet.Distinct{Meaning: m, Prefix: c.Prefix, At: c.At, Until: c.Empty, Values: c.Values})
		} else {
			e.Levels = append(e.Levels, fleet.Level{Meaning: m, Prefix: c.Prefix, At: c.At, Empty: c.Empty, Line: c.Line})
		}
	})
	if e.Len() == 0 {
		return
	}
	now := time.Unix(0, at)
	for _, d := range f.state.Apply(e, at, false).Decisions {
		f.result.Decisions++
		for _, g := range f.hosts {
			b, ok := g.lives[1].engine.Together(d.Shared.Rule, d.Shared.Index, d.Prefix, d.At, d.Points, nil)
			if ok {
				f.breach(g, 1, &b, now)
			}
		}
	}
}

// count notes what each life lets through or refuses.
func (f *fleetReplay) count(h *fleetHost, e *fleetEvent) {
	ev := &e.ev
	attempt := ev.Outcome == parse.Failure && ev.Kind != parse.Probe && ev.Count > 0
	if !ev.Addr.IsValid() || !attempt && ev.Outcome != parse.Success {
		return
	}
	s := f.sources[ev.Addr]
	if s == nil {
		if len(f.sources) >= maxFleetSources {
			return
		}
		s = &fleetSource{}
		f.sources[ev.Addr] = s
	}
	n := int32(1)
	if attempt {
		n = int32(min(ev.Count, 1000))
		s.fails += n
	} else {
		s.logins++
	}
	for i := range h.lives {
		blocked := h.lives[i].ledger.Verdict(ev.Addr, ev.Service, ev.User, ev.Time) == detect.Blocked
		switch {
		case attempt && !blocked:
			s.through[i] += n
		case !attempt && blocked:
			s.refused[i]++
		}
	}
}

// sum adds up the sources: attackers never log in on any host; good sources log
// in, and fail at most three times their logins and ten more.
func (f *fleetReplay) sum() {
	r := &f.result
	for _, s := range f.sources {
		switch {
		case s.logins == 0:
			r.Sources++
			r.Attempts += int(s.fails)
			r.Alone.Through += int(s.through[0])
			r.Together.Through += int(s.through[1])
		case s.fails <= 3*s.logins+10:
			r.Logins += int(s.logins)
			for i, side := range []*FleetSide{&r.Alone, &r.Together} {
				if side.Refused += int(s.refused[i]); s.refused[i] > 0 {
					side.RefusedSources++
				}
			}
		}
	}
}
