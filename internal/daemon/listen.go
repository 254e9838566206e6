package daemon

import (
	"context"

	"stoplog/internal/rules"
)

// setPage tells where the page is to be. It never blocks; the latest holds.
func (d *daemon) setPage(l rules.Listener) {
	select {
	case <-d.pageAt:
	default:
	}
	d.pageAt <- l // only the loop's goroutine sends
}

func (d *daemon) page(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
