// Package firewall makes what the ledger says is blocked blocked, in one or
// several walls. In production it runs in a process of its own, which reads
// only checked prefixes. It is the only importer of go-iptables.
package firewall

import (
	"context"
	"net/netip"
	"time"
)

// Action is what happens to a blocked prefix's packets.
type Action uint8

const (
	Drop   Action = iota
	Reject        // tcp-reset, or an ICMP error
	Slow          // new connections limited to a few a minute
)

// Ports is an inclusive range; Proto is "tcp", "udp" or "" for both.
type Ports struct {
	Proto    string `json:"proto,omitempty"`
	From, To uint16
}

// Entry is one block as a wall sees it. Prefixes are masked and never
// IPv4-mapped.
type Entry struct {
	Prefix netip.Prefix
	Until  time.Time // UTC; the wall lifts it by itself by then where it can
	Action Action
	Ports  []Ports // none: all
}

// Policy is what stands around the blocks.
type Policy struct {
	// Allow leaves our chain by RETURN before any block, wherever it is inside one.
	Allow []netip.Prefix
	// Lockdown, when Until is in the future, refuses new connections to Ports
	// from all but Allow and Known.
	Lockdown struct {
		Ports []Ports
		Until time.Time
		Known []netip.Addr
	}
}

// Backend is one wall. It is used from one goroutine. All methods are
// idempotent; errors name the place and the cause. A prefix is held once: the
// last Block of it wins (until, action, ports).
type Backend interface {
	// Name is what the rules file calls it.
	Name() string
	// Setup proves that blocking works here, makes what the wall needs, and
	// brings the policy up to date. Calling it again changes the policy and
	// repairs what others removed; blocks that stand are kept.
	Setup(ctx context.Context, p Policy) error
	// Block adds entries or refreshes their end. What cannot be added (a full
	// wall) is named in the error; the others are.
	Block(ctx context.Context, es []Entry) error
	// Unblock lifts exactly these prefixes. The absent is no error.
	Unblock(ctx context.Context, ps []netip.Prefix) error
	// List tells what the wall really holds of ours now, in no set order.
	List(ctx context.Context) ([]Entry, error)
	// Teardown removes all that is ours and nothing else.
	Teardown(ctx context.Context) error
}
