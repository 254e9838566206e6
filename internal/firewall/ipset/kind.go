//go:build linux

package ipset

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/iptables"
)

// Bounds of ipset(8).
const (
	ipsetMaxTimeout = 2_147_483 * time.Second
	ipsetFirstSize  = 65_536
)

// ipsetKind is what all entries of one set have in common.
type kind struct {
	v6     bool
	action firewall.Action
	ports  string // as FormatPorts prints them
}

func ipsetKindOf(e firewall.Entry) kind {
	return kind{v6: e.Prefix.Addr().Is6(), action: e.Action, ports: firewall.FormatPorts(e.Ports)}
}

// set names the kind's set: at most 31 characters, so that the ports are a hash.
func (k kind) set(name string) string {
	s := name + iptables.FamilyDigit(k.v6) + "-"
	if k.ports == "" {
		return s + k.action.String()
	}
	h := fnv.New32a()
	h.Write([]byte(k.ports))
	return s + k.action.String()[:1] + fmt.Sprintf("%08x", h.Sum32())
}

// comment marks the kind's rules; the sets are found again by them.
func (k kind) comment() string {
	return "stoplog set action=" + k.action.String() + " ports=" + k.ports
}

func parseIPSetKind(comment string, v6 bool) (kind, bool) {
	rest, ok := strings.CutPrefix(comment, "stoplog set action=")
	if !ok {
		return kind{}, false
	}
	action, ports, ok := strings.Cut(rest, " ports=")
	a, err := firewall.ParseAction(action)
	if !ok || err != nil {
		return kind{}, false
	}
	if ports != "" {
		if _, err := firewall.ParsePorts(ports); err != nil {
			return kind{}, false
		}
	}
	return kind{v6: v6, action: a, ports: ports}, true
}

func (k kind) portList() []firewall.Ports {
	if k.ports == "" {
		return nil
	}
	ps, _ := firewall.ParsePorts(k.ports)
	return ps
}

// rules look the source up in the kind's set. For what is slowed, new
// connections are counted for each /28 or /64: the kernel's hashlimit knows one
// length for a rule.
func (k kind) rules(m iptables.Maker, name string) []iptables.Rule {
	var rules []iptables.Rule
	add := func(match []string, verdict ...string) {
		spec := append([]string{"-m", "set", "--match-set", k.set(name), "src"}, match...)
		rules = append(rules, iptables.Commented(k.comment(), append(spec, verdict...)...))
	}
	for _, match := range iptables.PortMatches(k.portList()) {
		switch k.action {
		case firewall.Drop:
			add(match, "-j", "DROP")
		case firewall.Reject:
			m.Reject(match, add)
		case firewall.Slow:
			mask := "28"
			if k.v6 {
				mask = "64"
			}
			rate := strconv.Itoa(m.Slow)
			add(append(match[:len(match):len(match)], "-m", "conntrack", "--ctstate", "NEW",
				"-m", "hashlimit", "--hashlimit-above", rate+"/minute", "--hashlimit-burst", rate,
				"--hashlimit-mode", "srcip", "--hashlimit-srcmask", mask, "--hashlimit-name", name[:min(len(name), 13)]+iptables.FamilyDigit(k.v6)), "-j", "DROP")
		}
	}
	return rules
}

// ipsetTTL is what is left of a block. Timeouts are whole seconds, and 0 would
// be for ever; a shorter rest is no block any more.
func ipsetTTL(e firewall.Entry, now time.Time) (time.Duration, bool) {
	ttl := min(e.Until.Sub(now), ipsetMaxTimeout).Truncate(time.Second)
	return ttl, ttl >= time.Second
}

// ipsetMark is an element that no packet matches and that says which change of
// ours was the last: a set that was flushed, or restored as it once was, does
// not hold it. Its source address is no one's (RFC 1112, RFC 4291).
func ipsetMark(v6 bool, seq uint32) elem {
	a := netip.AddrFrom4([4]byte{255, byte(seq >> 16), byte(seq >> 8), byte(seq)})
	if v6 {
		a = netip.AddrFrom16([16]byte{0: 0xff, 1: 0xff, 13: byte(seq >> 16), 14: byte(seq >> 8), 15: byte(seq)})
	}
	return elem{p: netip.PrefixFrom(a, a.BitLen())}
}

// isIPSetMark reports whether an element is a mark, of whatever change.
func isIPSetMark(e elem) bool {
	return e.ttl == 0 && e.p.IsSingleIP() && e.p == ipsetMark(e.p.Addr().Is6(), seqOf(e.p.Addr())).p
}

func seqOf(a netip.Addr) uint32 {
	b := a.AsSlice()
	b = b[len(b)-3:]
	return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
}

// nextMark follows seq. The last address is everybody's (RFC 919).
func nextMark(seq uint32) uint32 { return (seq + 1) % (1<<24 - 1) }
