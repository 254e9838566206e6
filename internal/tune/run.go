package tune

import (
	"context"
	"runtime"
	"sync"
	"time"

	"stoplog/internal/addr"
	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/parse"
	"stoplog/internal/rules"
)

// Count is what a setting came to in one part of the time.
type Count struct {
	Attempts int `json:"attempts"` // of attackers
	Let      int `json:"let"`      // of them let through
	Logins   int `json:"logins"`   // of good sources
	Refused  int `json:"refused"`  // of them refused
	Hit      int `json:"hit"`      // good sources that met a block
	Blocks   int `json:"blocks"`
}

func (c *Count) add(o Count) {
	c.Attempts += o.Attempts
	c.Let += o.Let
	c.Logins += o.Logins
	c.Refused += o.Refused
	c.Hit += o.Hit
	c.Blocks += o.Blocks
}

// Result is Count of the first part of the time and of the rest.
type Result struct {
	First Count `json:"first"`
	Rest  Count `json:"rest"`
}

func (r *Result) add(o Result) {
	r.First.add(o.First)
	r.Rest.add(o.Rest)
}

// refusedWorth is how many attempts let through weigh as much as one good login
// refused.
const refusedWorth = 100

// cost is what is to be small.
func (c *Count) cost() int { return c.Let + refusedWorth*c.Refused }

// detail is what a run reports about each network, beside its sum.
type detail struct {
	nets   []Result          // by span
	before map[uint32]uint32 // attempts of an attacking source before its first block
	hits   map[uint32]int    // good sources, and their events that met a block
	blocks []int64           // when
	levels map[int]int       // breaches by level of the rule under study
	spans  []span
}

// runner runs settings over data.
type runner struct {
	d      *data
	opt    ledger.Options
	layout *layout
	// constant is what the networks that no setting changes come to, per
	// layout; nil: not run yet.
	constant *Result
}

func newRunner(d *data, o ledger.Options) *runner { return &runner{d: d, opt: o} }

// run runs each setting, several at once, and calls done for each that was run
// whole. want says of which a detail is wanted. It ends early with ctx.
func (r *runner) run(ctx context.Context, rs []*rules.Rule, want bool, done func(i int, res Result, det *detail)) {
	byLens := map[rules.Lens][]int{}
	var order []rules.Lens
	for i, rule := range rs {
		l := widest(r.d.set, append([]*rules.Rule{rule}, r.d.beside...))
		if byLens[l] == nil {
			order = append(order, l)
		}
		byLens[l] = append(byLens[l], i)
	}
	if r.layout != nil && byLens[r.layout.lens] != nil { // first those that need no sorting
		for i, l := range order {
			if l == r.layout.lens {
				order[0], order[i] = order[i], order[0]
			}
		}
	}
	for _, l := range order {
		if ctx.Err() != nil {
			return
		}
		if r.layout == nil || r.layout.lens != l {
			r.layout, r.constant = r.d.arrange(l), nil
		}
		if r.constant == nil {
			// Any setting will do.
			sum := Result{}
			r.sweep(ctx, []*rules.Rule{rs[byLens[l][0]]}, true, false, func(_ int, res Result, _ *detail) { sum = res })
			if ctx.Err() != nil {
				return
			}
			r.constant = &sum
		}
		var some []*rules.Rule
		for _, i := range byLens[l] {
			some = append(some, rs[i])
		}
		r.sweep(ctx, some, false, want, func(i int, res Result, det *detail) {
			res.add(*r.constant)
			done(byLens[l][i], res, det)
		})
	}
}

// sweep runs the networks that are constant, or those that are not.
func (r *runner) sweep(ctx context.Context, rs []*rules.Rule, constant, want bool, done func(i int, res Result, det *detail)) {
	l := r.layout
	type task struct{ rule, chunk int }
	type answer struct {
		task
		res Result
		det *detail
	}
	tasks, answers := make(chan task), make(chan answer, 64)
	workers := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for t := range tasks {
				w := worker{d: r.d, l: l, rule: rs[t.rule]}
				w.begin(r.opt)
				if want {
					w.det = &detail{nets: make([]Result, len(l.spans)), before: map[uint32]uint32{}, hits: map[uint32]int{}, levels: map[int]int{}}
				}
				c := l.chunks[t.chunk]
				for i := c.from; i < c.to; i++ {
					if l.spans[i].constant == constant {
						w.network(i)
					}
				}
				answers <- answer{t, w.sum, w.det}
			}
		})
	}
	go func() {
		defer close(answers)
		defer wg.Wait()
		defer close(tasks)
		for i := range rs {
			for c := range l.chunks {
				select {
				case tasks <- task{i, c}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	sums, left, dets := make([]Result, len(rs)), make([]int, len(rs)), make([]*detail, len(rs))
	for i := range left {
		left[i] = len(l.chunks)
	}
	for a := range answers {
		sums[a.rule].add(a.res)
		if a.det != nil {
			dets[a.rule] = dets[a.rule].join(a.det, l)
		}
		if left[a.rule]--; left[a.rule] == 0 {
			done(a.rule, sums[a.rule], dets[a.rule])
			dets[a.rule] = nil
		}
	}
	if len(l.chunks) == 0 {
		for i := range rs {
			done(i, Result{}, nil)
		}
	}
}

func (d *detail) join(o *detail, l *layout) *detail {
	if d == nil {
		o.spans = l.spans
		return o
	}
	for i := range o.nets {
		d.nets[i].add(o.nets[i])
	}
	for k, v := range o.before {
		d.before[k] = v
	}
	for k, v := range o.hits {
		d.hits[k] += v
	}
	for k, v := range o.levels {
		d.levels[k] += v
	}
	d.blocks = append(d.blocks, o.blocks...)
	return d
}

// worker runs networks with one setting.
type worker struct {
	d    *data
	l    *layout
	rule *rules.Rule
	eng  *detect.Engine
	opt  ledger.Options
	ev   parse.Event
	was  uint16 // class of ev
	full bool   // ev is of that class, without a record

	led, strangers, shared *ledger.Ledger

	breaches int
	sum      Result
	det      *detail
	hit      []uint32 // good sources of the network that met a block
}

// begin makes an empty engine and ledger, of the rule and those beside it.
func (w *worker) begin(o ledger.Options) {
	set := *w.d.set
	set.Rules = append([]*rules.Rule{w.rule}, w.d.beside...)
	set.Privacy.Lines, set.Limits.Evidence = false, 1 // no evidence is kept
	w.eng = detect.New(&set, detect.Options{})
	w.opt = o
	w.strangers, w.shared = w.ledger(), w.ledger()
}

func (w *worker) ledger() *ledger.Ledger {
	l, _, _ := ledger.Open("", time.Unix(0, 0), w.opt) // the options opened once
	return l
}

// manyLogins is from how many on a network has a ledger of its own: a login costs
// more when it has to look among the strikes of others. Networks without any share
// one that knows nobody.
const manyLogins = 16

// ledgerOf is the ledger for a network.
func (w *worker) ledgerOf(s *span) *ledger.Ledger {
	switch {
	case s.logins >= manyLogins:
		return w.ledger()
	case s.logins > 0:
		return w.shared
	}
	return w.strangers
}

// network runs the events of one network.
func (w *worker) network(n int) {
	s := &w.l.spans[n]
	before := w.sum
	w.led = w.ledgerOf(s)
	w.hit = w.hit[:0]
	ev := &w.ev
	blocked := false // some block was set
	tried := map[uint32]uint32(nil)
	if w.det != nil {
		tried = map[uint32]uint32{}
	}
	for i := s.from; i < s.to; i++ {
		e, m := &w.d.events[i], w.l.marks[i]
		if m&isRepeat != 0 && !blocked {
			w.tally(e, m, false)
			continue
		}
		w.fill(e)
		stopped := false
		if m&isSuccess != 0 || m&isMatched == 0 {
			stopped = blocked && w.led.Verdict(ev.Addr, ev.Service, nil, e.at) == detect.Blocked
		}
		was := w.eng.Stopped()
		breaches := w.eng.Observe(ev, nil, w.d.classes[e.class].origin, w.led)
		stopped = stopped || w.eng.Stopped() != was
		w.tally(e, m, stopped)
		if tried != nil && m&isAttempt != 0 && !stopped {
			tried[e.src] += uint32(e.count)
		}
		from, until := int64(0), int64(0) // the whole network is blocked
		for j := range breaches {
			b := &breaches[j]
			now := time.Unix(0, e.at)
			// Only memory depends on it.
			if w.breaches++; w.breaches%64 == 0 {
				w.led.Expire(now)
			}
			out := w.led.Breach(b, now)
			for k := range out.Changes {
				ch := &out.Changes[k]
				if ch.Op != ledger.Set {
					continue
				}
				blocked = true
				w.set(e, m, b, &ch.Block, tried)
				p := ch.Block.Prefix
				if len(ch.Block.Ports) == 0 && len(ch.Block.Except) == 0 && p.Bits() <= s.prefix.Bits() && p.Contains(s.prefix.Addr()) {
					from, until = ch.Block.Since.UnixNano(), max(until, ch.Block.Until.UnixNano())
				}
			}
		}
		if m&isSuccess != 0 && len(ev.User) > 0 {
			w.led.Login(ev.Service, ev.User, ev.Addr, ev.Time, ev.Verified)
		}
		for i+1 < s.to && until != 0 {
			e, m := &w.d.events[i+1], w.l.marks[i+1]
			if e.at < from || e.at >= until || m&isSuccess != 0 {
				break
			}
			w.tally(e, m, true)
			i++
		}
	}
	if w.det != nil {
		r := &w.det.nets[n]
		*r = w.sum
		r.sub(before)
	}
}

// fill makes the event: most are of the class of the one before.
func (w *worker) fill(e *event) {
	if w.full && w.was == e.class && e.rec == 0 {
		d := w.d
		w.ev.Time, w.ev.Addr, w.ev.User, w.ev.Count = e.at, d.sources[e.src].addr, d.texts[e.user], int(e.count)
		return
	}
	w.d.fill(&w.ev, e)
	w.was, w.full = e.class, e.rec == 0
}

// sub takes o out of r.
func (r *Result) sub(o Result) {
	for _, x := range []struct{ a, b *Count }{{&r.First, &o.First}, {&r.Rest, &o.Rest}} {
		x.a.Attempts -= x.b.Attempts
		x.a.Let -= x.b.Let
		x.a.Logins -= x.b.Logins
		x.a.Refused -= x.b.Refused
		x.a.Hit -= x.b.Hit
		x.a.Blocks -= x.b.Blocks
	}
}

func (w *worker) part(m mark) *Count {
	if m&isRest != 0 {
		return &w.sum.Rest
	}
	return &w.sum.First
}

// tally counts one event.
func (w *worker) tally(e *event, m mark, stopped bool) {
	if m&(isAttempt|isLogin|isGood) == 0 {
		return
	}
	c := w.part(m)
	if m&isAttempt != 0 {
		c.Attempts += int(e.count)
		if !stopped {
			c.Let += int(e.count)
		}
	}
	if m&isLogin != 0 {
		c.Logins++
		if stopped {
			c.Refused++
		}
	}
	if stopped && m&isGood != 0 {
		w.meets(e.src, m)
	}
}

// meets notes that a good source met a block, once in each part of the time.
func (w *worker) meets(src uint32, m mark) {
	if w.det != nil {
		w.det.hits[src]++
	}
	id := src<<1 | uint32(m&isRest/isRest)
	for _, h := range w.hit {
		if h == id {
			return
		}
	}
	w.hit = append(w.hit, id)
	w.part(m).Hit++
}

// set counts a block.
func (w *worker) set(e *event, m mark, b *detect.Breach, blk *ledger.Block, tried map[uint32]uint32) {
	w.part(m).Blocks++
	if m&isGood != 0 && blk.Prefix.Contains(addr.Of(w.d.sources[e.src].addr)) {
		w.meets(e.src, m)
	}
	if w.det == nil {
		return
	}
	if b.Rule == w.rule.Name {
		w.det.levels[b.Level]++
	}
	w.det.blocks = append(w.det.blocks, e.at)
	for src, n := range tried {
		if _, known := w.det.before[src]; !known && blk.Prefix.Contains(addr.Of(w.d.sources[src].addr)) {
			w.det.before[src] = n
		}
	}
}
