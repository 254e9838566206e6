package api

import (
	"cmp"
	"context"
	"slices"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/trend"
)

// liveMinutes is how far back Live reaches.
const liveMinutes = 60

// lastHour gives the last hour, the oldest minute first; quiet ones are zeros.
func lastHour(t *trend.Trend, now time.Time) []control.Minute {
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

func (x *API) Trend(ctx context.Context, q control.TrendQuery) (t control.Trend, err error) {
	unit, ok := trendUnits[q.Unit]
	if !ok {
		return t, control.BadOrder("unit %q: expected minute, hour or day", q.Unit)
	}
	if q.Bins < 1 || q.Bins > unit.Kept() {
		return t, control.BadOrder("%d bins: expected 1 to %d", q.Bins, unit.Kept())
	}
	t = control.Trend{Unit: q.Unit, From: q.From.UTC().Truncate(unit.Length()), Bins: q.Bins, Kept: unit.Kept()}
	err = x.loop.Ask(ctx, func(State) {
		trends := x.loop.Trends(time.Now())
		t.All = series(trends, unit, trend.All, t.From, q.Bins)
		t.Rules = series(trends, unit, trend.Rule, t.From, q.Bins)
		t.Services = series(trends, unit, trend.Service, t.From, q.Bins)
	})
	return t, err
}

// series gives the counts of a kind, the series with the most events first.
func series(t *trend.Trend, u trend.Unit, k trend.Kind, from time.Time, bins int) []control.TrendSeries {
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
