package daemon

import (
	"context"
	"sync"
	"time"

	"stoplog/internal/httpd"
	"stoplog/internal/metrics"
	"stoplog/internal/rules"
)

// againAfter is the wait before a listener that failed is tried again.
const againAfter = 10 * time.Second

// showMetrics shows the metrics where the rules say, until ctx ends.
func (d *daemon) showMetrics(ctx context.Context, m rules.Metrics) {
	var parts sync.WaitGroup
	defer parts.Wait()
	if m.Addr != "" {
		parts.Go(func() { d.serveMetrics(ctx, m) })
	}
	if m.Textfile != "" {
		parts.Go(func() {
			const what = "metrics file"
			defer d.well(what)
			metrics.Textfile(ctx, m.Textfile, d.collector(), d.metricsProblem(what))
		})
	}
}

func (d *daemon) collector() *metrics.Collector {
	return metrics.New(func(ctx context.Context) (metrics.Reading, error) {
		s, err := d.api.Status(ctx)
		r := metrics.Reading{Status: s}
		for _, n := range d.notifier.Stats() {
			r.Notify = append(r.Notify, metrics.Notify{Name: n.Name, Sent: n.Sent, Failed: n.Failed, Waiting: n.Waiting})
		}
		return r, err
	})
}

// serveMetrics keeps the listener open.
func (d *daemon) serveMetrics(ctx context.Context, m rules.Metrics) {
	const what = "metrics listener"
	defer d.well(what)
	for ctx.Err() == nil {
		l, err := httpd.Listen(m.Addr, 0o660)
		if err == nil {
			d.log.Info("metrics", "listening", l.Addr().String())
			d.well(what)
			err = metrics.Serve(ctx, l, d.collector(), metrics.Options{TokenFile: m.TokenFile, Clients: m.Clients, Problem: d.tokenProblem(what)})
		}
		if err == nil {
			return
		}
		d.metricsProblem(what)(err)
		select {
		case <-time.After(againAfter):
		case <-ctx.Done():
		}
	}
}

// metricsProblem reports what fails until it works again (nil).
func (d *daemon) metricsProblem(what string) func(error) {
	return func(err error) {
		if err == nil {
			d.log.Info("metrics work again")
			d.well(what)
			return
		}
		d.fails(what, "metrics: "+err.Error())
	}
}
