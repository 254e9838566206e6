package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stoplog/internal/control"
)

// sink turns a Reading into metrics.
type sink struct {
	families
	ch chan<- prometheus.Metric
}

func (s sink) put(f family, v float64, labels ...string) {
	for i, l := range labels {
		labels[i] = strings.ToValidUTF8(l, "?") // a file's name need not be UTF-8
	}
	m, err := prometheus.NewConstMetric(f.desc, f.kind, v, labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(f.desc, err)
	}
	s.ch <- m
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func (s sink) whole(r Reading) {
	s.put(s.info, 1, r.Version)
	for _, state := range []string{"ok", "recovering", "degraded"} {
		s.put(s.state, truth(r.State == state), state)
	}
	s.put(s.trouble, float64(len(r.Trouble)))
	s.put(s.started, unix(r.Started))
	if r.SavedAt != nil {
		s.put(s.saved, unix(*r.SavedAt))
	}
	if r.ReloadedAt != nil {
		s.put(s.reloaded, unix(*r.ReloadedAt))
	}
	s.put(s.memory, float64(r.MemoryKiB)*1024)
	s.put(s.dryRun, truth(r.DryRun))
	s.put(s.lines, float64(r.Lines))
	s.put(s.events, float64(r.Events))
	s.put(s.unknown, float64(r.Unknown))
	s.put(s.buckets, float64(r.Buckets))
	s.put(s.bucketsMax, float64(r.BucketCap))
	s.put(s.evicted, float64(r.Evicted))
	s.put(s.knownGood, float64(r.KnownGood))
	seen := unique{}
	for _, f := range r.Flags {
		if seen.fresh(f.Name) {
			s.put(s.flag, unix(f.Until), f.Name)
		}
	}
}

// unique keeps a name that comes twice from spoiling the whole scrape.
type unique map[string]bool

func (u unique) fresh(name string) bool {
	name = strings.ToValidUTF8(name, "?")
	if u[name] {
		return false
	}
	u[name] = true
	return true
}

func (s sink) sources(all []control.SourceStatus) {
	seen := unique{}
	for _, x := range all[:min(len(all), maxLabels)] {
		if !seen.fresh(x.Name) {
			continue
		}
		s.put(s.srcLines, float64(x.Lines), x.Name)
		s.put(s.srcEvents, float64(x.Events), x.Name)
		s.put(s.srcCut, float64(x.Cut), x.Name)
		s.put(s.srcLag, float64(x.LagByte), x.Name)
		s.put(s.srcSkew, float64(x.SkewMs)/1000, x.Name)
		s.put(s.srcFollowing, truth(x.State == "following"), x.Name)
	}
}

func (s sink) rules(all []control.RuleStatus) {
	seen := unique{}
	for _, x := range all[:min(len(all), maxLabels)] {
		if seen.fresh(x.Name) {
			s.put(s.ruleEvents, float64(x.Matched), x.Name)
			s.put(s.ruleBreaches, float64(x.Breaches), x.Name)
		}
	}
}

func (s sink) walls(r Reading) {
	s.put(s.blocks, float64(r.Blocks))
	seen := unique{}
	for _, x := range r.Backends {
		if seen.fresh(x.Name) {
			s.put(s.backendUp, truth(x.State == "ok"), x.Name)
			s.put(s.backendEntries, float64(x.Entries), x.Name)
		}
	}
}

func (s sink) notify(all []Notify) {
	seen := unique{}
	for _, x := range all {
		if seen.fresh(x.Name) {
			s.put(s.messages, float64(x.Sent), x.Name, "sent")
			s.put(s.messages, float64(x.Failed), x.Name, "failed")
			s.put(s.waiting, float64(x.Waiting), x.Name)
		}
	}
}
