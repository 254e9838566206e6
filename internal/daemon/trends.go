package daemon

import (
	"cmp"
	"context"
	"slices"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/trend"
)

// liveMinutes is how far back Live reaches.
const liveMinutes = 60

// trends counts what the charts show.
type trends struct {
	trend.Trend
	rules, services map[string]uint64 // the counters when they were last looked at
}

// read counts lines and those of them that were understood.
func (t *trends) read(now time.Time, lines int, events uint64) {
	t.Add(now, trend.Series{}, trend.Count{Lines: uint32(lines), Events: uint32(events)})
}

// breached counts one breach.
func (t *trends) breached(now time.Time, br *detect.Breach) {
	t.addAll(now, br.Rule, br.Service, trend.Count{Breaches: 1})
}

// blocked counts prefixes that were free before.
func (t *trends) blocked(now time.Time, cs []ledger.Change) {
	for _, c := range cs {
		if c.Op == ledger.Set && c.New {
			t.addAll(now, cmp.Or(c.Block.Rule, "by hand"), c.Block.Service, trend.Count{Blocks: 1})
		}
	}
}

func (t *trends) addAll(now time.Time, rule, service string, c trend.Count) {
	t.Add(now, trend.Series{}, c)
	t.Add(now, trend.Series{Kind: trend.Rule, Name: rule}, c)
	if service != "" {
		t.Add(now, trend.Series{Kind: trend.Service, Name: service}, c)
	}
}

// matched counts the events since the last call; a counter that is lower than
// before began again.
func (t *trends) matched(now time.Time, kind trend.Kind, before, counters map[string]uint64) {
	for name, n := range counters {
		was := before[name]
		if n < was {
			was = 0
		}
		t.Add(now, trend.Series{Kind: kind, Name: name}, trend.Count{Events: uint32(n - was)})
	}
}

// tally takes over the counters of rules and services.
func (d *daemon) tally(now time.Time) {
	rules := map[string]uint64{}
	for _, r := range d.engine.Stats().Rules {
		rules[r.Name] = r.Matched
	}
	services := d.machine.Services()
	d.trends.matched(now, trend.Rule, d.trends.rules, rules)
	d.trends.matched(now, trend.Service, d.trends.services, services)
	d.trends.rules, d.trends.services = rules, services
}

// last gives the last hour, the oldest minute first; quiet ones are zeros.
func (t *trends) last(now time.Time) []control.Minute {
	out := make([]control.Minute, liveMinutes)
	from := now.Truncate(time.Minute).Add(-(liveMinutes - 1) * time.Minute)
	for i := range out {
		out[i].At = from.Add(time.Duration(i) * time.Minute).UTC()
	}
	t.Read(trend.Minute, trend.All, from, liveMinutes, func(i int, _ trend.Series, c trend.Count) {
		out[i].Lines, out[i].Events, out[i].Blocks = uint64(c.Lines), uint64(c.Events), uint64(c.Blocks)
	})
	return out
}

var trendUnits = map[string]trend.Unit{"minute": trend.Minute, "hour": trend.Hour, "day": trend.Day}

func (x *api) Trend(ctx context.Context, q control.TrendQuery) (t control.Trend, err error) {
	unit, ok := trendUnits[q.Unit]
	if !ok {
		return t, control.BadOrder("unit %q: expected minute, hour or day", q.Unit)
	}
	if q.Bins < 1 || q.Bins > unit.Kept() {
		return t, control.BadOrder("%d bins: expected 1 to %d", q.Bins, unit.Kept())
	}
	t = control.Trend{Unit: q.Unit, From: q.From.UTC().Truncate(unit.Length()), Bins: q.Bins, Kept: unit.Kept()}
	err = x.d.ask(ctx, func() {
		x.d.tally(time.Now())
		t.All = x.d.trends.series(unit, trend.All, t.From, q.Bins)
		t.Rules = x.d.trends.series(unit, trend.Rule, t.From, q.Bins)
		t.Services = x.d.trends.series(unit, trend.Service, t.From, q.Bins)
	})
	return t, err
}

// series gives the counts of a kind, the series with the most events first.
func (t *trends) series(u trend.Unit, k trend.Kind, from time.Time, bins int) []control.TrendSeries {
	out := []control.TrendSeries{}
	t.Read(u, k, from, bins, func(i int, s trend.Series, c trend.Count) {
		at := slices.IndexFunc(out, func(x control.TrendSeries) bool { return x.Name == s.Name })
		if at < 0 {
			at = len(out)
			out = append(out, control.TrendSeries{Name: s.Name, Events: make([]uint32, bins), Breaches: make([]uint32, bins), Blocks: make([]uint32, bins)})
		}
		out[at].Events[i], out[at].Breaches[i], out[at].Blocks[i] = c.Events, c.Breaches, c.Blocks
	})
	slices.SortFunc(out, func(a, b control.TrendSeries) int {
		return cmp.Or(cmp.Compare(sum(b.Events), sum(a.Events)), cmp.Compare(sum(b.Blocks), sum(a.Blocks)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func sum(ns []uint32) (n uint64) {
	for _, x := range ns {
		n += uint64(x)
	}
	return n
}
