package firewall

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"stoplog/internal/addr"
)

// MaxPorts is how many port ranges one entry may have: iptables' multiport
// takes fifteen ports, a range counting as two.
const MaxPorts = 7

// latest is the last instant that every wall can express (32 bits of Unix
// seconds, iptables-extensions(8) under time).
var latest = time.Unix(1<<31-1, 0).UTC()

// Validate reports the first thing wrong with an entry, whatever its wall.
func (e Entry) Validate() error {
	if err := validPrefix(e.Prefix); err != nil {
		return err
	}
	if int(e.Action) >= len(actionNames) {
		return fmt.Errorf("%s: unknown action %d", e.Prefix, e.Action)
	}
	if e.Until.After(latest) {
		return fmt.Errorf("%s: ends after %s", e.Prefix, latest.Format(time.RFC3339))
	}
	if err := CheckPorts(e.Ports); err != nil {
		return fmt.Errorf("%s: %w", e.Prefix, err)
	}
	return nil
}

func validPrefix(p netip.Prefix) error {
	switch {
	case !p.IsValid():
		return errors.New("invalid prefix")
	case p.Addr().Is4In6():
		return fmt.Errorf("%s: IPv4-mapped address", p)
	case p.Masked() != p:
		return fmt.Errorf("%s: bits set after the prefix", p)
	case p.Bits() == 0:
		return fmt.Errorf("%s: everything", p)
	}
	if why := addr.Never(p); why != "" {
		return fmt.Errorf("%s: never blocked: %s", p, why)
	}
	return nil
}

func CheckPorts(ps []Ports) error {
	if len(ps) > MaxPorts {
		return fmt.Errorf("%d port ranges, at most %d", len(ps), MaxPorts)
	}
	for _, p := range ps {
		if p.Proto != "" && p.Proto != "tcp" && p.Proto != "udp" {
			return fmt.Errorf("unknown protocol %q; expected tcp or udp", p.Proto)
		}
		if p.From == 0 || p.To < p.From {
			return fmt.Errorf("ports %d-%d: empty range", p.From, p.To)
		}
	}
	return nil
}

// prepare splits what Block got into what is to stand and what ended already,
// each prefix once, the last mention winning. Entries that are not valid are
// left out and named in the error.
func Prepare(es []Entry, now time.Time) (live []Entry, ended []netip.Prefix, err error) {
	at := make(map[netip.Prefix]int, len(es))
	var errs []error
	for _, e := range es {
		if bad := e.Validate(); bad != nil {
			errs = append(errs, bad)
			continue
		}
		if i, ok := at[e.Prefix]; ok {
			live[i] = e
			continue
		}
		at[e.Prefix] = len(live)
		live = append(live, e)
	}
	live = slices.DeleteFunc(live, func(e Entry) bool {
		if e.Until.After(now) {
			return false
		}
		ended = append(ended, e.Prefix)
		return true
	})
	return live, ended, errors.Join(errs...)
}

// FormatPorts writes ports as "tcp/22,80-90".
func FormatPorts(ps []Ports) string {
	var b strings.Builder
	for i, p := range ps {
		if i > 0 {
			b.WriteByte(',')
		}
		if p.Proto != "" {
			b.WriteString(p.Proto + "/")
		}
		b.WriteString(strconv.Itoa(int(p.From)))
		if p.To != p.From {
			b.WriteString("-" + strconv.Itoa(int(p.To)))
		}
	}
	return b.String()
}

// ParsePorts reads what FormatPorts writes: at most MaxPorts, and at least one.
func ParsePorts(s string) ([]Ports, error) {
	var ps []Ports
	for w := range strings.SplitSeq(s, ",") {
		var p Ports
		if proto, rest, ok := strings.Cut(w, "/"); ok {
			p.Proto, w = proto, rest
		}
		from, to, ranged := strings.Cut(w, "-")
		if !ranged {
			to = from
		}
		a, err := strconv.ParseUint(from, 10, 16)
		if err != nil {
			return nil, err
		}
		b, err := strconv.ParseUint(to, 10, 16)
		if err != nil {
			return nil, err
		}
		p.From, p.To = uint16(a), uint16(b)
		ps = append(ps, p)
	}
	return ps, CheckPorts(ps)
}
