package daemon

import (
	"context"
	"reflect"
	"sync"

	"stoplog/internal/rules"
)

// spot runs something where the rules say, and anew when they change. T is
// what the rules say; its zero value means nowhere.
type spot[T any] struct {
	at chan T // holds one: the latest
	do func(ctx context.Context, at T)
}

func newSpot[T any](do func(ctx context.Context, at T)) *spot[T] {
	return &spot[T]{at: make(chan T, 1), do: do}
}

// set tells where to be. It never blocks; the latest holds. Only one goroutine
// may call it.
func (s *spot[T]) set(at T) {
	select {
	case <-s.at:
	default:
	}
	s.at <- at
}

// run calls do for each new place, with a context that ends when there is a
// newer one, until ctx ends; then it waits for do to return.
func (s *spot[T]) run(ctx context.Context) error {
	var now, nowhere T
	var running sync.WaitGroup
	end := func() {}
	for {
		select {
		case at := <-s.at:
			if reflect.DeepEqual(at, now) {
				continue
			}
			end()
			running.Wait()
			now = at
			var own context.Context
			own, end = context.WithCancel(ctx)
			if !reflect.DeepEqual(at, nowhere) {
				running.Go(func() { s.do(own, at) })
			}
		case <-ctx.Done():
			end()
			running.Wait()
			return nil
		}
	}
}

// setSpots tells listeners and exports where the rules want them. One without
// an address is nowhere, whatever else is said of it.
func (d *daemon) setSpots(set *rules.Set) {
	l := set.Listen
	for _, x := range []*rules.Listener{&l.Page, &l.Feed} {
		if x.Addr == "" {
			*x = rules.Listener{}
		}
	}
	if l.Check.Addr == "" {
		l.Check = rules.Check{}
	}
	d.pageSpot.set(l.Page)
	d.metricsSpot.set(l.Metrics)
	d.feedSpot.set(l.Feed)
	d.checkSpot.set(l.Check)
	d.exportSpot.set(set.Exports)
}
