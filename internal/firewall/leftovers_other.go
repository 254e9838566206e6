//go:build !linux

package firewall

import (
	"context"
	"slices"
)

// Leftover is something of ours that stands in a firewall and that nobody keeps.
type Leftover struct {
	What   string
	remove func(context.Context) error
}

// Remove takes it away, and nothing else.
func (l Leftover) Remove(ctx context.Context) error { return l.remove(ctx) }

// Leftovers looks for lines of ours in hosts.deny when that is not in use.
func Leftovers(_ context.Context, inUse []string, o Options) ([]Leftover, error) {
	w, err := NewHostsDeny(o)
	if err != nil || slices.Contains(inUse, "hosts.deny") {
		return nil, err
	}
	if t, err := w.file.read(); err != nil || !t.marked {
		return nil, nil
	}
	return []Leftover{{"hosts.deny: stoplog's lines", w.Teardown}}, nil
}
