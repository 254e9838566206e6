package daemon

import (
	"context"
	"time"
)

// watchdog calls Alive on the loop's goroutine from time to time. When the
// loop hangs nothing is called, and the service manager starts us anew.
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
		if d.ask(ctx, d.opt.Alive) != nil {
			return nil // it is ending
		}
	}
}
