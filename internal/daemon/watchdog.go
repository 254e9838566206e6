package daemon

import (
	"context"
	"time"

	"stoplog/internal/reconcile"
)

// heardOf is a wall that knows when it was heard of last.
type heardOf interface{ Answered() time.Time }

// silence is how long a wall may not be heard of: it is asked something every
// second or two, and while it fails at least every reconcile.MaxRetry.
const silence = reconcile.MaxRetry + 15*time.Second

// watchdog calls Alive on the loop's goroutine from time to time. When the loop
// hangs, or the wall does not answer, nothing is called, and the service
// manager restarts us.
func (d *daemon) watchdog(ctx context.Context) error {
	if d.opt.Alive == nil || d.opt.AliveEvery <= 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(d.opt.AliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if w, ok := d.opt.Wall.(heardOf); ok && !w.Answered().IsZero() && time.Since(w.Answered()) > silence {
			continue
		}
		if d.ask(ctx, d.opt.Alive) != nil {
			return nil // it is ending
		}
	}
}
