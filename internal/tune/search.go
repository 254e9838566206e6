package tune

import (
	"cmp"
	"context"
	"math"
	"slices"

	"stoplog/internal/rules"
)

// tried is a setting and what it came to.
type tried struct {
	s    setting
	rule *rules.Rule
	res  Result
	cell bool // one of the heat map's
}

// search tries settings: at first a coarse grid, then finer round the best.
type search struct {
	book   *book
	run    *runner
	most   int // settings
	seen   map[string]int
	all    []tried
	told   func(done, most int)
	broken int // settings that no rules file may hold
	few    bool
	// roomless are how many good sources settings hit, by key, with less room in
	// each bucket: see sturdy.
	roomless map[string]int
	checks   int // runs for that
}

// try runs the settings that were not run before, up to the limit.
func (x *search) try(ctx context.Context, ss []setting, cell bool) {
	var fresh []setting
	var compiled []*rules.Rule
	for _, s := range ss {
		k := s.key()
		if i, ok := x.seen[k]; ok {
			if i >= 0 && cell {
				x.all[i].cell = true
			}
			continue
		}
		if len(x.all)+len(fresh)+x.checks >= x.most {
			break
		}
		x.seen[k] = -1
		r, err := x.book.compile(s)
		if err != nil {
			x.broken++
			continue
		}
		fresh, compiled = append(fresh, s), append(compiled, r)
	}
	x.run.run(ctx, compiled, false, func(i int, res Result, _ *detail) {
		x.seen[fresh[i].key()] = len(x.all)
		x.all = append(x.all, tried{fresh[i], compiled[i], res, cell})
		x.told(len(x.all), x.most)
	})
	for _, s := range fresh { // those that ^C left out may be tried again
		if x.seen[s.key()] < 0 {
			delete(x.seen, s.key())
		}
	}
}

// with is s with some values replaced.
func with(s setting, iv ...float64) setting {
	out := slices.Clone(s)
	for i := 0; i+1 < len(iv); i += 2 {
		out[int(iv[i])] = iv[i+1]
	}
	return out
}

// grid is all pairs of values of two parameters; the others are as in s.
func (x *search) grid(s setting, i, j, ni, nj int) (out []setting) {
	for _, v := range x.book.values(&x.book.params[i], ni) {
		for _, w := range x.book.values(&x.book.params[j], nj) {
			out = append(out, with(s, float64(i), v, float64(j), w))
		}
	}
	return out
}

// coarse tries each bucket's capacity against its leak, most of the main one's,
// then times, weights and prefixes.
func (x *search) coarse(ctx context.Context, main int) {
	b, today := x.book, x.book.today()
	buckets := 0
	for i := range b.params {
		buckets = max(buckets, b.params[i].bucket+1)
	}
	size := 7
	if buckets > 1 {
		size = 5
	}
	if x.most < 100 {
		size = min(size, 4)
	}
	x.try(ctx, []setting{today}, false)
	i := b.of(main, capacity)
	x.try(ctx, x.grid(today, i, b.of(main, leak), size, size), true)
	for n := range buckets {
		if n != main {
			x.try(ctx, x.grid(today, b.of(n, capacity), b.of(n, leak), 3, 3), false)
		}
	}
	var rest []setting
	for i := range b.params {
		p := &b.params[i]
		if p.kind == ttl {
			if j := x.multiplyFor(p.bucket); j >= 0 {
				rest = append(rest, x.grid(today, i, j, 4, 3)...)
				continue
			}
		}
		if p.kind == weight || p.kind == prefix4 || p.kind == prefix6 || p.kind == ttl || p.kind == multiply {
			for _, v := range b.values(p, 4) {
				rest = append(rest, with(today, float64(i), v))
			}
		}
	}
	x.try(ctx, rest, false)
}

func (b *book) of(bucket int, k kind) int {
	return slices.IndexFunc(b.params, func(p param) bool { return p.bucket == bucket && p.kind == k })
}

func (x *search) multiplyFor(bucket int) int {
	return cmp.Or(max(x.book.of(bucket, multiply), 0), x.book.of(-1, multiply))
}

// fine goes on from the best settings: their neighbours, and what helped alone
// put together.
func (x *search) fine(ctx context.Context) {
	for ctx.Err() == nil && len(x.all)+x.checks < x.most {
		before := len(x.all)
		best := x.sturdy(ctx, x.ranked(), 2, x.most-len(x.all)-x.checks)
		if len(best) == 0 {
			return
		}
		var next []setting
		next = append(next, x.together(best[0])...)
		for _, t := range best[:min(len(best), 2)] {
			for i := range x.book.params {
				if p := &x.book.params[i]; p.kind != prefix4 && p.kind != prefix6 {
					for _, v := range x.book.steps(p, t.s[i]) {
						next = append(next, with(t.s, float64(i), v))
					}
				}
			}
		}
		next = slices.DeleteFunc(next, func(s setting) bool {
			_, known := x.seen[s.key()]
			return known || !x.allowed(s)
		})
		// A few at a time: what they show decides on the next.
		x.try(ctx, next[:min(len(next), 12)], false)
		if len(x.all) == before {
			return
		}
	}
}

// allowed reports whether a setting may be proposed at all: with few good sources
// only one that blocks nobody sooner, and not for much longer.
func (x *search) allowed(s setting) bool {
	return !x.few || !x.book.harder(s) && !x.book.longer(s)
}

// together joins best with each single change that helped alone.
func (x *search) together(best tried) (out []setting) {
	today := x.all[0]
	type help struct {
		i    int
		v    float64
		gain int
	}
	var helps []help
	for _, t := range x.all {
		var changed []int
		for i := range t.s {
			if t.s[i] != today.s[i] {
				changed = append(changed, i)
			}
		}
		if gain := today.res.First.cost() - t.res.First.cost(); gain > 0 && x.fits(t) && len(changed) <= 2 {
			for _, i := range changed {
				if best.s[i] == today.s[i] {
					helps = append(helps, help{i, t.s[i], gain})
				}
			}
		}
	}
	slices.SortStableFunc(helps, func(a, b help) int { return b.gain - a.gain })
	all := slices.Clone(best.s)
	for _, h := range helps {
		if all[h.i] == today.s[h.i] {
			all[h.i] = h.v
		}
	}
	out = append(out, all)
	for _, h := range helps[:min(len(helps), 6)] {
		out = append(out, with(best.s, float64(h.i), h.v))
	}
	return out
}

// atOnce is how many settings are tried with less room at once.
const atOnce = 4

// sturdy returns the first n settings of order that are not tight: with a fifth less room,
// they hit no more good sources than today's does with a fifth less room. It runs
// at most so many more settings for it.
func (x *search) sturdy(ctx context.Context, order []tried, n, runs int) []tried {
	today := x.all[0]
	if x.roomless == nil {
		x.roomless = map[string]int{}
		x.less(ctx, []tried{today})
	}
	for {
		var out, unknown []tried
		most := max(today.res.First.Hit, x.roomless[today.s.key()])
		for _, t := range order {
			hit, known := x.roomless[t.s.key()]
			switch {
			case !x.book.harder(t.s) || known && hit <= most:
				out = append(out, t)
			case !known && len(unknown) < atOnce:
				unknown = append(unknown, t)
			}
			if len(out) == n || len(unknown) == atOnce {
				break
			}
		}
		if unknown = unknown[:min(len(unknown), runs)]; len(unknown) == 0 || ctx.Err() != nil {
			return out
		}
		runs -= len(unknown)
		x.less(ctx, unknown)
	}
}

// less runs settings with less room.
func (x *search) less(ctx context.Context, ts []tried) {
	var compiled []*rules.Rule
	var of []string
	for _, t := range ts {
		k := t.s.key()
		r, err := x.book.compile(x.book.tighter(t.s))
		if err != nil {
			x.roomless[k] = math.MaxInt
			continue
		}
		compiled, of = append(compiled, r), append(of, k)
	}
	x.checks += len(compiled)
	x.run.run(ctx, compiled, false, func(i int, r Result, _ *detail) { x.roomless[of[i]] = r.First.Hit })
}

// nearly is the share of the best gain that a setting with fewer changes must
// have to be chosen.
const nearly = .9

// choose returns the setting to propose, nil for none: of those that gain nearly as
// much as the best, the one that changes the least.
func (x *search) choose(ctx context.Context, runs int) *tried {
	best := x.sturdy(ctx, x.ranked(), 1, runs)
	today := x.all[0].res.First.cost()
	if len(best) == 0 || best[0].res.First.cost() >= today {
		return nil
	}
	most := today - best[0].res.First.cost()
	var near []tried
	for _, t := range x.ranked() {
		if gain := today - t.res.First.cost(); float64(gain) >= nearly*float64(most) && gain <= most {
			near = append(near, t)
		}
	}
	slices.SortStableFunc(near, func(a, b tried) int { return x.distance(a.s) - x.distance(b.s) })
	if simple := x.sturdy(ctx, near, 1, runs); len(simple) > 0 {
		return &simple[0]
	}
	return &best[0]
}

// fits reports whether a setting costs honest sources no more than today's does.
func (x *search) fits(t tried) bool {
	a, b := t.res.First, x.all[0].res.First
	return a.Refused <= b.Refused && a.Hit <= b.Hit && x.allowed(t.s)
}

// ranked lists the settings that may be proposed, the best first.
func (x *search) ranked() (out []tried) {
	for _, t := range x.all {
		if x.fits(t) {
			out = append(out, t)
		}
	}
	slices.SortStableFunc(out, func(a, b tried) int {
		return cmp.Or(a.res.First.cost()-b.res.First.cost(), a.res.First.Hit-b.res.First.Hit, x.distance(a.s)-x.distance(b.s), a.res.First.Blocks-b.res.First.Blocks)
	})
	return out
}

// distance is how many values differ from today's.
func (x *search) distance(s setting) (n int) {
	for i := range s {
		if s[i] != x.all[0].s[i] {
			n++
		}
	}
	return n
}

// front lists the settings that no other beats in both respects, by what they let
// through in the first part, the least first.
func (x *search) front() []int {
	var order []int
	for i := range x.all {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := x.all[i].res.First, x.all[j].res.First
		return cmp.Or(a.Refused-b.Refused, a.Hit-b.Hit, a.Let-b.Let, x.distance(x.all[i].s)-x.distance(x.all[j].s))
	})
	var out []int
	least := -1
	for _, i := range order {
		if let := x.all[i].res.First.Let; least < 0 || let < least {
			out, least = append(out, i), let
		}
	}
	slices.Reverse(out)
	return out
}
