// Package listwall is the backends that only keep a list, for rules that are the
// administrator's: set-only fills sets, exec runs programs.
package listwall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"stoplog/internal/firewall"
)

// lister is a place that holds a list of prefixes that do not overlap.
type lister interface {
	name() string
	// setup proves that the list can be written.
	setup(ctx context.Context) error
	// apply removes and adds or refreshes. Removing the absent is no error.
	apply(ctx context.Context, add []firewall.Entry, remove []netip.Prefix) error
	// present returns which of the pieces are there still; the error wraps
	// ErrBroken, beside the answer, when what is missing was not deleted one by one.
	present(ctx context.Context, pieces map[netip.Prefix]firewall.Entry) (map[netip.Prefix]bool, error)
	// teardown ends it, once all was removed.
	teardown(ctx context.Context) error
}

// listWall is a wall that only keeps a list, for rules that are not ours: the
// blocks minus the allowlist, without overlaps. What it holds it knows from
// memory: after a start everything is to be blocked again, which is harmless.
type wall struct {
	l    lister
	c    *cover
	max  int
	lost bool // the list was emptied, and List has not told
}

func newWall(l lister, max int) *wall {
	return &wall{l: l, c: newCover(), max: max}
}

func (w *wall) Name() string { return w.l.name() }

func (w *wall) Setup(ctx context.Context, p firewall.Policy) error {
	if err := w.l.setup(ctx); err != nil {
		return err
	}
	w.c.setAllow(p.Allow)
	// What others removed is put back with the rest.
	there, err := w.l.present(ctx, w.c.pieces)
	if err != nil && !errors.Is(err, firewall.ErrBroken) {
		return err
	}
	w.lost = w.lost || err != nil
	for p := range w.c.pieces {
		if !there[p] {
			delete(w.c.pieces, p)
		}
	}
	return w.apply(ctx)
}

func (w *wall) apply(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", w.Name(), err)
	}
	w.c.expire(time.Now())
	add, remove := w.c.change()
	if len(add)+len(remove) == 0 {
		return nil
	}
	if err := w.l.apply(ctx, add, remove); err != nil {
		return err
	}
	w.c.done(add, remove)
	return nil
}

func (w *wall) Block(ctx context.Context, es []firewall.Entry) error {
	live, ended, err := firewall.Prepare(es, time.Now())
	errs := []error{err}
	full := &firewall.FullError{Wall: w.Name(), Max: w.max}
	for _, p := range ended {
		delete(w.c.held, p)
	}
	w.c.expire(time.Now())
	for _, e := range live {
		if e.Action == firewall.Slow {
			errs = append(errs, fmt.Errorf("%s: slow of %s: %w", w.Name(), e.Prefix, firewall.ErrUnsupported))
			continue
		}
		if _, there := w.c.held[e.Prefix]; !there && len(w.c.held) >= w.max {
			full.Left = append(full.Left, e.Prefix)
			continue
		}
		w.c.held[e.Prefix] = e
	}
	errs = append(errs, w.apply(ctx))
	if len(full.Left) > 0 {
		errs = append(errs, full)
	}
	return errors.Join(errs...)
}

func (w *wall) Unblock(ctx context.Context, ps []netip.Prefix) error {
	for _, p := range ps {
		delete(w.c.held, p)
	}
	return w.apply(ctx)
}

// List returns which blocks are wholly there.
func (w *wall) List(ctx context.Context, emit func(firewall.Entry)) error {
	there, err := w.l.present(ctx, w.c.pieces)
	if err != nil && !errors.Is(err, firewall.ErrBroken) {
		return err
	}
	gone := false
	for p := range w.c.pieces {
		gone = gone || !there[p]
	}
	now := time.Now()
	for p, e := range w.c.held {
		if !e.Until.After(now) {
			continue
		}
		whole := true
		if gone {
			for _, piece := range w.c.piecesOf(p) {
				whole = whole && there[piece]
			}
		}
		if whole {
			emit(e)
		}
	}
	if w.lost && err == nil {
		err = fmt.Errorf("%s: the list was emptied: %w", w.Name(), firewall.ErrBroken)
	}
	w.lost = false
	return err
}

// Check looks whether the list was emptied.
func (w *wall) Check(ctx context.Context) error {
	_, err := w.l.present(ctx, w.c.pieces)
	return err
}

func (w *wall) Expire(ctx context.Context) error { return w.apply(ctx) }

func (w *wall) Teardown(ctx context.Context) error {
	clear(w.c.held)
	if err := w.apply(ctx); err != nil {
		return err
	}
	return w.l.teardown(ctx)
}
