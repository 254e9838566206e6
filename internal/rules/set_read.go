package rules

import (
	"net/netip"
	"time"

	"gopkg.in/yaml.v3"
)

// book is a rules file as it is written: a Set, and what must still be put
// together with other files.
type book struct {
	Set
	use      []usage
	drafts   []*draft
	networks map[string]Network
	rulesD   string
	node     *yaml.Node
}

// usage is one word of `use` and where it stands.
type usage struct {
	name string
	node *yaml.Node
	file string
}

// set_ points at the Set of a book, for fields that live there.
func inSet[T any](name, about string, v value[T], ref func(*Set) *T) field[book] {
	return key(name, about, v, func(b *book) *T { return ref(&b.Set) })
}

func bookFields() []field[book] {
	return []field[book]{
		useField(),
		inSet("sources", "logs to read", list(sourceValue()), func(s *Set) *[]Source { return &s.Sources }),
		inSet("prefix", "lengths of the prefixes that are counted and blocked", filled("prefix lengths", Lens{28, 64}), func(s *Set) *Lens { return &s.Prefix }),
		inSet("floor", "no prefix wider than this is ever blocked", filled("prefix lengths", Lens{16, 32}), func(s *Set) *Lens { return &s.Floor }),
		key("networks", "ranges with their own prefix length and capacity", tableOf("networks by prefix", networkValue(), prefixKey), func(b *book) *map[string]Network { return &b.networks }),
		inSet("allow", "prefixes, and file:GLOB, that are never counted and never blocked", listValue(), func(s *Set) *List { return &s.Allow }),
		inSet("deny", "prefixes, and file:GLOB, that are always blocked", listValue(), func(s *Set) *List { return &s.Deny }),
		inSet("protect", "who else is never blocked", protectValue(), func(s *Set) *Protect { return &s.Protect }),
		inSet("block", "how long blocks last", escalationValue(), func(s *Set) *Escalation { return &s.Block }),
		inSet("widen", "block a whole network when many of its prefixes are blocked (default: off)", widenValue(), func(s *Set) *Widen { return &s.Widen }),
		inSet("firewall", "firewall backends, and how they block", firewallValue(), func(s *Set) *Firewall { return &s.Firewall }),
		inSet("flags", "write raised flags as files", flagsValue(), func(s *Set) *Flags { return &s.Flags }),
		inSet("privacy", "what is stored of log lines, and for how long", privacyValue(), func(s *Set) *Privacy { return &s.Privacy }),
		inSet("limits", "limits of memory and disk", limitsValue(), func(s *Set) *Limits { return &s.Limits }),
		inSet("listen", "HTTP listeners (default: off)", listenValue(), func(s *Set) *Listen { return &s.Listen }),
		notifyField(),
		inSet("exports", "files to which the blocks are written", list(exportValue()), func(s *Set) *[]Export { return &s.Exports }),
		inSet("reload_on_change", "reload when a rules file changes", boolean(), func(s *Set) *bool { return &s.ReloadOnChange }),
		key("rules_d", "folder with more rules files (default: rules.d next to this file)", path("a folder"), func(b *book) *string { return &b.rulesD }),
		rulesField(),
	}
}

// rulesField keeps the rules that could not be read whole too, for their names
// may be here twice.
func rulesField() field[book] {
	v := list(ruleValue())
	return field[book]{fieldDoc{name: "rules", about: "what to count, and how much is too much", shape: v.shape}, func(c *checker, n *yaml.Node, b *book) {
		b.drafts, _ = v.read(c, n)
	}}
}

func newBook() book {
	return book{Set: Set{
		Prefix: Lens{28, 64}, Floor: Lens{16, 32},
		Protect:  Protect{KnownGood: 30 * day, SSHPeers: true, Own: true},
		Block:    Escalation{TTL: 10 * time.Minute, Multiply: 4, Max: 30 * day, Decay: 30 * day},
		Firewall: newFirewall(),
		Flags:    Flags{Dir: "/run/stoplog/flags"},
		Limits:   newLimits(),
		Privacy:  newPrivacy(),
	}}
}

// filled is a lensValue whose missing lengths are those of start.
func filled(what string, start Lens) value[Lens] {
	v := lensValue(what)
	return value[Lens]{v.shape, func(c *checker, n *yaml.Node) (Lens, bool) {
		l, ok := v.read(c, n)
		return orLens(l, start), ok
	}}
}

func orLens(l, start Lens) Lens {
	if l.V4 == 0 {
		l.V4 = start.V4
	}
	if l.V6 == 0 {
		l.V6 = start.V6
	}
	return l
}

func useField() field[book] {
	v := list(text("the name of built-in rules, or auto"))
	return field[book]{fieldDoc{name: "use", about: "built-in rules by name; auto: all whose logs exist; -name: except this one", shape: v.shape},
		func(c *checker, n *yaml.Node, b *book) {
			names, _ := v.read(c, n)
			r := c.resolve(n)
			for i, s := range names {
				at := r
				if r.Kind == yaml.SequenceNode {
					at = r.Content[i]
				}
				b.use = append(b.use, usage{s, at, c.file})
			}
		}}
}

func prefixKey(c *checker, k *yaml.Node) bool {
	_, ok := prefix("a network").read(c, k)
	return ok
}

// networkValue reads {prefix: 32, capacity: x20}: capacity is a number, or x
// and by how much every bucket has more room.
func networkValue() value[Network] {
	const what = "a capacity, or x20 for twenty times the rule's"
	roomShape := &shape{what: what, kind: "string", pattern: `^x?[1-9][0-9]{0,5}$`}
	return object("a network", []field[Network]{
		key("prefix", "length of the prefixes in this range", integer("a prefix length", 8, 128), func(n *Network) *int { return &n.Len }),
		{fieldDoc{name: "capacity", about: what, shape: roomShape}, func(c *checker, n *yaml.Node, w *Network) {
			t, ok := c.scalar(n, what)
			if !ok {
				return
			}
			v, times, ok := readRoom(t)
			if !ok {
				c.fail(n, "", "expected %s, not %q", what, clip(t))
			} else if times {
				w.Room = v
			} else {
				w.Capacity = v
			}
		}},
	}, nil)
}

func readRoom(t string) (n int, times, ok bool) {
	if len(t) > 1 && t[0] == 'x' {
		t, times = t[1:], true
	}
	for i := 0; i < len(t); i++ {
		if t[i] < '0' || t[i] > '9' {
			return 0, false, false
		}
		n = n*10 + int(t[i]-'0')
	}
	return n, times, len(t) > 0 && len(t) <= 6 && n > 0
}

// listValue reads prefixes and "file:GLOB" in one list.
func listValue() value[List] {
	const what = "an address, a prefix or file:GLOB"
	t, p := text(what), prefix(what)
	s := list(value[string]{shape: &shape{kind: "string", what: what}}).shape
	return value[List]{s, func(c *checker, n *yaml.Node) (List, bool) {
		var out List
		one := value[struct{}]{t.shape, func(c *checker, e *yaml.Node) (struct{}, bool) {
			if glob, is := cutPrefix(e.Value, "file:"); is && e.Kind == yaml.ScalarNode {
				sub := *e
				sub.Value = glob
				f, ok := path("a file").read(c, &sub)
				out.Files = append(out.Files, f)
				return struct{}{}, ok
			}
			x, ok := p.read(c, e)
			out.Prefixes = append(out.Prefixes, x)
			return struct{}{}, ok
		}}
		_, ok := list(one).read(c, n)
		return out, ok
	}}
}

func cutPrefix(s, p string) (string, bool) {
	if len(s) >= len(p) && s[:len(p)] == p {
		return s[len(p):], true
	}
	return s, false
}

func protectValue() value[Protect] {
	return object("protect", []field[Protect]{
		key("known_good", "how long a login makes its source known-good; 0s: off", duration("known_good", 0, 366*day), func(p *Protect) *time.Duration { return &p.KnownGood }),
		key("ssh_peers", "protect the peers of open SSH sessions", boolean(), func(p *Protect) *bool { return &p.SSHPeers }),
		key("own", "protect this machine's addresses, gateways and resolvers", boolean(), func(p *Protect) *bool { return &p.Own }),
	}, func() Protect { return newBook().Protect })
}

func escalationValue() value[Escalation] {
	return object("block", []field[Escalation]{
		key("ttl", "TTL of a first block", duration("ttl", time.Second, maxTTL), func(e *Escalation) *time.Duration { return &e.TTL }),
		key("multiply", "factor for the TTL of each further block of the prefix", factor("multiply", 1000), func(e *Escalation) *float64 { return &e.Multiply }),
		key("max", "maximum TTL of a block", duration("max", time.Second, maxTTL), func(e *Escalation) *time.Duration { return &e.Max }),
		key("decay", "how long after the end of a block another one counts as a repeat", duration("decay", time.Minute, 366*day), func(e *Escalation) *time.Duration { return &e.Decay }),
	}, func() Escalation { return newBook().Block })
}

func widenValue() value[Widen] {
	return object("widen", []field[Widen]{
		key("ipv4", "prefix length of the network", integer("an IPv4 prefix length", 8, 31), func(w *Widen) *int { return &w.Lens.V4 }),
		key("ipv6", "prefix length of the network", integer("an IPv6 prefix length", 16, 127), func(w *Widen) *int { return &w.Lens.V6 }),
		must(key("over", "block the network when more than this many of its prefixes are blocked", integer("over", 1, 65536), func(w *Widen) *int { return &w.Over })),
		key("ttl", "TTL of the network's block", duration("ttl", time.Second, maxTTL), func(w *Widen) *time.Duration { return &w.TTL }),
	}, func() Widen { return Widen{On: true, Lens: Lens{24, 48}} })
}

func flagsValue() value[Flags] {
	return object("flags", []field[Flags]{
		must(key("dir", "folder for the files", path("a folder"), func(f *Flags) *string { return &f.Dir })),
	}, nil)
}

func newLimits() Limits {
	return Limits{Buckets: 250_000, Blocks: 200_000, KnownGood: 100_000, Strikes: 100_000,
		Evidence: 4 << 20, LineBytes: 1 << 20, Audit: 16 << 20}
}

func newPrivacy() Privacy { return Privacy{Lines: true} }

func privacyValue() value[Privacy] {
	return object("privacy", []field[Privacy]{
		key("lines", "store log lines and user names to explain blocks; false: only counts and prefixes", boolean(), func(p *Privacy) *bool { return &p.Lines }),
		key("keep", "delete entries of the audit trail after this time (default: when its files are full)", duration("keep", time.Hour, maxTTL), func(p *Privacy) *time.Duration { return &p.Keep }),
	}, newPrivacy)
}

// least is the smallest room that the ledger can work with.
const least = 16

func limitsValue() value[Limits] {
	return object("limits", []field[Limits]{
		key("buckets", "buckets in each table, about 40 bytes each", integer("buckets", 1000, 100_000_000), func(l *Limits) *int { return &l.Buckets }),
		key("blocks", "live blocks", integer("blocks", least, 10_000_000), func(l *Limits) *int { return &l.Blocks }),
		key("known_good", "known-good logins", integer("known_good", least, 10_000_000), func(l *Limits) *int { return &l.KnownGood }),
		key("strikes", "prefixes whose earlier blocks are remembered", integer("strikes", least, 10_000_000), func(l *Limits) *int { return &l.Strikes }),
		key("evidence", "memory for recent log lines that explain blocks", size("evidence", 64<<10, 1<<30), func(l *Limits) *int { return &l.Evidence }),
		key("line", "longest log line; longer ones are truncated", size("line", 1<<10, 1<<20), func(l *Limits) *int { return &l.LineBytes }),
		key("audit", "size of each of the four audit files", size("audit", 64<<10, 1<<30), func(l *Limits) *int { return &l.Audit }),
	}, newLimits)
}

func exportValue() value[Export] {
	return object("an export", []field[Export]{
		must(key("format", "a format of stoplog export --format", name("the name of a format"), func(e *Export) *string { return &e.Format })),
		must(key("file", "the file to write", path("a file"), func(e *Export) *string { return &e.File })),
		guardedKey(func(e *Export) *Guarded { return &e.Ports }),
	}, nil)
}

// networkList puts the networks in order, the longest first, so that the
// first that contains an address is the one that counts.
func (b *book) networkList() []Network {
	var out []Network
	for _, k := range sortedKeys(b.networks) {
		n := b.networks[k]
		if p, _, ok := readPrefix(k); ok {
			n.Prefix = p
			out = append(out, n)
		}
	}
	sortNetworks(out, func(n Network) netip.Prefix { return n.Prefix })
	return out
}
