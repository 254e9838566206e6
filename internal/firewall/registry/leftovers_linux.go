package registry

import (
	"context"
	"slices"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/hostsdeny"
	"stoplog/internal/firewall/ipset"
	"stoplog/internal/firewall/iptables"
	"stoplog/internal/firewall/nft"
)

// Leftovers looks for what stands under o's name and is not one of the walls
// in use ("nftables", "ipset", …) as o describes them. Nothing is changed. What
// cannot be looked at is taken to hold nothing.
func Leftovers(ctx context.Context, inUse []string, o firewall.Options) ([]firewall.Leftover, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	var all []firewall.Leftover
	if !slices.Contains(inUse, "nftables") {
		all = append(all, nft.Leftovers(ctx, o)...)
	}
	all = append(all, iptables.Leftovers(ctx, inUse, o)...)
	if !slices.Contains(inUse, "ipset") {
		all = append(all, ipset.Leftovers(ctx, o)...) // once no rule names them
	}
	if !slices.Contains(inUse, "hosts.deny") {
		all = append(all, hostsdeny.Leftovers(o)...)
	}
	return all, nil
}
