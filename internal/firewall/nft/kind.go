//go:build linux

package nft

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/google/nftables"

	"stoplog/internal/firewall"
)

// nftKind is what all elements of one block set have in common. Its name says
// it all, so that a set can be read back: "v4.28.drop.tcp22.any80_90". Keys
// are addresses masked to bits: the lookup masks first, so that a plain hash
// holds prefixes in constant time, and overlaps are of no matter.
type kind struct {
	v6     bool
	bits   int
	action firewall.Action
	ports  string // in the name's form
}

func kindOfEntry(e firewall.Entry) kind {
	k := kind{v6: e.Prefix.Addr().Is6(), bits: e.Prefix.Bits(), action: e.Action}
	for _, p := range e.Ports {
		proto := p.Proto
		if proto == "" {
			proto = "any"
		}
		k.ports += "." + proto + strconv.Itoa(int(p.From))
		if p.To != p.From {
			k.ports += "_" + strconv.Itoa(int(p.To))
		}
	}
	return k
}

func (k kind) family() string {
	if k.v6 {
		return "v6"
	}
	return "v4"
}

func (k kind) name() string {
	return fmt.Sprintf("%s.%d.%s%s", k.family(), k.bits, k.action, k.ports)
}

// meter names the set that counts new connections of what is slowed.
func (k kind) meter() string { return "meter." + k.family() + "." + strconv.Itoa(k.bits) }

func (k kind) portList() []firewall.Ports {
	ps, _ := parseSetPorts(k.ports)
	return ps
}

// parseKind reads a set's name; others are false.
func parseKind(name string) (kind, bool) {
	f := strings.SplitN(name, ".", 4)
	if len(f) < 3 || f[0] != "v4" && f[0] != "v6" {
		return kind{}, false
	}
	k := kind{v6: f[0] == "v6"}
	bits, err := strconv.Atoi(f[1])
	if err != nil || bits < 1 || bits > k.width() || strconv.Itoa(bits) != f[1] {
		return kind{}, false
	}
	k.bits = bits
	if k.action, err = firewall.ParseAction(f[2]); err != nil {
		return kind{}, false
	}
	if len(f) == 4 {
		k.ports = "." + f[3]
		if _, ok := parseSetPorts(k.ports); !ok {
			return kind{}, false
		}
	}
	return k, true
}

func (k kind) width() int {
	if k.v6 {
		return 128
	}
	return 32
}

func parseSetPorts(s string) ([]firewall.Ports, bool) {
	if s == "" {
		return nil, true
	}
	var ps []firewall.Ports
	for w := range strings.SplitSeq(s[1:], ".") {
		if len(w) < 4 {
			return nil, false
		}
		p := firewall.Ports{Proto: w[:3]}
		if p.Proto == "any" {
			p.Proto = ""
		}
		from, to, ranged := strings.Cut(w[3:], "_")
		if !ranged {
			to = from
		}
		a, err := strconv.ParseUint(from, 10, 16)
		if err != nil {
			return nil, false
		}
		b, err := strconv.ParseUint(to, 10, 16)
		if err != nil {
			return nil, false
		}
		p.From, p.To = uint16(a), uint16(b)
		ps = append(ps, p)
	}
	return ps, firewall.CheckPorts(ps) == nil
}

// mark is an element that stands in each set without an end and that no packet
// matches, as the last addresses are no one's (RFC 1112, RFC 4291): a set
// without it was flushed, and who flushes even a set of one block deletes two
// elements at once, which no one does by hand.
func (k kind) mark() netip.Prefix {
	ones := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	if k.v6 {
		ones = netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
	}
	return netip.PrefixFrom(ones, k.bits).Masked()
}

// marked reports whether the kind's sets have a mark: of very wide prefixes the
// last one has addresses that are somebody's.
func (k kind) marked() bool { return k.bits >= 8 }

func (k kind) isMark(p netip.Prefix) bool { return k.marked() && p == k.mark() }

// set describes the kernel's set.
func (k kind) set(t *nftables.Table, size int) *nftables.Set {
	s := &nftables.Set{Table: t, Name: k.name(), HasTimeout: true, KeyType: nftables.TypeIPAddr, Size: uint32(size) + 1}
	if k.v6 {
		s.KeyType = nftables.TypeIP6Addr
	}
	return s
}

// meterSet describes the set of meter. It is written by packets.
func (k kind) meterSet(t *nftables.Table) *nftables.Set {
	s := k.set(t, 65535)
	s.Name, s.Dynamic, s.Timeout = k.meter(), true, meterTimeout
	return s
}

// prefix reads an element's key.
func (k kind) prefix(key []byte) (netip.Prefix, bool) {
	a, ok := netip.AddrFromSlice(key)
	if !ok || a.BitLen() != k.width() {
		return netip.Prefix{}, false
	}
	p := netip.PrefixFrom(a, k.bits)
	return p, p == p.Masked() && !a.Is4In6()
}
