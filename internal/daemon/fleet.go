package daemon

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/fleet"
	"stoplog/internal/rules"
)

// together is this machine's part in its fleet. The node has goroutines of its
// own; the loop gives it values and never waits for it.
type together struct {
	node   *fleet.Node // nil: this machine counts alone
	levels map[levelKey]fleet.Meaning
	lacks  string // why the rules' fleet is not in use
}

type levelKey struct {
	rule  string
	index int
}

// openFleet makes the node if the rules want one. A machine that cannot take part
// counts alone, and says so.
func (d *daemon) openFleet() {
	if d.set.Fleet.Mode == "" {
		return
	}
	dir := cmp.Or(d.opt.TokensDir, d.opt.StateDir) // of a dry run too
	m, err := fleet.Start(dir)
	if err == nil && m == nil {
		err = fmt.Errorf("this machine has not joined a fleet; see: stoplog fleet join")
	}
	if err != nil {
		d.fleet.lacks = "fleet: " + err.Error()
		d.note(d.fleet.lacks)
		return
	}
	d.fleet.node = fleet.New(fleet.Options{
		Member: m, Cache: fleet.LoadCache(dir), Log: d.log,
		Save: func(b []byte) error { return fleet.SaveCache(dir, b) },
		Dial: func() (fleet.Carrier, error) {
			v, err := fleet.Dial(m.URL, m.CA, m.Fleet)
			if err != nil {
				return nil, err
			}
			return v, nil
		},
		Decided: func(ctx context.Context, x fleet.Decision) {
			_ = d.ask(ctx, func() { d.decided(x, time.Now()) }) // the error is that we stop
		},
		Ordered: func(ctx context.Context, o fleet.Order) {
			_ = d.ask(ctx, func() { d.ordered(o, time.Now()) })
		},
	})
	d.shareLevels()
}

// shareLevels passes the levels that the rules share to the node.
func (d *daemon) shareLevels() {
	n, f := d.fleet.node, d.set.Fleet
	if n == nil {
		if f.Mode != "" && d.fleet.lacks == "" {
			d.note("fleet: restart stoplog to take part in the fleet")
		}
		return
	}
	if f.Mode == "" || !slices.Contains(f.Share, "counts") {
		d.engine.Unshare()
		d.fleet.levels = nil
		n.SetShared(nil, fleet.Limits{})
		return
	}
	shared := map[fleet.Meaning]fleet.Shared{}
	d.fleet.levels = map[levelKey]fleet.Meaning{}
	for _, l := range d.engine.Share(func(rule string) bool { return len(f.Rules) == 0 || slices.Contains(f.Rules, rule) }) {
		m := fleet.MeaningOf(l.Meaning)
		d.fleet.levels[levelKey{l.Rule, l.Index}] = m
		ttl := l.TTL
		if ttl == 0 {
			ttl = d.set.Block.TTL
		}
		shared[m] = fleet.Shared{Rule: l.Rule, Index: l.Index, Capacity: l.Capacity, Leak: l.Leak, Bits4: l.Bits4, Bits6: l.Bits6, TTL: ttl}
	}
	n.SetShared(shared, fleet.Limits{Quorum: f.Quorum, Cap: f.Cap, Longest: d.set.Block.Max})
	now := time.Now().UnixNano()
	d.tellFleet(func(f func(detect.Change)) { d.engine.AllShared(now, f) })
}

// tellFleet passes changes of buckets to the node.
func (d *daemon) tellFleet(each func(func(detect.Change))) {
	if d.fleet.node == nil {
		return
	}
	var ls []fleet.Level
	var ds []fleet.Distinct
	each(func(c detect.Change) {
		m, ok := d.fleet.levels[levelKey{c.Rule, c.Index}]
		switch {
		case !ok:
		case c.Values != nil:
			ds = append(ds, fleet.Distinct{Meaning: m, Prefix: c.Prefix, At: c.At, Until: c.Empty, Values: c.Values})
		default:
			ls = append(ls, fleet.Level{Meaning: m, Prefix: c.Prefix, At: c.At, Empty: c.Empty, Line: c.Line})
		}
	})
	d.fleet.node.Put(ls, ds)
}

// decided answers what the nodes decided together.
func (d *daemon) decided(x fleet.Decision, now time.Time) {
	var evidence, nodes []string
	for _, s := range x.Shares {
		nodes = append(nodes, s.Node)
		evidence = append(evidence, fmt.Sprintf("%s: %d of at most %d points, last at %s, line %08x", s.Node, s.Points, x.Most,
			time.Unix(0, s.At).UTC().Format(time.RFC3339), s.Line))
	}
	b, ok := d.engine.Together(x.Shared.Rule, x.Shared.Index, x.Prefix, min(x.At, now.UnixNano()), x.Points, evidence)
	if !ok {
		return
	}
	b.Nodes = nodes
	b.Observe = b.Observe || d.set.Fleet.Mode != "on"
	d.breached(&b, d.ledger.Breach(&b, now), now)
}

// ordered carries out what an operator ordered for all nodes.
func (d *daemon) ordered(o fleet.Order, now time.Time) {
	share := map[fleet.OrderKind]string{fleet.Block: "blocks", fleet.Unblock: "blocks", fleet.Allow: "allow", fleet.Disallow: "allow", fleet.Flag: "flags", fleet.ClearFlag: "flags"}
	if !slices.Contains(d.set.Fleet.Share, share[o.Kind]) {
		return
	}
	var ttl time.Duration
	if o.Until != 0 {
		if ttl = time.Unix(0, o.Until).Sub(now); ttl <= 0 {
			return
		}
	}
	if d.set.Fleet.Mode != "on" && o.Kind != fleet.Unblock {
		d.log.Info("fleet: order observed", "order", o.Kind.String(), "prefix", o.Prefix, "flag", o.Flag, "by", o.Who())
		return
	}
	var err error
	switch o.Kind {
	case fleet.Block:
		if ttl == 0 || ttl > d.set.Block.Max {
			ttl = d.set.Block.Max
		}
		_, err = d.block(o.Prefix, ttl, o.Reason, o.Who(), now)
	case fleet.Unblock:
		_, err = d.unblock(o.Prefix, o.Who(), now)
	case fleet.Allow:
		err = d.allow(o.Prefix, ttl, o.Reason, o.Who(), now)
	case fleet.Disallow:
		_, err = d.disallow(o.Prefix, o.Who(), now)
	case fleet.Flag:
		if !rules.FlagName(o.Flag) || ttl == 0 {
			return
		}
		err = d.raiseFlag(o.Flag, ttl, o.Reason, o.Who(), now)
	case fleet.ClearFlag:
		_, err = d.clearFlag(o.Flag, o.Who(), now)
	}
	d.dirty = true
	if err != nil {
		d.log.Warn("fleet: order", "order", o.Kind.String(), "prefix", o.Prefix, "error", err.Error())
		return
	}
	d.log.Info("fleet: order", "order", o.Kind.String(), "prefix", o.Prefix, "flag", o.Flag, "by", o.Who(), "reason", o.Reason)
}

// void makes the node forget what was said about p up to now.
func (d *daemon) void(p netip.Prefix, now time.Time) {
	if d.fleet.node != nil {
		d.fleet.node.Void(p, now.UnixNano())
	}
}

// runFleet carries entries until ctx ends.
func (d *daemon) runFleet(ctx context.Context) error {
	if d.fleet.node == nil {
		<-ctx.Done()
		return nil
	}
	return d.fleet.node.Run(ctx)
}
