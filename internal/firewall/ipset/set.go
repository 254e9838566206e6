//go:build linux

package ipset

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"stoplog/internal/firewall"
)

// ipsetStore is one of the administrator's ipsets: a set of prefixes with timeouts.
type Set struct {
	x   *conn
	set string
	v6  bool
}

func (s *Set) Check(ctx context.Context) error {
	sets, err := s.x.sets(ctx)
	if err != nil {
		return fmt.Errorf("set-only: %w", err)
	}
	info, there := sets[s.set]
	switch {
	case !there:
		return fmt.Errorf("set-only: there is no ipset %s", s.set)
	case info.typ != "hash:net":
		return fmt.Errorf("set-only: ipset %s is a %s; expected hash:net", s.set, info.typ)
	case !info.timeouts:
		return fmt.Errorf("set-only: ipset %s has no timeouts; create it with `timeout 0`", s.set)
	case info.v6 != s.v6:
		return fmt.Errorf("set-only: ipset %s has the wrong address family", s.set)
	}
	return nil
}

func (s *Set) Apply(ctx context.Context, add []firewall.Entry, remove []netip.Prefix) error {
	var in, out []elem
	now := time.Now()
	for _, p := range remove {
		out = append(out, elem{p: p})
	}
	for _, e := range add {
		if ttl, ok := ipsetTTL(e, now); ok {
			in = append(in, elem{e.Prefix, ttl})
		}
	}
	err := s.x.del(ctx, s.set, out...)
	if err == nil {
		err = s.x.add(ctx, s.set, in...)
	}
	if err != nil {
		return fmt.Errorf("set-only: %w", err)
	}
	return nil
}

func (s *Set) List(ctx context.Context) (ps []netip.Prefix, err error) {
	err = s.x.elems(ctx, s.set, func(e elem) {
		if e.ttl > 0 {
			ps = append(ps, e.p)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("set-only: %w", err)
	}
	return ps, nil
}

// openIPSet names a set of one family; nothing is looked at before check.
func OpenSet(name string, v6 bool) *Set {
	return &Set{x: &conn{}, set: name, v6: v6}
}
