package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/ledger"
)

func (x *door) List(ctx context.Context) (bs []control.Block, err error) {
	err = x.d.ask(ctx, func() {
		live := x.d.ledger.List(time.Now())
		bs = make([]control.Block, len(live))
		for i, b := range live {
			bs[i] = x.d.shown(b)
		}
	})
	return bs, err
}

// shown is a block as the administrator sees it.
func (d *daemon) shown(b ledger.Block) control.Block {
	rule := b.Rule
	if rule == "" {
		rule = "by hand"
	}
	return control.Block{
		Prefix: b.Prefix.String(), Rule: rule, Since: b.Since.UTC(), Until: b.Until.UTC(), Count: b.Count, Reason: reason(b),
		Backend: d.backendName(), By: b.By, Action: b.Action, Strikes: b.Strikes, Evidence: b.Evidence, Partial: b.Partial,
		Source: b.Source, Line: b.Line, Limited: d.limited(b),
	}
}

// reason says in one sentence why a block stands.
func reason(b ledger.Block) string {
	if b.Reason != "" || b.Rule == "" {
		return b.Reason
	}
	s := fmt.Sprintf("%d events of %s", b.Count, b.Service)
	if b.Key != "" && b.Key != b.Prefix.String() {
		s += ", counted by " + b.Key
	}
	if b.Source != "" {
		s += ", last in " + b.Source
		if b.Line > 0 {
			s += ":" + strconv.FormatInt(b.Line, 10)
		}
	}
	return s
}

func (x *door) Explain(ctx context.Context, addr string) (control.Explanation, error) {
	p, err := target(addr)
	if err != nil {
		return control.Explanation{}, err
	}
	if !p.IsSingleIP() {
		return control.Explanation{}, control.BadOrder("%q is no single address", addr)
	}
	var e control.Explanation
	err = x.d.ask(ctx, func() { e = x.d.explain(p.Addr(), time.Now()) })
	if err != nil {
		return e, err
	}
	e.History, err = x.d.history(p, time.Time{}, 20)
	return e, err
}

func (d *daemon) explain(addr netip.Addr, now time.Time) control.Explanation {
	e := control.Explanation{Addr: addr.String()}
	for _, b := range d.ledger.Covering(addr, now) {
		e.Blocked = append(e.Blocked, d.shown(b))
	}
	for _, a := range d.allowed(now) {
		if p, err := target(a.Prefix); err == nil && p.Contains(addr) {
			e.Allowed = append(e.Allowed, a)
		}
	}
	for _, k := range d.ledger.KnownLogins(addr, now) {
		e.KnownGood = append(e.KnownGood, fmt.Sprintf("a login to %s, last %s", k.Service, k.Last.UTC().Format(time.RFC3339)))
	}
	for _, l := range d.engine.Levels(addr, now.UnixNano()) {
		e.Levels = append(e.Levels, control.Level{Rule: l.Rule, Key: l.Key, Level: float64(l.Level), Capacity: l.Capacity})
	}
	switch {
	case len(e.Allowed) > 0:
		e.Advice = append(e.Advice, "It is exempt: nothing it does is counted, and no block holds it back.")
	case len(e.Blocked) > 0:
		last := e.Blocked[0].Until
		for _, b := range e.Blocked {
			if b.Until.After(last) {
				last = b.Until
			}
		}
		e.Advice = append(e.Advice, fmt.Sprintf("It is let in again at %s, or now by: stoplog unblock %s", last.Format(time.RFC3339), addr),
			fmt.Sprintf("To exempt it: stoplog allow add %s --ttl 7d", addr))
	}
	return e
}

func (x *door) Status(ctx context.Context) (s control.Status, err error) {
	err = x.d.ask(ctx, func() { s = x.d.status(time.Now()) })
	return s, err
}

func (d *daemon) status(now time.Time) control.Status {
	es := d.engine.Stats()
	ls := d.ledger.Stats()
	s := control.Status{
		Version: d.opt.Version, PID: os.Getpid(), Started: d.started.UTC(), State: "ok", DryRun: d.opt.DryRun,
		Trouble: d.trouble(), Notes: append([]string{}, d.notes...), Rules: d.set.Name, Rights: d.opt.Rights,
		Blocks: ls.Blocks, KnownGood: ls.Known,
		Flags: d.flags(now), MemoryKiB: memoryKiB(),
	}
	switch {
	case len(s.Trouble) > 0:
		s.State = "degraded"
	case d.recovering:
		s.State = "recovering"
	}
	if proxy, ok := d.machine.Suspect(); ok {
		s.Notes = append(s.Notes, proxy)
	}
	if !d.savedAt.IsZero() {
		s.SavedAt = &d.savedAt
	}
	if !d.reloadedAt.IsZero() {
		s.ReloadedAt = &d.reloadedAt
	}
	s.Doors = d.doors()
	d.addSources(&s)
	for _, r := range es.Rules {
		mode := ""
		if x := d.set.Find(r.Name); x != nil && x.Observe {
			mode = "observe"
		}
		s.RuleStats = append(s.RuleStats, control.RuleStatus{Name: r.Name, Mode: mode, Matched: r.Matched, Breaches: r.Breached})
		s.Buckets += r.Keys
		s.BucketCap += r.Max
		s.Evicted += r.Evicted
	}
	d.addWalls(&s)
	s.Notes = append(s.Notes, d.plights.all(false)...)
	return s
}

func (d *daemon) addSources(s *control.Status) {
	ready := map[string]string{}
	for _, src := range d.set.Sources {
		ready[src.Path] = src.Ready
	}
	for _, st := range d.sources.Status() {
		o := d.machine.Stats(st.Name)
		why := st.Why
		if st.Polled {
			why = strings.TrimSpace(why + " polled")
		}
		for _, n := range st.Notes {
			why = strings.TrimSpace(why + " " + n)
		}
		s.Sources = append(s.Sources, control.SourceStatus{
			Name: st.Name, State: string(st.State), Why: why, Lines: o.Lines, Events: o.Events, Cut: o.Cut,
			LagByte: st.Lag, SkewMs: o.Skew.Milliseconds(), Ready: ready[st.Name],
		})
		s.Lines += o.Lines
		s.Events += o.Events
		if o.Skew != 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%s: stamps are %s off the clock; its lines count as they arrive", st.Name, o.Skew.Round(time.Second)))
		}
	}
	s.Unknown = s.Lines - min(s.Events, s.Lines)
}

func (d *daemon) addWalls(s *control.Status) {
	w := d.keeper.status()
	state := "ok"
	switch {
	case w.err != "":
		state = w.err
	case !w.ready:
		state = "being set up"
	case w.full != "":
		state = w.full
	}
	why := d.opt.WallWhy
	if !w.feud.last.IsZero() {
		why = strings.TrimSpace(why + "; restored at " + w.feud.last.Format(time.TimeOnly) + " after others changed it")
	}
	s.Backends = []control.WallStatus{{Name: d.backendName(), State: state, Why: why, Entries: s.Blocks}}
	s.Notes = append(s.Notes, w.notes...)
}

// memoryKiB is the process's resident memory (proc_pid_statm(5)).
func memoryKiB() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize()) / 1024
}
