package ledger

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"stoplog/internal/addr"
)

// KnownLogin is a service that somebody logged in to. Who is not kept, only
// recognised.
type KnownLogin struct {
	Service string
	Last    time.Time
}

// KnownLogins lists what makes addr known-good at now, by service.
func (l *Ledger) KnownLogins(from netip.Addr, now time.Time) []KnownLogin {
	var out []KnownLogin
	from = addr.Of(from)
	for _, k := range l.known.by[network(from)] {
		if l.known.good(from, k.service, nil, now.UnixNano()) {
			out = append(out, KnownLogin{k.service, time.Unix(0, k.last).UTC()})
		}
	}
	slices.SortFunc(out, func(a, b KnownLogin) int { return strings.Compare(a.Service, b.Service) })
	return out
}

// NextAllowanceEnd is when an allowance by hand that stands at now ends next,
// and AllowedPrefixes with it changes; zero: none ends.
func (l *Ledger) NextAllowanceEnd(now time.Time) time.Time {
	next := l.allow.next(now.UnixNano())
	if next == 0 {
		return time.Time{}
	}
	return time.Unix(0, next).UTC()
}

// UnblockExact lifts the block of p itself and no other, as Unblock does:
// somebody deleted it with the firewall's own tools.
func (l *Ledger) UnblockExact(p netip.Prefix, by string, now time.Time) (Lifted, error) {
	l.out = nil
	p = p.Masked()
	blocks := l.sorted(now.UnixNano(), func(q netip.Prefix) bool { return q == p })
	if len(blocks) == 0 {
		return Lifted{}, nil
	}
	e := l.lifting(opUnblock, blocks, by, now)
	e.Prefix = p
	err := l.order(e, now)
	return Lifted{l.out, e.forget()}, err
}
