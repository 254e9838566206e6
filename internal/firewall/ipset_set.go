//go:build linux

package firewall

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Bounds of ipset(8).
const (
	ipsetMaxTimeout = 2_147_483 * time.Second
	ipsetFirstSize  = 65_536
)

// ipsetKind is what all entries of one set have in common.
type ipsetKind struct {
	v6     bool
	action Action
	ports  string // as FormatPorts prints them
}

func ipsetKindOf(e Entry) ipsetKind {
	return ipsetKind{v6: e.Prefix.Addr().Is6(), action: e.Action, ports: FormatPorts(e.Ports)}
}

func famDigit(v6 bool) string {
	if v6 {
		return "6"
	}
	return "4"
}

// set names the kind's set: at most 31 characters, so that the ports are a hash.
func (k ipsetKind) set(name string) string {
	s := name + famDigit(k.v6) + "-"
	if k.ports == "" {
		return s + k.action.String()
	}
	h := fnv.New32a()
	h.Write([]byte(k.ports))
	return s + k.action.String()[:1] + fmt.Sprintf("%08x", h.Sum32())
}

// comment marks the kind's rules; the sets are found again by them.
func (k ipsetKind) comment() string {
	return "stoplog set action=" + k.action.String() + " ports=" + k.ports
}

func parseIPSetKind(comment string, v6 bool) (ipsetKind, bool) {
	rest, ok := strings.CutPrefix(comment, "stoplog set action=")
	if !ok {
		return ipsetKind{}, false
	}
	action, ports, ok := strings.Cut(rest, " ports=")
	a, err := ParseAction(action)
	if !ok || err != nil {
		return ipsetKind{}, false
	}
	if ports != "" {
		if _, err := ParsePorts(ports); err != nil {
			return ipsetKind{}, false
		}
	}
	return ipsetKind{v6: v6, action: a, ports: ports}, true
}

func (k ipsetKind) portList() []Ports {
	if k.ports == "" {
		return nil
	}
	ps, _ := ParsePorts(k.ports)
	return ps
}

// rules look the source up in the kind's set. For what is slowed, new
// connections are counted for each /28 or /64: the kernel's hashlimit knows one
// length for a rule.
func (k ipsetKind) rules(m ruleMaker, name string) []xtRule {
	var rules []xtRule
	add := func(match []string, verdict ...string) {
		spec := append([]string{"-m", "set", "--match-set", k.set(name), "src"}, match...)
		rules = append(rules, commented(k.comment(), append(spec, verdict...)...))
	}
	for _, match := range portMatches(k.portList()) {
		switch k.action {
		case Drop:
			add(match, "-j", "DROP")
		case Reject:
			m.reject(match, add)
		case Slow:
			mask := "28"
			if k.v6 {
				mask = "64"
			}
			rate := strconv.Itoa(m.slow)
			add(append(match[:len(match):len(match)], "-m", "conntrack", "--ctstate", "NEW",
				"-m", "hashlimit", "--hashlimit-above", rate+"/minute", "--hashlimit-burst", rate,
				"--hashlimit-mode", "srcip", "--hashlimit-srcmask", mask, "--hashlimit-name", name[:min(len(name), 13)]+famDigit(k.v6)), "-j", "DROP")
		}
	}
	return rules
}

// ipsetTTL is what is left of a block. Timeouts are whole seconds, and 0 would
// be for ever; a shorter rest is no block any more.
func ipsetTTL(e Entry, now time.Time) (time.Duration, bool) {
	ttl := min(e.Until.Sub(now), ipsetMaxTimeout).Truncate(time.Second)
	return ttl, ttl >= time.Second
}

// ipsetMark is an element that no packet matches and that says which change of
// ours was the last: a set that was flushed, or restored as it once was, does
// not hold it. Its source address is no one's (RFC 1112, RFC 4291).
func ipsetMark(v6 bool, seq uint32) ipsetElem {
	a := netip.AddrFrom4([4]byte{255, byte(seq >> 16), byte(seq >> 8), byte(seq)})
	if v6 {
		a = netip.AddrFrom16([16]byte{0: 0xff, 1: 0xff, 13: byte(seq >> 16), 14: byte(seq >> 8), 15: byte(seq)})
	}
	return ipsetElem{p: netip.PrefixFrom(a, a.BitLen())}
}

// isIPSetMark reports whether an element is a mark, of whatever change.
func isIPSetMark(e ipsetElem) bool {
	return e.ttl == 0 && e.p.IsSingleIP() && e.p == ipsetMark(e.p.Addr().Is6(), seqOf(e.p.Addr())).p
}

func seqOf(a netip.Addr) uint32 {
	b := a.AsSlice()
	b = b[len(b)-3:]
	return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
}

// nextMark follows seq. The last address is everybody's (RFC 919).
func nextMark(seq uint32) uint32 { return (seq + 1) % (1<<24 - 1) }
