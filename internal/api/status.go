package api

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

func (x *API) List(ctx context.Context) (bs []control.Block, err error) {
	err = x.loop.Ask(ctx, func(s State) { bs = x.allShown(s, s.Ledger.List(time.Now())) })
	return bs, err
}

// shown is a block as the administrator sees it.
func (x *API) shown(s State, b ledger.Block) control.Block {
	rule := b.Rule
	if rule == "" {
		rule = "by hand"
	}
	l := s.Limit(b)
	return control.Block{
		Prefix: b.Prefix.String(), Rule: rule, Since: b.Since.UTC(), Until: b.Until.UTC(), Count: b.Count, Points: b.Points, Reason: reason(b),
		Backend: x.opt.Backend, By: b.By, Action: b.Action, Strikes: b.Strikes, Evidence: b.Evidence, Partial: b.Partial,
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

func (x *API) Status(ctx context.Context) (s control.Status, err error) {
	err = x.loop.Ask(ctx, func(st State) { s = x.status(st, time.Now()) })
	return s, err
}

func (x *API) status(st State, now time.Time) control.Status {
	h := x.loop.Health()
	es := st.Engine.Stats()
	ls := st.Ledger.Stats()
	s := control.Status{
		Version: x.opt.Version, PID: os.Getpid(), Started: x.opt.Started.UTC(), State: "ok", DryRun: x.opt.DryRun,
		Trouble: h.Trouble, Notes: append([]string{}, h.Notes...), Rules: st.Rules.Name, Rights: x.opt.Rights,
		Blocks: ls.Blocks, KnownGood: ls.Known,
		Flags: st.flags(now), MemoryKiB: memoryKiB(),
	}
	switch {
	case len(s.Trouble) > 0:
		s.State = "degraded"
	case h.Recovering:
		s.State = "recovering"
	}
	if proxy, ok := st.Machine.Suspect(); ok {
		s.Notes = append(s.Notes, proxy)
	}
	if !h.SavedAt.IsZero() {
		s.SavedAt = &h.SavedAt
	}
	if !h.ReloadedAt.IsZero() {
		s.ReloadedAt = &h.ReloadedAt
	}
	s.Doors = h.Listeners
	st.addSources(&s)
	for _, r := range es.Rules {
		mode := ""
		if rule := st.Rules.Find(r.Name); rule != nil && rule.Observe {
			mode = "observe"
		}
		s.RuleStats = append(s.RuleStats, control.RuleStatus{Name: r.Name, Mode: mode, Matched: r.Matched, Breaches: r.Breached})
		s.Buckets += r.Keys
		s.BucketCap += r.Max
		s.Evicted += r.Evicted
	}
	x.addFirewall(st, &s)
	return s
}

func (st State) addSources(s *control.Status) {
	ready := map[string]string{}
	for _, src := range st.Rules.Sources {
		ready[src.Path] = src.Ready
	}
	for _, src := range st.Sources.Status() {
		o := st.Machine.Stats(src.Name)
		why := src.Why
		if src.Polled {
			why = strings.TrimSpace(why + " polled")
		}
		for _, n := range src.Notes {
			why = strings.TrimSpace(why + " " + n)
		}
		s.Sources = append(s.Sources, control.SourceStatus{
			Name: src.Name, State: string(src.State), Why: why, Lines: o.Lines, Events: o.Events, Cut: o.Cut, Doubted: o.Doubted,
			Foreign: o.Foreign, Foreigner: o.Foreigner, OverLimit: o.OverLimit, OverLimitOf: o.OverLimitOf,
			LagByte: src.Lag, SkewMs: o.Skew.Milliseconds(), Ready: ready[src.Name],
		})
		s.Lines += o.Lines
		s.Events += o.Events
		if o.Doubted != 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%s: %d events not counted because a client may have forged their lines", src.Name, o.Doubted))
		}
		if o.Skew != 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%s: timestamps are %s off the clock; its lines count when they arrive", src.Name, rules.FormatDuration(o.Skew.Abs().Round(time.Second))))
		}
	}
	s.Unknown = s.Lines - min(s.Events, s.Lines)
}

func (x *API) addFirewall(st State, s *control.Status) {
	w := st.Firewall.State()
	state := "ok"
	switch {
	case w.Err != "":
		state = w.Err
	case !w.Ready:
		state = "being set up"
	case w.Full != "":
		state = w.Full
	}
	why := x.opt.BackendWhy
	if !w.Restored.IsZero() {
		why = strings.TrimSpace(why + "; restored at " + w.Restored.Format(time.TimeOnly) + " after another program changed it")
	}
	if st.Fleet != nil {
		f := st.Fleet.Status()
		f.Mode = st.Rules.Fleet.Mode
		s.Fleet = &f
	}
	s.Backends = []control.WallStatus{{Name: x.opt.Backend, State: state, Why: why, Entries: s.Blocks}}
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
