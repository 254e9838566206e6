package registry

import (
	"stoplog/internal/firewall"
	"stoplog/internal/firewall/ipset"
	"stoplog/internal/firewall/iptables"
	"stoplog/internal/firewall/listwall"
	"stoplog/internal/firewall/nft"
)

// needed is what a firewall needs of who is not root.
const needed = ", and CAP_NET_ADMIN is needed"

func newSelector() selector {
	makers := everywhere()
	makers["nftables"] = func(o firewall.Options) (firewall.Backend, error) { return nft.New(o) }
	makers["ipset"] = withForms(func(o firewall.Options) (firewall.Backend, error) { return ipset.New(o) })
	makers["iptables"] = withForms(func(o firewall.Options) (firewall.Backend, error) { return iptables.New(o) })
	setOnly := func(o firewall.Options) (firewall.Backend, error) { return listwall.NewSetOnly(o) }
	makers["set-only"] = func(o firewall.Options) (firewall.Backend, error) {
		if o.Set6 == "" {
			return setOnly(o) // there is nowhere to put IPv6
		}
		return withForms(setOnly)(o)
	}
	return selector{makers: makers, auto: []string{"nftables", "ipset", "iptables"}}
}

// Names lists the walls that can be asked for by name.
func Names() []string {
	return []string{"nftables", "ipset", "iptables", "hosts.deny", "set-only", "exec", "none", "dry-run"}
}
