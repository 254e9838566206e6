// Package ledger keeps what is blocked now, until when and why.
package ledger

import (
	"net/netip"
	"time"

	"stoplog/internal/detect"
)

// Ledger holds the blocks, the allowlist, logins, strikes and flags, and
// their state on disk. It is not safe for concurrent use: one goroutine owns
// it, or the caller holds a lock around every call. No method waits for
// anything but the disk, and none looks at a clock: now is the wall clock,
// at is the log's time in Unix nanoseconds.
type Ledger struct{}

// Open loads the state in dir, which must exist; dir "" keeps everything in
// memory, as a replay does. What is damaged is set aside (renamed .corrupt)
// and noted, never fatal. The error is of options that cannot work, or of a
// dir that is none. Until RecoveryDone the ledger is recovering: the caller
// restores its parts, empties the buckets of Forget, gives the walls List,
// and reads on from the saved positions.
func Open(dir string, now time.Time, o Options) (*Ledger, *Recovered, error) { return nil, nil, nil }

// RecoveryDone ends recovering: call it when the logs have been read up to
// where they end now.
func (l *Ledger) RecoveryDone(now time.Time) {}

// Save writes a snapshot: the ledger's state and the caller's parts, which
// must be of the same instant. On an error the former snapshot and the
// journal still hold everything; call Save again later.
func (l *Ledger) Save(now time.Time, parts map[string][]byte) error { return nil }

// Close closes files. It does not save.
func (l *Ledger) Close() error { return nil }

// Health tells in one line each what does not work, such as a full disk.
func (l *Ledger) Health() []string { return nil }

// Verdict, KnownAddr and Flag implement detect.Gate.
func (l *Ledger) Verdict(addr netip.Addr, service string, user []byte, at int64) detect.Verdict {
	return detect.Stranger
}
func (l *Ledger) KnownAddr(addr netip.Addr, service string, at int64) bool { return false }
func (l *Ledger) Flag(name string, at int64) bool                          { return false }

// Login remembers that user logged in to service from addr. Call it only for
// lines that no local user can forge. It reports whether this login was not
// known-good before.
func (l *Ledger) Login(service string, user []byte, addr netip.Addr, at int64) bool { return false }

// Breach answers a breach.
func (l *Ledger) Breach(b *detect.Breach, now time.Time) Outcome { return Outcome{} }

// BlockByHand blocks p for ttl, or for good when ttl is 0. A non-nil error
// with changes means that the order was carried out but is not on disk.
func (l *Ledger) BlockByHand(p netip.Prefix, ttl time.Duration, reason, by string, now time.Time) ([]Change, error) {
	return nil, nil
}

// Unblock lifts every block that covers p or lies within it. A non-nil error
// means that the order was carried out but is not on disk.
func (l *Ledger) Unblock(p netip.Prefix, by string, now time.Time) (Lifted, error) {
	return Lifted{}, nil
}

// Allow exempts p for ttl, or for good when ttl is 0, and lifts the blocks
// within it. The caller then tells the walls AllowedPrefixes.
func (l *Ledger) Allow(p netip.Prefix, ttl time.Duration, reason, by string, now time.Time) (Lifted, error) {
	return Lifted{}, nil
}

// Disallow ends the allowance by hand of exactly p; false when there is none.
func (l *Ledger) Disallow(p netip.Prefix, by string, now time.Time) (bool, error) { return false, nil }

// Allowances lists the allowances by hand, sorted by prefix.
func (l *Ledger) Allowances(now time.Time) []Allowance { return nil }

// AllowedPrefixes lists all that is exempt now: configured, protected and by
// hand, sorted and merged, for the walls and for exports.
func (l *Ledger) AllowedPrefixes(now time.Time) []netip.Prefix { return nil }

// SetProtected replaces the machine's own addresses, gateways, resolvers and
// SSH peers, and lifts the blocks within them.
func (l *Ledger) SetProtected(ps []netip.Prefix, now time.Time) Lifted { return Lifted{} }

// SetOptions replaces the options, as a reload does; FlagsDir stays. Blocks
// within what is newly allowed are lifted, Deny is brought up to date.
func (l *Ledger) SetOptions(o Options, now time.Time) (Lifted, error) { return Lifted{}, nil }

// KnownAddrs lists the addresses from which somebody logged in lately, for a
// lockdown, sorted.
func (l *Ledger) KnownAddrs(now time.Time) []netip.Addr { return nil }

// Lockdown is the last lockdown; it stands while its Until is after now.
func (l *Ledger) Lockdown() LockdownState { return LockdownState{} }

// EndLockdown ends a lockdown by hand.
func (l *Ledger) EndLockdown(by string, now time.Time) error { return nil }

// RaiseFlag raises a flag by hand for ttl.
func (l *Ledger) RaiseFlag(name string, ttl time.Duration, reason, by string, now time.Time) error {
	return nil
}

// ClearFlag lowers a flag by hand; false when it was not up.
func (l *Ledger) ClearFlag(name, by string, now time.Time) (bool, error) { return false, nil }

// Flags lists the flags that are up, by name.
func (l *Ledger) Flags(now time.Time) []FlagState { return nil }

// Expire ends what has ended by now, renews leases, and retries what the disk
// refused. Lifts are for walls that cannot expire by themselves.
func (l *Ledger) Expire(now time.Time) []Change { return nil }

// NextExpiry is when Expire has something to do; zero: nothing is waiting.
func (l *Ledger) NextExpiry() time.Time { return time.Time{} }

// List gives the blocks standing at now, sorted by prefix. Their slices are
// shared: read only.
func (l *Ledger) List(now time.Time) []Block { return nil }

// Covering gives the blocks standing at now that cover addr, widest first.
func (l *Ledger) Covering(addr netip.Addr, now time.Time) []Block { return nil }

// Stats gives counts and sizes.
func (l *Ledger) Stats() Stats { return Stats{} }
