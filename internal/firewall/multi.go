package firewall

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Multi is several walls used as one: every order goes to each, and each is
// tried even when another fails. The first one's word counts: a block that is
// deleted by hand there was unblocked. What others lack or have too much is put
// right with the next Reconcile.
type Multi []Backend

// Name joins the names.
func (m Multi) Name() string {
	names := make([]string, len(m))
	for i, b := range m {
		names[i] = b.Name()
	}
	return strings.Join(names, "+")
}

func (m Multi) each(do func(Backend) error) error {
	errs := make([]error, 0, len(m))
	for _, b := range m {
		errs = append(errs, do(b))
	}
	return errors.Join(errs...)
}

// Setup sets up each.
func (m Multi) Setup(ctx context.Context, p Policy) error {
	return m.each(func(b Backend) error { return b.Setup(ctx, p) })
}

// Block blocks in each.
func (m Multi) Block(ctx context.Context, es []Entry) error {
	return m.each(func(b Backend) error { return b.Block(ctx, es) })
}

// Unblock lifts in each.
func (m Multi) Unblock(ctx context.Context, ps []netip.Prefix) error {
	return m.each(func(b Backend) error { return b.Unblock(ctx, ps) })
}

// Marks that Multi's List puts into Until, where the walls disagree.
var (
	OnlyElsewhere  = time.Time{}           // the first wall does not hold it, another does
	lackedByOthers = time.Unix(1, 0).UTC() // the first wall holds it, another does not: never the wanted end
)

// List returns what the first wall holds, and what only others do. Where they
// disagree Until is a mark for Reconcile, long past. Of several walls the
// answers are compared in memory.
func (m Multi) List(ctx context.Context, emit func(Entry)) error {
	if len(m) == 0 {
		return nil
	}
	if len(m) == 1 {
		return m[0].List(ctx, emit)
	}
	all, lost := ListAll(ctx, m[0])
	if lost != nil && !errors.Is(lost, ErrBroken) {
		return lost
	}
	at := make(map[netip.Prefix]int, len(all))
	for i, e := range all {
		at[e.Prefix] = i
	}
	n := len(all)
	for _, b := range m[1:] {
		es, err := ListAll(ctx, b)
		if err != nil && !errors.Is(err, ErrBroken) {
			return err
		}
		lost = errors.Join(lost, err)
		has := make(map[netip.Prefix]bool, len(es))
		for _, e := range es {
			has[e.Prefix] = true
			if _, known := at[e.Prefix]; !known {
				at[e.Prefix] = len(all)
				e.Until = OnlyElsewhere
				all = append(all, e)
			}
		}
		for i := range all[:n] {
			if !has[all[i].Prefix] {
				all[i].Until = lackedByOthers
			}
		}
	}
	for _, e := range all {
		emit(e)
	}
	return lost
}

// Teardown tears each down.
func (m Multi) Teardown(ctx context.Context) error {
	return m.each(func(b Backend) error { return b.Teardown(ctx) })
}

// Check checks those that can be.
func (m Multi) Check(ctx context.Context) error {
	return m.each(func(b Backend) error {
		if c, ok := b.(Checker); ok {
			return c.Check(ctx)
		}
		return nil
	})
}

// Expire expires in those that need it.
func (m Multi) Expire(ctx context.Context) error {
	return m.each(func(b Backend) error {
		if e, ok := b.(Expirer); ok {
			return e.Expire(ctx)
		}
		return nil
	})
}

// Notes gathers the notes, each led by its wall's name.
func (m Multi) Notes() []string {
	var notes []string
	for _, b := range m {
		if n, ok := b.(Noter); ok {
			for _, s := range n.Notes() {
				notes = append(notes, b.Name()+": "+s)
			}
		}
	}
	return notes
}

// Watch watches those that tell. Only the first wall's deletions by hand
// count as such; it returns when the last of them stops.
func (m Multi) Watch(ctx context.Context, emit func(Change)) error {
	var wg sync.WaitGroup
	var mu sync.Mutex // guards errs and emit
	var errs []error
	for i, b := range m {
		w, ok := b.(Watcher)
		if !ok {
			continue
		}
		wg.Go(func() {
			err := w.Watch(ctx, func(c Change) {
				mu.Lock()
				defer mu.Unlock()
				if i > 0 {
					c = Change{Broken: true}
				}
				emit(c)
			})
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
