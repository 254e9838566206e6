package daemon

import (
	"os"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/notify"
	"stoplog/internal/rules"
	"stoplog/internal/runner"
)

func (d *daemon) newNotifier(set *rules.Set) (*notify.Notifier, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return notify.New(set.Notify, notify.Options{Host: host, Log: d.log})
}

// notify hands a breach to a target of `notify`. It never blocks.
func (d *daemon) notify(target string, br *detect.Breach, o ledger.Outcome) {
	d.notifier.Send(target, message(br, o))
}

// message is a breach and what came of it, for people.
func message(br *detect.Breach, o ledger.Outcome) notify.Message {
	m := notify.Message{
		Time: time.Unix(0, br.At), Rule: br.Rule, Key: br.Key, Service: br.Service, User: br.User, Count: br.Count, Points: br.Points, Counted: br.Counted(),
		Source: br.Source, Line: br.Line, Evidence: br.Evidence,
	}
	if br.Prefix.IsValid() {
		m.Prefix = br.Prefix.String()
	}
	if br.Addr.IsValid() {
		m.Addr = br.Addr.String()
	}
	for _, c := range o.Changes {
		if c.Op != ledger.Set {
			continue
		}
		m.Blocks = append(m.Blocks, c.Block.Prefix)
	}
	m.TTL = runner.BlockedFor(o)
	return m
}

// notifyTrouble is for status: targets whose last message failed.
func (d *daemon) notifyTrouble() (ts []string) {
	for _, s := range d.notifier.Stats() {
		if s.LastError != "" {
			ts = append(ts, "notify target "+s.Name+": "+s.LastError)
		}
	}
	return ts
}
