package rules

import (
	"regexp"
	"time"

	"gopkg.in/yaml.v3"
)

func newFirewall() Firewall {
	return Firewall{Backends: []string{"auto"}, Action: "drop", Hook: "input", Forward: true,
		SlowRate: 3, MaxRules: 2000, MaxSet: 1 << 20, HostsDeny: "/etc/hosts.deny",
		Exec: ExecWall{Timeout: 10 * time.Second}}
}

func firewallValue() value[Firewall] {
	v := object("firewall", firewallFields(), newFirewall)
	return value[Firewall]{v.shape, func(c *checker, n *yaml.Node) (Firewall, bool) {
		f, ok := v.read(c, n)
		return f, ok && c.firewallWhole(n, f)
	}}
}

func firewallFields() []field[Firewall] {
	wall := word("a firewall backend", "auto", "nftables", "ipset", "iptables", "hosts.deny", "set-only", "exec", "none")
	return []field[Firewall]{
		key("backend", "backends; auto: the first that works on this machine", list(wall), func(f *Firewall) *[]string { return &f.Backends }),
		key("action", "what to do with packets from a blocked prefix", word("an action", "drop", "reject", "slow"), func(f *Firewall) *string { return &f.Action }),
		key("hook", "netfilter hook: input, or prerouting (earlier; drop only)", word("a hook", "input", "prerouting"), func(f *Firewall) *string { return &f.Hook }),
		key("forward", "also block forwarded traffic, such as that of containers", boolean(), func(f *Firewall) *bool { return &f.Forward }),
		key("ports", "blocked ports (default: all)", list(ports()), func(f *Firewall) *[]Ports { return &f.Ports }),
		key("cut", "also cut established connections of a blocked prefix", boolean(), func(f *Firewall) *bool { return &f.Cut }),
		key("slow_rate", "new connections per minute with action slow", integer("slow_rate", 1, 600), func(f *Firewall) *int { return &f.SlowRate }),
		key("max_rules", "maximum number of blocks of the backend iptables", integer("max_rules", 1, 100_000), func(f *Firewall) *int { return &f.MaxRules }),
		key("max_set", "maximum number of elements in a set", integer("max_set", 1, 100_000_000), func(f *Firewall) *int { return &f.MaxSet }),
		key("hosts_deny", "the file of the backend hosts.deny", path("a file"), func(f *Firewall) *string { return &f.HostsDeny }),
		key("sets", "for set-only: the sets that your own firewall rules use", setsValue(), func(f *Firewall) *Sets { return &f.Sets }),
		key("exec", "for exec: your programs", execWallValue(), func(f *Firewall) *ExecWall { return &f.Exec }),
	}
}

var setRE = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,30}$`)

func setsValue() value[Sets] {
	set := matching("the name of a set", setRE, "a letter, then letters, digits, _ . -, at most 31")
	return object("sets", []field[Sets]{
		must(key("kind", "ipset or nft", word("a kind of set", "ipset", "nft"), func(s *Sets) *string { return &s.Kind })),
		key("table", "for nft: family and table, such as inet filter", matching("a table", regexp.MustCompile(`^(inet|ip|ip6|netdev|bridge) [A-Za-z][A-Za-z0-9_.-]{0,30}$`), "inet filter"), func(s *Sets) *string { return &s.Table }),
		key("ipv4", "name of the set for IPv4 prefixes", set, func(s *Sets) *string { return &s.V4 }),
		key("ipv6", "name of the set for IPv6 prefixes", set, func(s *Sets) *string { return &s.V6 }),
	}, nil)
}

func execWallValue() value[ExecWall] {
	return object("exec", []field[ExecWall]{
		must(key("block", "program and arguments; it gets prefixes on standard input", argv(), func(e *ExecWall) *[]string { return &e.Block })),
		must(key("unblock", "program and arguments; it gets prefixes on standard input", argv(), func(e *ExecWall) *[]string { return &e.Unblock })),
		key("timeout", "timeout of a call", duration("timeout", time.Second, 10*time.Minute), func(e *ExecWall) *time.Duration { return &e.Timeout }),
	}, func() ExecWall { return newFirewall().Exec })
}

// firewallWhole checks what one key asks of another.
func (c *checker) firewallWhole(n *yaml.Node, f Firewall) bool {
	before := len(c.problems)
	has := map[string]bool{}
	for _, b := range f.Backends {
		if has[b] {
			c.fail(n, "", "backend %s is listed twice", b)
		}
		has[b] = true
	}
	if len(f.Backends) > 1 && (has["auto"] || has["none"]) {
		c.fail(n, "", "auto and none cannot be combined with other backends")
	}
	if len(f.Backends) == 0 {
		c.fail(n, "backend: auto", "no backend is listed")
	}
	if f.Hook == "prerouting" && f.Action != "drop" {
		c.fail(n, "action: drop, or hook: input", "%s does not work in prerouting: the kernel has no reject and no connection state there", f.Action)
	}
	if has["set-only"] && (f.Sets.Kind == "" || f.Sets.V4 == "" && f.Sets.V6 == "") {
		c.fail(n, "sets: {kind: ipset, ipv4: NAME}", "set-only needs sets: the names of your own sets")
	}
	if has["set-only"] && f.Sets.Kind == "nft" && f.Sets.Table == "" {
		c.fail(n, "table: inet filter", "nft sets need a table")
	}
	if has["exec"] && f.Exec.Block == nil {
		c.fail(n, "", "backend exec needs exec: {block: [program], unblock: [program]}")
	}
	return len(c.problems) == before
}
