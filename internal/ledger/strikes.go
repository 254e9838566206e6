package ledger

import (
	"net/netip"
	"time"
)

// strikes counts the offences of prefixes, so that a repeated one costs more.
type strikes struct {
	by      map[pkey]strike
	max     int
	evicted uint64
}

// strike is how many offences there were, and when the last block ended.
type strike struct {
	n    int
	last int64
}

// of is how many strikes are left at the instant at: one is forgotten each
// decay after the end of the last block.
func (s *strikes) of(k pkey, at int64, decay time.Duration) int {
	return s.by[k].left(at, decay)
}

// left is how many of the strikes are left at the instant at.
func (st strike) left(at int64, decay time.Duration) int {
	if st.n == 0 || at <= st.last {
		return st.n
	}
	return max(st.n-int((at-st.last)/int64(max(decay, 1))), 0)
}

// set notes that k has n strikes and that its last block ends at until.
func (s *strikes) set(k pkey, n int, until int64) {
	if _, found := s.by[k]; !found && len(s.by) >= s.max {
		s.shed()
	}
	s.by[k] = strike{n, max(s.by[k].last, until)}
}

// forgiveWithin is how soon after the end of a block a login from its prefix
// shows that the failures were a person's.
const forgiveWithin = day

// forgive forgets the strikes of the prefixes around addr whose last block ended
// less than a day before the instant at.
func (s *strikes) forgive(addr netip.Addr, at int64) {
	if len(s.by) == 0 || !addr.IsValid() {
		return
	}
	for n := addr.BitLen(); n > 0; n-- {
		k := keyAt(addr, n)
		if st, found := s.by[k]; found && st.last <= at && at-st.last < int64(forgiveWithin) {
			delete(s.by, k)
		}
	}
}

// shed forgets the sixteenth whose last block ended first.
func (s *strikes) shed() {
	lasts := make([]int64, 0, len(s.by))
	for _, st := range s.by {
		lasts = append(lasts, st.last)
	}
	before := len(s.by)
	s.prune(nth(lasts, s.max/16))
	s.evicted += uint64(before - len(s.by))
}

// prune forgets the prefixes whose last block ended at that instant or before.
func (s *strikes) prune(last int64) {
	for k, st := range s.by {
		if st.last <= last {
			delete(s.by, k)
		}
	}
}

// maxTTL keeps instants within what 64 bits of nanoseconds can tell.
const maxTTL = 100 * 365 * day

// ttl is how long the block of the n-th strike (from 1) lasts: base for the
// first, multiplied for each more, up to most or base, whichever is longer.
func ttl(base time.Duration, multiply float64, most time.Duration, n int) time.Duration {
	most = min(max(most, base), maxTTL)
	length := float64(base)
	for range n - 1 {
		if multiply <= 1 || length >= float64(most) {
			break
		}
		length *= multiply
	}
	if length >= float64(most) {
		return most
	}
	return time.Duration(length)
}
