//go:build !linux

package registry

import (
	"context"
	"slices"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/hostsdeny"
)

// Leftovers looks for lines of ours in hosts.deny when that is not in use.
func Leftovers(_ context.Context, inUse []string, o firewall.Options) ([]firewall.Leftover, error) {
	o, err := o.WithDefaults()
	if err != nil || slices.Contains(inUse, "hosts.deny") {
		return nil, err
	}
	return hostsdeny.Leftovers(o), nil
}
