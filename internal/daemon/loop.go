package daemon

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"stoplog/internal/api"
	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/pipeline"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// How often the loop looks at what nobody tells it of.
const (
	lookEvery  = 2 * time.Second // files that may have changed, protected addresses
	sweepEvery = time.Minute     // drained buckets
	leanEvery  = 10 * time.Minute
)

// loop owns the state: it takes batches, does what others ask for, and lets
// blocks expire, until ctx ends.
func (d *daemon) loop(ctx context.Context, batches <-chan *source.Batch) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	save := time.NewTicker(d.opt.SaveEvery)
	defer save.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	thin := time.NewTicker(leanEvery)
	defer thin.Stop()
	expiry := time.NewTimer(time.Hour)
	defer expiry.Stop()
	caughtUp := d.sources.CaughtUp()
	for {
		d.arm(expiry)
		select {
		case b := <-batches:
			d.take(b)
		case f := <-d.asks:
			f()
		case <-expiry.C:
			d.expire(time.Now())
		case <-caughtUp:
			caughtUp = nil
			for len(batches) > 0 { // sent before: they are part of catching up
				d.take(<-batches)
			}
			d.recovered(time.Now())
		case <-save.C:
			d.saveIfDirty(time.Now())
		case <-look.C:
			now := time.Now()
			d.settle(now)
			d.tally(now)
			d.lookAround(now)
		case <-sweep.C:
			d.engine.Sweep(time.Now().UnixNano())
			d.ledger.PruneAudit(time.Now())
		case <-thin.C:
			debug.FreeOSMemory() // a few milliseconds; orders and reloads leave much behind
		case <-hup:
			d.reload(time.Now(), "SIGHUP")
		case <-ctx.Done():
			return
		}
	}
}

// arm sets the timer to when the next block, flag or allowance ends.
func (d *daemon) arm(t *time.Timer) {
	next := d.ledger.NextExpiry()
	if e := d.allowEnds; !e.IsZero() && (next.IsZero() || e.Before(next)) {
		next = e
	}
	if next.Equal(d.nextExpiry) {
		return
	}
	d.nextExpiry = next
	wait := time.Hour
	if !next.IsZero() {
		wait = max(time.Until(next), time.Millisecond)
	}
	t.Reset(wait)
}

func (d *daemon) take(b *source.Batch) {
	now := time.Now()
	known := d.machine.Stats(b.Origin.Name).Events
	err := d.machine.Take(b, now, func(br *detect.Breach, o ledger.Outcome) { d.breached(br, o, now) })
	if err != nil {
		d.note(err.Error())
	}
	d.trends.read(now, len(b.Lines), d.machine.Stats(b.Origin.Name).Events-known)
	d.tellFleet(d.engine.Changes)
	d.positions[b.Origin.Name] = b.Pos
	d.dirty = true
	b.Release()
}

// settle counts what was held until it was sure who wrote it.
func (d *daemon) settle(now time.Time) {
	d.machine.Settle(now, false, func(r *pipeline.Reader) {
		d.machine.Apply(r, now, func(br *detect.Breach, o ledger.Outcome) { d.breached(br, o, now) })
		d.tellFleet(d.engine.Changes)
		d.dirty = true
	})
}

// breached carries out the result of a breach.
func (d *daemon) breached(br *detect.Breach, o ledger.Outcome, now time.Time) {
	d.trends.breached(now, br)
	if o.Fresh {
		d.logBreach(br, o, now)
	}
	for _, why := range o.Refused {
		d.log.Info("not blocked", "rule", br.Rule, "key", br.Key, "why", why)
	}
	d.apply(o.Changes, "")
	if o.Policy {
		d.tellPolicy()
	}
	if o.Fresh && !d.recovering {
		d.runner.Answer(br, o)
	}
}

func (d *daemon) logBreach(br *detect.Breach, o ledger.Outcome, now time.Time) {
	set := false
	for _, c := range o.Changes {
		if c.Op == ledger.Set {
			set = true
			d.log.Info("block", "prefix", c.Block.Prefix, "rule", c.Block.Rule, "count", c.Block.Count, "points", c.Block.Points, "for", rules.FormatDuration(c.Block.Until.Sub(c.Block.Since).Round(time.Second)),
				"until", c.Block.Until.UTC().Format(time.RFC3339), "source", br.Source, "line", br.Line)
		}
	}
	if !set {
		d.log.Info("breach", "rule", br.Rule, "key", br.Key, "count", br.Count, "points", br.Points, "source", br.Source, "line", br.Line)
	}
}

// apply hands changes to the walls. why, when not empty, is logged of lifts.
func (d *daemon) apply(cs []ledger.Change, why string) {
	if len(cs) == 0 {
		return
	}
	d.dirty = true
	d.reconciler.Change(d.orders(cs))
	d.show(cs)
	d.trends.blocked(time.Now(), cs)
	if now := time.Now(); !slices.Equal(d.excepted, d.ledger.Excepted(now)) {
		d.excepted = d.ledger.Excepted(now)
		d.tellPolicy() // with these changes or before them
	}
	for _, c := range cs {
		if c.Op == ledger.Lift && why != "" {
			d.log.Info("unblock", "prefix", c.Block.Prefix, "rule", c.Block.Rule, "why", why)
		}
	}
}

func (d *daemon) expire(now time.Time) {
	d.nextExpiry = time.Time{}
	d.apply(d.ledger.Expire(now), "expired")
	if e := d.allowEnds; !e.IsZero() && !now.Before(e) {
		d.tellPolicy() // walls do not end allowances by themselves
	}
}

// recovered ends recovery: every log was read up to its end once.
func (d *daemon) recovered(now time.Time) {
	if !d.recovering {
		return
	}
	d.recovering = false
	d.apply(d.ledger.RecoveryDone(now), "recovered")
	// Positions that are known for the first time must survive a crash: without
	// them the next start would begin at the end of the logs.
	d.saveIfDirty(now)
	debug.FreeOSMemory()
	d.log.Info("caught up with the logs", "blocks", d.ledger.Stats().Blocks)
}

// ask runs f on the loop's goroutine and waits for it.
func (d *daemon) ask(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case d.asks <- func() { f(); close(done) }:
	case <-d.stopped:
		return api.ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-d.stopped:
		return api.ErrStopping
	}
}

// maxNotes bounds what status repeats.
const maxNotes = 20

// note keeps a sentence for status and logs it the first time.
func (d *daemon) note(s string) {
	for _, n := range d.notes {
		if n == s {
			return
		}
	}
	d.log.Warn(s)
	if len(d.notes) >= maxNotes {
		d.notes = d.notes[1:]
	}
	d.notes = append(d.notes, s)
}
