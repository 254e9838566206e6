package daemon

import (
	"cmp"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/trend"
)

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
