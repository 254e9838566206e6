package firewall

// needed is what a firewall needs of who is not root.
const needed = ", and CAP_NET_ADMIN is needed"

func newSelector() selector {
	makers := everywhere()
	makers["nftables"] = func(o Options) (Backend, error) { return NewNFTables(o) }
	makers["ipset"] = withForms(func(o Options) (Backend, error) { return NewIPSet(o) })
	makers["iptables"] = withForms(func(o Options) (Backend, error) { return NewIPTables(o) })
	setOnly := func(o Options) (Backend, error) { return NewSetOnly(o) }
	makers["set-only"] = func(o Options) (Backend, error) {
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
