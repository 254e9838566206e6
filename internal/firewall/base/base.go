// Package base is what backends share: the text that remembers an entry in a
// comment, prefixes, programs that are run, and the netlink of netfilter.
package base

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"go4.org/netipx"

	"stoplog/internal/addr"
	"stoplog/internal/firewall"
)

// endSlack is how far a wall's end of a block may be from the wanted one: it
// counts in seconds, and rounds down.
const EndSlack = 5 * time.Second

// note is how a wall that keeps text remembers an entry:
// "stoplog 192.0.2.0/28 until=2026-01-02T15:04:05Z action=drop ports=tcp/22 cut".
func Note(e firewall.Entry) string {
	s := "stoplog " + e.Prefix.String() + " until=" + e.Until.UTC().Format(time.RFC3339) + " action=" + e.Action.String()
	if len(e.Ports) > 0 {
		s += " ports=" + firewall.FormatPorts(e.Ports)
	}
	if e.Cut {
		s += " cut"
	}
	return s
}

// parseNote reads what note wrote; anything else is false.
func ParseNote(s string) (firewall.Entry, bool) {
	f := strings.Fields(s)
	if len(f) < 4 || f[0] != "stoplog" {
		return firewall.Entry{}, false
	}
	var e firewall.Entry
	var err error
	if e.Prefix, err = netip.ParsePrefix(f[1]); err != nil {
		return firewall.Entry{}, false
	}
	for _, w := range f[2:] {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "until":
			e.Until, err = time.Parse(time.RFC3339, v)
		case "action":
			e.Action, err = firewall.ParseAction(v)
		case "ports":
			e.Ports, err = firewall.ParsePorts(v)
		case "cut":
			e.Cut = true
		default:
			return firewall.Entry{}, false
		}
		if err != nil {
			return firewall.Entry{}, false
		}
	}
	return e, e.Validate() == nil && !e.Until.IsZero()
}

// prefixesOf makes each address a prefix of its own.
func PrefixesOf(as []netip.Addr) []netip.Prefix {
	ps := make([]netip.Prefix, len(as))
	for i, a := range as {
		ps[i] = netip.PrefixFrom(a, a.BitLen())
	}
	return ps
}

// expand adds to prefixes the IPv6 forms of those that are IPv4.
func WithForms(ps []netip.Prefix) []netip.Prefix {
	out := slices.Clone(ps)
	for _, p := range ps {
		out = append(out, addr.Forms(p)...)
	}
	return out
}

// roomFor leaves out of es what there is no room for, and names it. Entries
// that are held already need none.
func RoomFor(es []firewall.Entry, wall string, most, left int, held func(netip.Prefix) bool) ([]firewall.Entry, error) {
	full := &firewall.FullError{Wall: wall, Max: most}
	es = slices.DeleteFunc(es, func(e firewall.Entry) bool {
		if held(e.Prefix) {
			return false
		}
		if left > 0 {
			left--
			return false
		}
		full.Left = append(full.Left, e.Prefix)
		return true
	})
	if len(full.Left) == 0 {
		return es, nil
	}
	return es, full
}

// Subtract returns the fewest prefixes that cover exactly what is in ps and
// not in allow: what lists that know no exceptions are made of.
func Subtract(ps, allow []netip.Prefix) []netip.Prefix {
	var b netipx.IPSetBuilder
	for _, p := range ps {
		b.AddPrefix(p)
	}
	for _, a := range allow {
		b.RemovePrefix(a)
	}
	set, err := b.IPSet()
	if err != nil { // only of invalid prefixes, which cover nothing
		return nil
	}
	return set.Prefixes()
}
