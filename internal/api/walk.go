package api

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/detect"
	"stoplog/internal/parse"
	"stoplog/internal/pipeline"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// walkSkew is how far a stamp may be off before a live line counts as now.
const walkSkew = time.Minute

// Walk returns what the rules would make of one line now, with empty buckets
// and nobody known: no daemon is asked. It blocks while lists are read.
func Walk(set *rules.Set, name string, q control.LineQuery, now time.Time) (control.Walk, error) {
	allow := set.Allow
	for _, s := range set.Sources {
		allow.Prefixes = slices.Concat(allow.Prefixes, s.Client.Trusted)
	}
	listed, _ := allow.Read() // what cannot be read, check tells
	w := walker{set: set, engine: pipeline.NewEngine(set), gate: listGate(listed)}
	return w.walk(q, name, now)
}

// Walk is the same with the live buckets, which it does not change.
func (x *API) Walk(ctx context.Context, q control.LineQuery) (a control.Walk, err error) {
	if e := x.loop.Ask(ctx, func(s State) {
		w := walker{set: s.Rules, engine: s.Engine, gate: s.Ledger}
		a, err = w.walk(q, s.Rules.Name, time.Now())
		a.Live = true
	}); e != nil {
		return a, e
	}
	return a, err
}

// listGate knows who is allowed by the rules file, and nothing else.
type listGate []netip.Prefix

func (g listGate) Verdict(addr netip.Addr, _ string, _ []byte, _ int64) detect.Verdict {
	for _, p := range g {
		if p.Contains(addr) {
			return detect.Allowed
		}
	}
	return detect.Stranger
}
func (listGate) KnownAddr(netip.Addr, string, int64) bool { return false }
func (listGate) Struck(netip.Prefix, int64) (int64, bool) { return 0, false }
func (listGate) Flag(string, int64) bool                  { return false }

// walker takes one line through parsing and the rules.
type walker struct {
	set    *rules.Set
	engine *detect.Engine
	gate   detect.Gate
}

func (w *walker) walk(q control.LineQuery, name string, now time.Time) (control.Walk, error) {
	a := control.Walk{Line: q.Text, Rules: name}
	compiled, err := pipeline.Compile(w.set, time.Local)
	if err != nil {
		return a, err
	}
	origin := &source.Origin{Name: q.Source, Service: q.Service, Spec: -1}
	text := []byte(q.Text)
	line := []source.Line{{Text: text}}
	if origin.Service, err = compiled.Identify(origin, line, now); err != nil {
		return a, err
	}
	r, err := compiled.Reader(origin)
	if err != nil {
		return a, control.BadOrder("%s", err)
	}
	if most := w.set.Limits.LineBytes; most > 0 && len(text) > most {
		return a, control.BadOrder("the line is longer than %d bytes", most)
	}
	if ns, ok := pipeline.Stamp(time.Local, now)(text); ok {
		at := time.Unix(0, ns).UTC()
		a.Stamp = &at
	}
	r.Read(&source.Batch{Origin: origin, Arrival: now, Lines: line})
	r.Each(func(ev *parse.Event) {
		a.Understood = true
		if a.Stamp == nil && ev.Time != 0 { // an access log's stands within the line
			at := time.Unix(0, ev.Time).UTC()
			a.Stamp = &at
		}
		a.Events = append(a.Events, w.event(ev, origin, now))
	})
	return a, nil
}

// event judges a copy of ev as a live line would be judged now.
func (w *walker) event(ev *parse.Event, origin *source.Origin, now time.Time) control.WalkEvent {
	e := *ev
	out := control.WalkEvent{Service: e.Service, Outcome: e.Outcome.String(), Kind: e.Kind.String(), Message: string(e.Message), Fields: walkFields(&e)}
	switch off := time.Unix(0, e.Time).Sub(now); {
	case e.Time == 0:
		e.Time, out.Late = now.UnixNano(), "the line has no timestamp"
	case off.Abs() > walkSkew:
		e.Time, out.Late = now.UnixNano(), "its timestamp is "+rules.FormatDuration(off.Abs().Round(time.Second))+" off the clock; a live line like this counts as now"
	}
	out.CountsAt = time.Unix(0, e.Time).UTC()
	if e.Addr.IsValid() {
		out.Addr = e.Addr.String()
		out.Verdict = [...]string{"stranger", "known-good", "allowed", "blocked"}[w.gate.Verdict(e.Addr, e.Service, e.User, e.Time)]
	}
	for _, s := range w.engine.Explain(&e, origin, w.gate) {
		out.Rules = append(out.Rules, w.rule(s))
		if r := w.set.Find(s.Rule); s.Near && r != nil {
			out.Hints = append(out.Hints, nearly(r, s.Why)...)
		}
	}
	return out
}

// nearly says what to look at in a rule that would count an event but for one
// condition: the condition, and what check says of the rule. Built-in rules are
// what they are.
func nearly(r *rules.Rule, why string) (hints []string) {
	if r.Ready != "" {
		return nil
	}
	hints = append(hints, fmt.Sprintf("%s:%d: rule %s matches but for one condition: %s", r.File, r.Line, r.Name, why))
	for _, p := range r.Warnings {
		hints = append(hints, p.Error())
	}
	return hints
}

func (w *walker) rule(s detect.Step) control.WalkRule {
	r := control.WalkRule{Rule: s.Rule, Why: s.Why, Key: s.Key}
	if x := w.set.Find(s.Rule); x != nil && x.Observe {
		r.Mode = "observe"
	}
	for _, l := range s.Levels {
		v := control.WalkLevel{Kind: l.Kind, Weight: l.Weight, Held: l.Held, Capacity: l.Capacity, Breaches: l.Breaches}
		if l.TTL > 0 {
			v.TTL = rules.FormatDuration(l.TTL)
		}
		if l.Drains > 0 {
			v.Drains = l.Drains.Round(time.Second).String()
		}
		r.Levels = append(r.Levels, v)
	}
	return r
}

func walkFields(ev *parse.Event) map[string]string {
	m := map[string]string{}
	for _, f := range []parse.Field{
		{Name: "user", Value: ev.User}, {Name: "method", Value: ev.Method}, {Name: "path", Value: ev.Path}, {Name: "query", Value: ev.Query},
		{Name: "agent", Value: ev.Agent}, {Name: "referrer", Value: ev.Referrer}, {Name: "host", Value: ev.Host},
	} {
		if len(f.Value) > 0 {
			m[f.Name] = string(f.Value)
		}
	}
	for _, f := range ev.Fields {
		m[f.Name] = string(f.Value)
	}
	if ev.Status != 0 {
		m["status"] = strconv.Itoa(int(ev.Status))
	}
	return m
}
