package export

import (
	"fmt"
	"strings"

	"stoplog/internal/firewall"
)

// Limit says how a block closes less than everything. The zero Limit closes
// everything.
type Limit struct {
	Ports string // those that are closed, as firewall.FormatPorts writes them; "": all
	Rate  int    // new connections a minute that pass; 0: none
}

// List is each range of Ports, nil for all.
func (l Limit) List() []string {
	if l.Ports == "" {
		return nil
	}
	return strings.Split(l.Ports, ",")
}

// ports are those of the limit, nil for all.
func (l Limit) ports() []firewall.Ports {
	if l.Ports == "" {
		return nil
	}
	ps, _ := firewall.ParsePorts(l.Ports)
	return ps
}

// Guard says what a list or a check is for, and so which limited blocks are
// in it as if they closed everything. The zero Guard is for none of them.
type Guard struct {
	Any   bool             // every block, whatever it closes
	Ports []firewall.Ports // blocks that close one of these ports
}

// WebPorts is what web servers guard unless told otherwise.
func WebPorts() Guard {
	return Guard{Ports: []firewall.Ports{{Proto: "tcp", From: 80, To: 80}, {Proto: "tcp", From: 443, To: 443}}}
}

// ParseGuard reads "any", or ports such as "22,8000-8999,udp/53".
func ParseGuard(s string) (Guard, error) {
	if s == "any" {
		return Guard{Any: true}, nil
	}
	ps, err := firewall.ParsePorts(s)
	if err != nil {
		return Guard{}, fmt.Errorf("expected any, or ports such as 22,8000-8999,udp/53, not %q", s)
	}
	return Guard{Ports: ps}, nil
}

func (g Guard) String() string {
	if g.Any {
		return "any"
	}
	return firewall.FormatPorts(g.Ports)
}

// IsZero reports whether nothing was said.
func (g Guard) IsZero() bool { return !g.Any && len(g.Ports) == 0 }

// Closes reports whether a block with this limit closes what is guarded.
func (g Guard) Closes(l Limit) bool {
	return g.Any || l.Rate == 0 && g.touches(l)
}

// Slows reports whether a block with this limit slows what is guarded.
func (g Guard) Slows(l Limit) bool { return !g.Any && l.Rate > 0 && g.touches(l) }

func (g Guard) touches(l Limit) bool {
	if l.Ports == "" {
		return true
	}
	for _, p := range l.ports() {
		for _, q := range g.Ports {
			if p.From <= q.To && q.From <= p.To && (p.Proto == "" || q.Proto == "" || p.Proto == q.Proto) {
				return true
			}
		}
	}
	return false
}

// protocols splits the ports of a limit by protocol; "" means both, so that
// each is in tcp and in udp. Without ports it is one entry of neither.
func (l Limit) protocols() []protocol {
	ps := l.ports()
	if ps == nil {
		return []protocol{{}}
	}
	var out []protocol
	for _, name := range []string{"tcp", "udp"} {
		p := protocol{name: name}
		for _, x := range ps {
			if x.Proto == "" || x.Proto == name {
				p.ports = append(p.ports, x)
			}
		}
		if p.ports != nil {
			out = append(out, p)
		}
	}
	return out
}

type protocol struct {
	name  string
	ports []firewall.Ports
}

// list writes the ports with the given words between the ends of a range and
// between ranges.
func (p protocol) list(to, sep string) string {
	var b strings.Builder
	for i, x := range p.ports {
		if i > 0 {
			b.WriteString(sep)
		}
		fmt.Fprintf(&b, "%d", x.From)
		if x.To != x.From {
			fmt.Fprintf(&b, "%s%d", to, x.To)
		}
	}
	return b.String()
}

// count is how many ports there are.
func (p protocol) count() (n int) {
	for _, x := range p.ports {
		n += int(x.To-x.From) + 1
	}
	return n
}

// able is what a format can express beside whole prefixes.
type able func(Limit) bool

func nothing(Limit) bool      { return false }
func anything(Limit) bool     { return true }
func portsAlone(l Limit) bool { return l.Rate == 0 }
