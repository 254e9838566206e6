package daemon

import (
	"context"
	"reflect"
	"sync"

	"stoplog/internal/rules"
)

// service runs a listener or an export with the settings of the rules, and starts
// it again when they change. The zero T means that it is not configured.
type service[T any] struct {
	settings chan T // holds one: the latest
	do       func(ctx context.Context, at T)
}

func newService[T any](do func(ctx context.Context, at T)) *service[T] {
	return &service[T]{settings: make(chan T, 1), do: do}
}

// set changes the settings. It never blocks; the latest win. Only one goroutine
// may call it.
func (s *service[T]) set(to T) {
	select {
	case <-s.settings:
	default:
	}
	s.settings <- to
}

// run calls do for each change of the settings, with a context that ends at the
// next one, until ctx ends; then it waits for do to return.
func (s *service[T]) run(ctx context.Context) error {
	var now, off T
	var running sync.WaitGroup
	end := func() {}
	for {
		select {
		case at := <-s.settings:
			if reflect.DeepEqual(at, now) {
				continue
			}
			end()
			running.Wait()
			now = at
			var own context.Context
			own, end = context.WithCancel(ctx)
			if !reflect.DeepEqual(at, off) {
				running.Go(func() { s.do(own, at) })
			}
		case <-ctx.Done():
			end()
			running.Wait()
			return nil
		}
	}
}

// configure gives listeners and exports their settings. One without an address
// is off, whatever else is configured for it.
func (d *daemon) configure(set *rules.Set) {
	l := set.Listen
	for _, x := range []*rules.Listener{&l.Page, &l.Feed} {
		if x.Addr == "" {
			*x = rules.Listener{}
		}
	}
	if l.Check.Addr == "" {
		l.Check = rules.Check{}
	}
	d.page.set(l.Page)
	d.metrics.set(l.Metrics)
	d.feed.set(l.Feed)
	d.check.set(l.Check)
	d.exports.set(set.Exports)
}
