package firewall

// needed is what a firewall needs of who is not root.
const needed = ", and CAP_NET_ADMIN is needed"

func newSelector() selector {
	makers := everywhere()
	makers["nftables"] = func(o Options) (Backend, error) { return NewNFTables(o) }
	makers["ipset"] = func(o Options) (Backend, error) { return NewIPSet(o) }
	makers["iptables"] = func(o Options) (Backend, error) { return NewIPTables(o) }
	makers["set-only"] = func(o Options) (Backend, error) { return NewSetOnly(o) }
	return selector{makers: makers, auto: []string{"nftables", "ipset", "iptables"}}
}

// Names lists the walls that can be asked for by name.
func Names() []string {
	return []string{"nftables", "ipset", "iptables", "hosts.deny", "set-only", "exec", "none", "dry-run"}
}
