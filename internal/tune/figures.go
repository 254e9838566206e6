package tune

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"stoplog/internal/addr"
	"stoplog/internal/bucket"
	"stoplog/internal/parse"
	"stoplog/internal/rules"
)

// Figures is what the page draws beside the front.
type Figures struct {
	Bucket   int       `json:"bucket"` // the main one, of the rule's buckets, from 1
	Capacity int       `json:"capacity"`
	Cells    []Cell    `json:"cells"`
	Before   []Curve   `json:"before"`
	Levels   []Bin     `json:"levels"`
	Timeline []Moment  `json:"timeline"`
	Near     []Nearest `json:"near"`
}

// Cell is a setting of the main bucket, the rest as today.
type Cell struct {
	Capacity string `json:"capacity"`
	Leak     string `json:"leak"`
	Let      int    `json:"let"` // of the whole time
	Refused  int    `json:"refused"`
	Today    bool   `json:"today,omitempty"`
	capacity float64
	leak     float64
}

// Curve is the share of attacking sources that are blocked after so many attempts.
type Curve struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
}

// Point of a curve.
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// Bin counts the sources whose highest level was at least From, and less than the
// next bin's.
type Bin struct {
	From int `json:"from"`
	Good int `json:"good"`
	Bad  int `json:"bad"`
}

// Moment counts blocks that begin in a part of the time.
type Moment struct {
	At       time.Time `json:"at"`
	Today    int       `json:"today"`
	Proposal int       `json:"proposal"`
}

// Nearest is an honest source, and how near to a block it came.
type Nearest struct {
	Addr      string  `json:"addr"`
	Level     int     `json:"level"` // the highest of the main bucket
	Share     float64 `json:"share"` // of what breaches
	Successes int     `json:"successes"`
	Failures  int     `json:"failures"`
	Today     int     `json:"today"` // events that met a block with today's setting
	Proposal  int     `json:"proposal"`
	Lines     []Shown `json:"lines"`
}

const (
	maxNear   = 10
	maxBins   = 24
	moments   = 60
	knownRoom = 20 // times the room that a known-good source has: see detect
)

func (rep *Report) figures(d *data, x *search, main int, now, then *detail) {
	b := x.book
	f := &rep.Figures
	f.Bucket = main + 1
	ci, li := b.of(main, capacity), b.of(main, leak)
	f.Capacity = int(b.params[ci].today)
	today := b.today()
	for i, t := range x.all {
		if !t.cell && i != 0 {
			continue
		}
		if other := with(t.s, float64(ci), today[ci], float64(li), today[li]); !slices.Equal(other, today) {
			continue
		}
		f.Cells = append(f.Cells, Cell{
			b.params[ci].text(t.s[ci]), b.params[li].text(t.s[li]), t.res.First.Let + t.res.Rest.Let, t.res.First.Refused + t.res.Rest.Refused, i == 0, t.s[ci], t.s[li],
		})
	}
	slices.SortFunc(f.Cells, func(a, b Cell) int { return cmp.Or(cmp.Compare(a.leak, b.leak), cmp.Compare(a.capacity, b.capacity)) })
	attackers := rep.Labels.Attackers
	f.Before = append(f.Before, curve("today", now, attackers))
	if then != nil {
		f.Before = append(f.Before, curve("candidate", then, attackers))
	}
	f.timeline(rep, now, then)
	f.peaks(d, b, main, now, then)
}

// curve sorts the sources by how many attempts they had before their first block.
func curve(name string, det *detail, attackers int) Curve {
	c := Curve{Name: name}
	if det == nil || attackers == 0 {
		return c
	}
	var ns []int
	for _, n := range det.before {
		ns = append(ns, int(n))
	}
	slices.Sort(ns)
	for i, n := range ns {
		if i+1 == len(ns) || ns[i+1] != n {
			c.Points = append(c.Points, Point{float64(n), min(float64(i+1)/float64(attackers), 1)})
		}
	}
	if len(c.Points) > 200 { // the last ones are a long tail
		var some []Point
		for i := range 200 {
			some = append(some, c.Points[i*(len(c.Points)-1)/199])
		}
		c.Points = some
	}
	return c
}

func (f *Figures) timeline(rep *Report, now, then *detail) {
	begin, end := rep.Begin, rep.End
	step := end.Sub(begin) / moments
	if step <= 0 {
		return
	}
	f.Timeline = make([]Moment, moments)
	for i := range f.Timeline {
		f.Timeline[i].At = begin.Add(time.Duration(i) * step)
	}
	fill := func(det *detail, of func(*Moment) *int) {
		if det == nil {
			return
		}
		for _, at := range det.blocks {
			if i := int(time.Unix(0, at).Sub(begin) / step); i >= 0 && i < moments && at >= begin.UnixNano() {
				*of(&f.Timeline[i])++
			}
		}
	}
	fill(now, func(m *Moment) *int { return &m.Today })
	fill(then, func(m *Moment) *int { return &m.Proposal })
}

// peak is the highest level that a source reached, by itself or with its
// neighbours, and what it did.
type peak struct {
	level, ok, bad int
	label          label
	seen           bool
}

// peaks fills the histogram and the list of the honest sources that came nearest
// to a block: how full the main bucket would have been if nothing were blocked.
func (f *Figures) peaks(d *data, b *book, main int, now, then *detail) {
	var level *rules.Level
	n := 0
	for i := range b.rule.Levels {
		if l := &b.rule.Levels[i]; l.Kind == rules.Bucket {
			if n == main {
				level = l
			}
			n++
		}
	}
	if level == nil || len(d.sources) == 0 {
		return
	}
	peaks := make([]peak, len(d.sources))
	weight := level.WeightIn(b.rule)
	table := bucket.NewTable(len(d.sources)*2+16, 0)
	var ev parse.Event
	for i := range d.events {
		e := &d.events[i]
		p := &peaks[e.src]
		p.seen, p.label = true, d.sources[e.src].label
		c := &d.classes[e.class]
		if c.proto.Outcome == parse.Success {
			p.ok++
			continue
		}
		if !d.matches(e, &ev) {
			continue
		}
		p.bad += int(e.count)
		d.fill(&ev, e)
		count := int(e.count)
		if level.PerConn {
			if !ev.First {
				continue
			}
			count = 1
		}
		if ev.Kind == parse.Probe && level.Leak >= rules.SlowLeak {
			continue
		}
		key, room := keyOf(b.rule, ev.Addr), 1
		if p.ok > 0 { // counted apart, with more room
			key, room = netip.PrefixFrom(addr.Of(ev.Addr), addr.Of(ev.Addr).BitLen()), knownRoom
		}
		lim := bucket.Limit{Capacity: 1 << 20, Leak: max(level.Leak/time.Duration(room), 1)}
		held, _ := table.Pour(bucket.KeyOf(key), e.at, count*weight.Of(&ev, c.origin), lim)
		p.level = max(p.level, (held+room-1)/room)
	}
	f.bins(peaks, level.Capacity)
	f.nearest(d, peaks, level.Capacity, now, then)
}

func keyOf(r *rules.Rule, a netip.Addr) netip.Prefix {
	if r.Key.Has(rules.ByPrefix) {
		return r.Prefix.Cut(a)
	}
	a = addr.Of(a)
	return netip.PrefixFrom(a, a.BitLen())
}

// bins counts sources by level, in steps that get wider above capacity.
func (f *Figures) bins(peaks []peak, capacity int) {
	step := max((capacity+maxBins/2)/(maxBins/2), 1)
	from := 1
	for len(f.Levels) < maxBins {
		f.Levels = append(f.Levels, Bin{From: from})
		if from > capacity {
			from += max(from/2, step)
		} else {
			from += step
		}
	}
	for i := range peaks {
		p := &peaks[i]
		if p.level == 0 || p.label&(goodAll|attackerAll) == 0 {
			continue
		}
		j, found := slices.BinarySearchFunc(f.Levels, p.level, func(b Bin, n int) int { return b.From - n })
		if !found {
			j--
		}
		if p.label&goodAll != 0 {
			f.Levels[j].Good++
		} else {
			f.Levels[j].Bad++
		}
	}
	for n := len(f.Levels); n > 1 && f.Levels[n-1].Good+f.Levels[n-1].Bad == 0 && f.Levels[n-1].From > capacity+1; n-- {
		f.Levels = f.Levels[:n-1]
	}
}

func (f *Figures) nearest(d *data, peaks []peak, capacity int, now, then *detail) {
	var order []int
	for i := range peaks {
		if peaks[i].label&goodAll != 0 && peaks[i].bad > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(peaks[j].level-peaks[i].level, peaks[j].bad-peaks[i].bad, d.sources[i].addr.Compare(d.sources[j].addr))
	})
	for _, i := range order[:min(len(order), maxNear)] {
		p, s := &peaks[i], &d.sources[i]
		n := Nearest{Addr: s.addr.String(), Level: p.level, Share: float64(p.level) / float64(capacity+1), Successes: p.ok, Failures: p.bad, Lines: s.lines}
		if now != nil {
			n.Today = now.hits[uint32(i)]
		}
		if then != nil {
			n.Proposal = then.hits[uint32(i)]
		}
		f.Near = append(f.Near, n)
	}
}
