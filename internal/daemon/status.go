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
	"stoplog/internal/detect"
	"stoplog/internal/export"
	"stoplog/internal/ledger"
	"stoplog/internal/rules"
)

func (x *api) List(ctx context.Context) (bs []control.Block, err error) {
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
	l := d.limit(b)
	return control.Block{
		Prefix: b.Prefix.String(), Rule: rule, Since: b.Since.UTC(), Until: b.Until.UTC(), Count: b.Count, Points: b.Points, Reason: reason(b),
		Backend: d.backendName(), By: b.By, Action: b.Action, Strikes: b.Strikes, Evidence: b.Evidence, Partial: b.Partial,
		Source: b.Source, Line: b.Line, Limited: l != export.Limit{}, Ports: l.List(), Rate: l.Rate, Except: printed(b.Except),
	}
}

func printed(ps []netip.Prefix) (out []string) {
	for _, p := range ps {
		out = append(out, p.String())
	}
	return out
}

// reason explains a block in one sentence.
func reason(b ledger.Block) string {
	if b.Reason != "" || b.Rule == "" {
		return b.Reason
	}
	s := detect.Quantity(b.Count, "event") + " of " + b.Service
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

func (x *api) Status(ctx context.Context) (s control.Status, err error) {
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
	for _, l := range d.opt.Leftovers {
		if d.opt.DryRun {
			s.Notes = append(s.Notes, "blocks of an earlier run are still in place: "+l)
		}
	}
	if !d.savedAt.IsZero() {
		s.SavedAt = &d.savedAt
	}
	if !d.reloadedAt.IsZero() {
		s.ReloadedAt = &d.reloadedAt
	}
	s.Doors = d.listeners()
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
	s.Notes = append(s.Notes, d.problems.all(false)...)
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
			Name: st.Name, State: string(st.State), Why: why, Lines: o.Lines, Events: o.Events, Cut: o.Cut, Doubted: o.Doubted,
			Foreign: o.Foreign, Foreigner: o.Foreigner, OverLimit: o.OverLimit, OverLimitOf: o.OverLimitOf,
			LagByte: st.Lag, SkewMs: o.Skew.Milliseconds(), Ready: ready[st.Name],
		})
		s.Lines += o.Lines
		s.Events += o.Events
		if o.Doubted != 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%s: %d events not counted because a client may have forged their lines", st.Name, o.Doubted))
		}
		if o.Skew != 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%s: timestamps are %s off the clock; its lines count when they arrive", st.Name, rules.FormatDuration(o.Skew.Abs().Round(time.Second))))
		}
	}
	s.Unknown = s.Lines - min(s.Events, s.Lines)
}

func (d *daemon) addWalls(s *control.Status) {
	w := d.reconciler.State()
	state := "ok"
	switch {
	case w.Err != "":
		state = w.Err
	case !w.Ready:
		state = "being set up"
	case w.Full != "":
		state = w.Full
	}
	why := d.opt.WallWhy
	if !w.Restored.IsZero() {
		why = strings.TrimSpace(why + "; restored at " + w.Restored.Format(time.TimeOnly) + " after another program changed it")
	}
	s.Fleet = d.fleetStatus()
	s.Backends = []control.WallStatus{{Name: d.backendName(), State: state, Why: why, Entries: s.Blocks}}
	s.Notes = append(s.Notes, w.Notes...)
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
