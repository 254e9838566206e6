package daemon

import (
	"context"
	"errors"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"

	"stoplog/internal/api"
	"stoplog/internal/detect"
	"stoplog/internal/firewall"
	"stoplog/internal/ledger"
	"stoplog/internal/pipeline"
	"stoplog/internal/reconcile"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// entryOf is a block as the walls see it.
func entryOf(b ledger.Block, set *rules.Set) firewall.Entry {
	action := b.Action
	if action == "" {
		action = set.Firewall.Action
	}
	a, err := firewall.ParseAction(action)
	if err != nil {
		a = firewall.Drop
	}
	ports := wallPorts(b.Ports)
	if len(ports) == 0 {
		for _, p := range set.Firewall.Ports {
			ports = append(ports, firewall.Ports{Proto: p.Proto, From: p.From, To: p.To})
		}
	}
	return firewall.Entry{Prefix: b.Prefix, Until: b.Until, Action: a, Ports: ports, Cut: b.Cut || set.Firewall.Cut}
}

func wallPorts(ps []detect.Ports) []firewall.Ports {
	var out []firewall.Ports
	for _, p := range ps {
		out = append(out, firewall.Ports{Proto: p.Proto, From: p.From, To: p.To})
	}
	return out
}

// entries are all blocks, for a wall to be compared with; to be ranged over on
// the loop's goroutine.
func (d *daemon) entries(now time.Time) iter.Seq[firewall.Entry] {
	return func(yield func(firewall.Entry) bool) {
		going := true
		d.ledger.Each(now, func(b *ledger.Block) {
			if !going {
				return
			}
			e := entryOf(*b, d.set)
			e.Cut = false // running connections were cut when the block was new
			going = yield(e)
		})
	}
}

// firewallLedger is the ledger as the reconciler sees it. Each method runs on the
// loop's goroutine.
type firewallLedger struct{ d *daemon }

func (l firewallLedger) ask(ctx context.Context, f func()) error {
	if err := l.d.ask(ctx, f); errors.Is(err, api.ErrStopping) {
		return context.Canceled
	} else {
		return err
	}
}

func (l firewallLedger) Policy(ctx context.Context) (p firewall.Policy, err error) {
	err = l.ask(ctx, func() { p = l.d.policy(time.Now()) })
	return p, err
}

func (l firewallLedger) Wanted(ctx context.Context, use func(iter.Seq[firewall.Entry], int)) error {
	return l.ask(ctx, func() { use(l.d.entries(time.Now()), l.d.ledger.Stats().Blocks) })
}

func (l firewallLedger) Lost(ctx context.Context) (lost bool, err error) {
	err = l.ask(ctx, func() { lost = l.d.lostState })
	return lost, err
}

func (l firewallLedger) Adopt(ctx context.Context, found []firewall.Entry) error {
	return l.ask(ctx, func() {
		l.d.lostState = false
		l.d.adopt(found, time.Now())
	})
}

func (l firewallLedger) Deleted(ctx context.Context, ps []netip.Prefix) error {
	return l.ask(ctx, func() { l.d.deletedByHand(ps, time.Now()) })
}

// orders are changes of the ledger for the reconciler. Running connections are
// cut only when their block is new.
func (d *daemon) orders(cs []ledger.Change) []reconcile.Order {
	os := make([]reconcile.Order, len(cs))
	for i, c := range cs {
		e := entryOf(c.Block, d.set)
		e.Cut = e.Cut && c.New
		os[i] = reconcile.Order{Entry: e, Lift: c.Op == ledger.Lift}
	}
	return os
}

// policy is what stands around the blocks.
func (d *daemon) policy(now time.Time) firewall.Policy {
	p := firewall.Policy{Allow: d.ledger.AllowedPrefixes(now)}
	d.allowEnds = d.ledger.NextAllowanceEnd(now)
	if l := d.ledger.Lockdown(); l.Until.After(now) {
		p.Lockdown.Ports = wallPorts(l.Ports)
		p.Lockdown.Until = l.Until
		p.Lockdown.Known = d.ledger.KnownAddrs(now, l.Services...)
	}
	return p
}

// tellPolicy tells walls and lists who is allowed, and of lockdowns and flags.
func (d *daemon) tellPolicy() {
	now := time.Now()
	d.reconciler.SetPolicy(d.policy(now))
	d.showPolicy(now)
}

// ledgerOptions are the rules' part in the ledger, with the daemon's folder of
// flags; lists that could not be read are logged and kept for status.
func (d *daemon) ledgerOptions(set *rules.Set) ledger.Options {
	o, problems := pipeline.LedgerOptions(set)
	o.FlagsDir = d.opt.FlagsDir
	d.listErrs = problems
	for _, p := range problems {
		d.log.Warn(p)
	}
	return o
}

// sourceSpecs are the rules' sources as the source package wants them.
func sourceSpecs(set *rules.Set) []source.Spec {
	specs := make([]source.Spec, len(set.Sources))
	for i, s := range set.Sources {
		spec := source.Spec{Service: s.Service, Format: s.Format, Exclude: s.Exclude}
		switch s.Kind {
		case rules.Auth:
			spec.Auth = true
		case rules.File:
			spec.File = s.Path
		case rules.Journal:
			spec.Journal = &source.JournalMatch{Units: s.Units, Identifiers: s.Identifiers, Containers: s.Containers, Raw: s.Matches}
		case rules.Stdin:
			spec.Stdin = true
		case rules.Pipe:
			spec.Pipe = s.Path
		}
		specs[i] = spec
	}
	return specs
}

// refreshProtected looks again at who must never be blocked.
func (d *daemon) refreshProtected(now time.Time) {
	found := d.finder.Find(d.set.Protect.Own, d.set.Protect.SSHPeers)
	if slices.Equal(found, d.protected) {
		return
	}
	d.protected = found
	ps := make([]netip.Prefix, len(found))
	for i, a := range found {
		ps[i] = a.Prefix()
	}
	lifted := d.ledger.SetProtected(slices.Compact(ps), now)
	d.lift(lifted, "protected")
	d.tellPolicy()
}

// lift applies what an order lifted and empties the buckets it names.
func (d *daemon) lift(l ledger.Lifted, why string) {
	d.apply(l.Changes, why)
	for _, p := range l.Forget {
		d.engine.Forget(p)
	}
}

// lockless returns a problem if a rule has a lockdown that no backend in use can
// enforce, otherwise "".
func (d *daemon) lockless(set *rules.Set) string {
	walls := strings.Split(d.opt.WallName, "+")
	if d.opt.DryRun || slices.ContainsFunc(walls, firewall.LocksDown) {
		return ""
	}
	for _, r := range set.Rules {
		for _, l := range r.Levels {
			if slices.ContainsFunc(l.Then, func(a rules.Answer) bool { return a.Kind == rules.Lockdown }) {
				return "the lockdown of rule " + r.Name + " has no effect: " + strings.Join(walls, " and ") + " cannot enforce it"
			}
		}
	}
	return ""
}

// deletedByHand records elements that somebody deleted with the firewall's
// own tools as unblocked.
func (d *daemon) deletedByHand(ps []netip.Prefix, now time.Time) {
	for _, p := range ps {
		standing := false
		for _, b := range d.ledger.Covering(p.Addr(), now) {
			standing = standing || b.Prefix == p
		}
		if !standing {
			continue // ended meanwhile
		}
		l, err := d.ledger.UnblockExact(p, "firewall tools", now)
		if err != nil {
			d.note(err.Error())
		}
		d.lift(l, "deleted from the firewall by hand")
	}
}
