package metrics

import (
	"context"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Every is the time between textfiles.
const Every = 15 * time.Second

// Textfile writes the metrics to path, in a folder of node_exporter's textfile
// collector, now and every 15 seconds until ctx ends; then it removes the
// file, so that nobody takes a stoplog that is gone for one at work. Readers
// never see half a file (it is replaced as a whole, with mode 0644). report
// gets an error when one begins, and nil when it has passed.
func Textfile(ctx context.Context, path string, c *Collector, report func(error)) {
	r := registry(c)
	tick := time.NewTicker(Every)
	defer tick.Stop()
	bad := false
	for {
		err := prometheus.WriteToTextfile(path, r)
		if (err != nil) != bad {
			bad = err != nil
			report(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = os.Remove(path)
			return
		}
	}
}
