// Package metrics shows the daemon's state to Prometheus: on a listener of
// its own or as a textfile for node_exporter. No label holds anything that a
// client of this machine could choose: labels are names of the rules file, of
// walls, and of the files that are followed.
package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stoplog/internal/control"
)

// Reading is what is shown: the daemon's status and how its messages fare.
type Reading struct {
	control.Status
	Notify []Notify
}

// Notify is one target of messages.
type Notify struct {
	Name         string
	Sent, Failed uint64 // messages
	Waiting      int    // breaches not yet told
}

// Bounds of one scrape.
const (
	readTime  = 5 * time.Second
	maxLabels = 500 // sources, rules; those over are left out and counted
)

// Collector asks for a Reading at each scrape. It may be used from several
// goroutines if read may.
type Collector struct {
	read func(context.Context) (Reading, error)
}

// New makes a collector. read must end when its context does.
func New(read func(context.Context) (Reading, error)) *Collector { return &Collector{read} }

// family is one metric's description and kind.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string, labels ...string) family {
	return family{prometheus.NewDesc("stoplog_"+name, help, labels, nil), prometheus.GaugeValue}
}

func counter(name, help string, labels ...string) family {
	return family{prometheus.NewDesc("stoplog_"+name, help, labels, nil), prometheus.CounterValue}
}

// families are all metrics there are.
type families struct {
	up, info, state, trouble, started, saved, reloaded, memory, dryRun family
	lines, events, unknown                                             family
	srcLines, srcEvents, srcCut, srcLag, srcSkew, srcFollowing         family
	ruleEvents, ruleBreaches                                           family
	blocks, backendUp, backendEntries                                  family
	buckets, bucketsMax, evicted, knownGood, flag                      family
	messages, waiting, leftOut                                         family
}

func newFamilies() families {
	return families{
		up:       gauge("up", "1 if the daemon answered this scrape."),
		info:     gauge("build_info", "1, with the version as a label.", "version"),
		state:    gauge("state", "1 for the current state: ok, recovering or degraded.", "state"),
		trouble:  gauge("troubles", "Current problems; see stoplog status."),
		started:  gauge("start_time_seconds", "Start time of the daemon, in Unix seconds."),
		saved:    gauge("snapshot_time_seconds", "Time of the last saved state, in Unix seconds."),
		reloaded: gauge("reload_time_seconds", "Time of the last reload of the rules, in Unix seconds."),
		memory:   gauge("resident_memory_bytes", "Memory of the process that reads the logs."),
		dryRun:   gauge("dry_run", "1 in dry-run mode, when nothing is blocked."),

		lines:   counter("lines_total", "Lines read."),
		events:  counter("events_total", "Lines understood as events."),
		unknown: counter("unrecognised_lines_total", "Lines without an event."),

		srcLines:     counter("source_lines_total", "Lines read, by source.", "source"),
		srcEvents:    counter("source_events_total", "Events, by source.", "source"),
		srcCut:       counter("source_cut_lines_total", "Lines that were too long and were truncated, by source.", "source"),
		srcLag:       gauge("source_lag_bytes", "Unread bytes, by source.", "source"),
		srcSkew:      gauge("source_skew_seconds", "Difference between timestamps and the clock when it was last large.", "source"),
		srcFollowing: gauge("source_following", "1 if the source is being read.", "source"),

		ruleEvents:   counter("rule_events_total", "Events counted, by rule.", "rule"),
		ruleBreaches: counter("rule_breaches_total", "Breaches, by rule.", "rule"),

		blocks:         gauge("blocks", "Prefixes blocked now."),
		backendUp:      gauge("backend_up", "1 if the firewall backend accepts blocks.", "backend"),
		backendEntries: gauge("backend_entries", "Prefixes in the firewall backend.", "backend"),

		buckets:    gauge("buckets", "Live buckets."),
		bucketsMax: gauge("buckets_max", "Maximum number of buckets."),
		evicted:    counter("buckets_evicted_total", "Buckets evicted because the table was full."),
		knownGood:  gauge("known_good", "Known-good logins."),
		flag:       gauge("flag_until_seconds", "End of a raised flag, in Unix seconds; absent if it is not raised.", "flag"),

		messages: counter("notify_messages_total", "Messages to targets of notify, by result.", "target", "result"),
		waiting:  gauge("notify_waiting", "Breaches that have not been reported yet.", "target"),
		leftOut:  gauge("series_left_out", "Sources and rules without metrics because there are too many."),
	}
}

func (f families) all() []family {
	return []family{
		f.up, f.info, f.state, f.trouble, f.started, f.saved, f.reloaded, f.memory, f.dryRun, f.lines, f.events, f.unknown,
		f.srcLines, f.srcEvents, f.srcCut, f.srcLag, f.srcSkew, f.srcFollowing, f.ruleEvents, f.ruleBreaches,
		f.blocks, f.backendUp, f.backendEntries, f.buckets, f.bucketsMax, f.evicted, f.knownGood, f.flag, f.messages, f.waiting, f.leftOut,
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range newFamilies().all() {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector. A daemon that does not answer is
// shown as down, not as an error.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	out := sink{newFamilies(), ch}
	r, err := c.read(ctx)
	if err != nil {
		out.put(out.up, 0)
		return
	}
	out.put(out.up, 1)
	out.whole(r)
	out.sources(r.Sources)
	out.rules(r.RuleStats)
	out.walls(r)
	out.notify(r.Notify)
	out.put(out.leftOut, float64(max(0, len(r.Sources)-maxLabels)+max(0, len(r.RuleStats)-maxLabels)))
}
