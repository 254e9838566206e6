package daemon

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"stoplog/internal/api"
	"stoplog/internal/export"
	"stoplog/internal/ledger"
	"stoplog/internal/rules"
	"stoplog/internal/trend"
)

// newAPI returns what the socket, the page and the metrics ask.
func (d *daemon) newAPI() *api.API {
	backend := strings.ReplaceAll(d.opt.WallName, "+", ",")
	if d.opt.DryRun {
		backend = "dry-run"
	}
	return api.New(apiLoop{d}, api.Options{
		Version: d.opt.Version, Rights: d.opt.Rights, StateDir: d.opt.StateDir, Started: d.started,
		DryRun: d.opt.DryRun, Backend: backend, BackendWhy: d.opt.WallWhy,
	})
}

// apiLoop is the loop as the API sees it.
type apiLoop struct{ d *daemon }

var _ api.Loop = apiLoop{}

func (l apiLoop) Ask(ctx context.Context, f func(api.State)) error {
	return l.d.ask(ctx, func() { f(l.d.state()) })
}

func (d *daemon) state() api.State {
	set := d.set
	return api.State{
		Rules: set, Ledger: d.ledger, Engine: d.engine, Machine: d.machine, Sources: d.sources, Firewall: d.reconciler,
		Protected: d.protected, Fleet: d.fleet.node,
		Limit: func(b ledger.Block) export.Limit { return limitOf(b, set) },
	}
}

func (l apiLoop) Done() <-chan struct{} { return l.d.stopped }

func (l apiLoop) Health() api.Health {
	d := l.d
	return api.Health{
		Recovering: d.recovering, SavedAt: d.savedAt, ReloadedAt: d.reloadedAt,
		Trouble: d.trouble(), Notes: d.allNotes(), Listeners: d.listeners(),
	}
}

func (l apiLoop) Trends(now time.Time) *trend.Trend {
	l.d.tally(now)
	return &l.d.trends.Trend
}

func (l apiLoop) Block(p netip.Prefix, ttl time.Duration, reason, by string, now time.Time) ([]ledger.Change, error) {
	cs, err := l.d.block(p, ttl, reason, by, now)
	if len(cs) > 0 {
		l.d.log.Info("block", "prefix", p, "by", by, "for", rules.FormatDuration(ttl), "reason", reason)
	}
	return cs, err
}

func (l apiLoop) Unblock(p netip.Prefix, by string, now time.Time) (int, error) {
	n, err := l.d.unblock(p, by, now)
	if n == 0 {
		l.d.save(now) // empty buckets are an order too, and on disk before the answer
	}
	return n, err
}

func (l apiLoop) Allow(p netip.Prefix, ttl time.Duration, reason, by string, now time.Time) error {
	return l.d.allow(p, ttl, reason, by, now)
}

func (l apiLoop) Disallow(p netip.Prefix, by string, now time.Time) (bool, error) {
	return l.d.disallow(p, by, now)
}

func (l apiLoop) RaiseFlag(name string, ttl time.Duration, by string, now time.Time) error {
	return l.d.raiseFlag(name, ttl, "", by, now)
}

// ClearFlag ends a lockdown too, under the name that it has among the flags.
func (l apiLoop) ClearFlag(name, by string, now time.Time) (bool, error) {
	was, err := l.d.clearFlag(name, by, now)
	if name == rules.LockdownFlag && l.d.ledger.Lockdown().Until.After(now) {
		was, err = true, errors.Join(err, l.d.ledger.EndLockdown(by, now))
		l.d.tellPolicy()
	}
	return was, err
}

func (l apiLoop) Reload(now time.Time) (*rules.Set, []rules.Problem) {
	problems := l.d.reload(now, "requested")
	return l.d.set, problems
}

// The orders of an administrator, on this machine and from the fleet.

func (d *daemon) block(p netip.Prefix, ttl time.Duration, reason, by string, now time.Time) ([]ledger.Change, error) {
	cs, err := d.ledger.BlockByHand(p, ttl, reason, by, now)
	d.apply(cs, "")
	return cs, err
}

// unblock lifts blocks and empties the buckets of p.
func (d *daemon) unblock(p netip.Prefix, by string, now time.Time) (n int, err error) {
	l, err := d.ledger.Unblock(p, by, now)
	d.lift(l, "by "+by)
	d.engine.Forget(p)
	d.void(p, now)
	for _, c := range l.Changes {
		if c.Op == ledger.Lift {
			n++
		}
	}
	return n, err
}

func (d *daemon) allow(p netip.Prefix, ttl time.Duration, reason, by string, now time.Time) error {
	l, err := d.ledger.Allow(p, ttl, reason, by, now)
	d.lift(l, "allowed by "+by)
	d.tellPolicy()
	d.dirty = true
	return err
}

func (d *daemon) disallow(p netip.Prefix, by string, now time.Time) (bool, error) {
	was, err := d.ledger.Disallow(p, by, now)
	d.tellPolicy()
	return was, err
}

func (d *daemon) raiseFlag(name string, ttl time.Duration, reason, by string, now time.Time) error {
	err := d.ledger.RaiseFlag(name, ttl, reason, by, now)
	d.showPolicy(now)
	return err
}

func (d *daemon) clearFlag(name, by string, now time.Time) (bool, error) {
	was, err := d.ledger.ClearFlag(name, by, now)
	d.showPolicy(now)
	return was, err
}
