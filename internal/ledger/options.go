package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

const day = 24 * time.Hour

// filled returns o with defaults where it has nothing, or what cannot work.
func (o Options) filled() (Options, error) {
	e := &o.Escalation
	e.TTL = cmp.Or(e.TTL, 10*time.Minute)
	e.Multiply = max(cmp.Or(e.Multiply, 4), 1)
	e.Max = cmp.Or(e.Max, 30*day)
	e.Decay = cmp.Or(e.Decay, 30*day)
	o.Floor4, o.Floor6 = cmp.Or(o.Floor4, 16), cmp.Or(o.Floor6, 32)
	o.Widen.Bits4, o.Widen.Bits6 = cmp.Or(o.Widen.Bits4, 24), cmp.Or(o.Widen.Bits6, 48)
	o.KnownGood = cmp.Or(o.KnownGood, 30*day)
	o.MaxBlocks = cmp.Or(o.MaxBlocks, 200_000)
	o.MaxKnown = cmp.Or(o.MaxKnown, 100_000)
	o.MaxStrikes = cmp.Or(o.MaxStrikes, 100_000)
	o.MaxEvidence = cmp.Or(o.MaxEvidence, 4<<20)
	o.MaxAudit = cmp.Or(o.MaxAudit, 16<<20)
	o.AuditFiles = cmp.Or(o.AuditFiles, 4)
	return o, o.check()
}

func (o *Options) check() error {
	var errs []error
	bad := func(when bool, format string, args ...any) {
		if when {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	e := o.Escalation
	bad(e.TTL < 0 || e.Max < 0 || e.Decay < 0, "negative ttl, max or decay: %v, %v, %v", e.TTL, e.Max, e.Decay)
	bad(e.Multiply != e.Multiply, "multiply is not a number")
	bad(o.Floor4 < 1 || o.Floor4 > 32, "IPv4 floor /%d is not within /1 and /32", o.Floor4)
	bad(o.Floor6 < 1 || o.Floor6 > 128, "IPv6 floor /%d is not within /1 and /128", o.Floor6)
	bad(o.Widen.Count < 0, "widen.over is negative")
	bad(o.Widen.Count > 0 && (o.Widen.Bits4 < o.Floor4 || o.Widen.Bits6 < o.Floor6), "widen is wider than the floor")
	bad(o.MaxBlocks < 16 || o.MaxKnown < 16 || o.MaxStrikes < 16, "a limit is below 16")
	bad(o.MaxEvidence < 0 || o.MaxAudit < 4096 || o.AuditFiles < 1, "limits of evidence or audit are too small")
	for _, p := range o.Deny {
		bad(!p.IsValid() || o.tooWide(p), "deny list: %v is wider than the floor", p)
	}
	return errors.Join(errs...)
}

// tooWide reports whether p is wider than what may ever be blocked.
func (o *Options) tooWide(p netip.Prefix) bool {
	if p.Addr().Is4() {
		return p.Bits() < o.Floor4
	}
	return p.Bits() < o.Floor6
}
