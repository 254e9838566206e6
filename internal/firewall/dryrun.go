package firewall

import (
	"context"
	"net/netip"
	"time"
)

// DryRun is a wall that only remembers. It forgets blocks whose end has come.
type DryRun struct {
	name string
	held map[netip.Prefix]Entry
}

// NewDryRun returns an empty one.
func NewDryRun() *DryRun { return &DryRun{"dry-run", map[netip.Prefix]Entry{}} }

// NewNone returns one for rules that want no wall here: what is blocked shows in
// lists, exports and feeds only.
func NewNone() *DryRun { return &DryRun{"none", map[netip.Prefix]Entry{}} }

// Name is "dry-run" or "none".
func (d *DryRun) Name() string { return d.name }

// Setup accepts every policy: nothing is done that it could concern.
func (d *DryRun) Setup(context.Context, Policy) error { return nil }

// Block remembers entries.
func (d *DryRun) Block(_ context.Context, es []Entry) error {
	live, ended, err := Prepare(es, time.Now())
	for _, e := range live {
		d.held[e.Prefix] = e
	}
	for _, p := range ended {
		delete(d.held, p)
	}
	return err
}

// Unblock forgets prefixes.
func (d *DryRun) Unblock(_ context.Context, ps []netip.Prefix) error {
	for _, p := range ps {
		delete(d.held, p)
	}
	return nil
}

// List returns what is remembered.
func (d *DryRun) List(_ context.Context, emit func(Entry)) error {
	now := time.Now()
	for p, e := range d.held {
		if !e.Until.After(now) {
			delete(d.held, p)
			continue
		}
		emit(e)
	}
	return nil
}

// Teardown forgets everything.
func (d *DryRun) Teardown(context.Context) error {
	clear(d.held)
	return nil
}
