package daemon

import (
	"os"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/rules"
	"stoplog/internal/tell"
)

func (d *daemon) newTeller(set *rules.Set) (*tell.Teller, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return tell.New(set.Notify, tell.Options{Host: host, Log: d.log})
}

// tell hands a breach to a target of `notify`. It never blocks.
func (d *daemon) tell(target string, br *detect.Breach, o ledger.Outcome) {
	d.teller.Send(target, message(br, o))
}

// message is a breach and what came of it, for people.
func message(br *detect.Breach, o ledger.Outcome) tell.Message {
	m := tell.Message{
		Time: time.Unix(0, br.At), Rule: br.Rule, Key: br.Key, Service: br.Service, User: br.User, Count: br.Count,
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
	m.TTL = blockedFor(o)
	return m
}

// tellTrouble is for status: targets whose last message failed.
func (d *daemon) tellTrouble() (ts []string) {
	for _, s := range d.teller.Stats() {
		if s.LastError != "" {
			ts = append(ts, "notify target "+s.Name+": "+s.LastError)
		}
	}
	return ts
}
