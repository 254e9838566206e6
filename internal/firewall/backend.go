// Package firewall defines what a firewall backend is: the values that cross it
// and the contract it keeps. The backends are in folders of their own;
// firewalltest is the contract as tests.
package firewall

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"time"
)

// Action is what happens to a blocked prefix's packets.
type Action uint8

const (
	Drop   Action = iota
	Reject        // tcp-reset, or an ICMP error
	Slow          // new connections limited to a few a minute
)

var actionNames = [...]string{"drop", "reject", "slow"}

func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return "action " + strconv.Itoa(int(a))
}

// ParseAction reads what String writes.
func ParseAction(s string) (Action, error) {
	for i, n := range actionNames {
		if s == n {
			return Action(i), nil
		}
	}
	return 0, fmt.Errorf("unknown action %q; expected drop, reject or slow", s)
}

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
	Ports  []Ports // none: all; at most MaxPorts
	Cut    bool    // running connections end too
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

// LocksDown reports whether the wall of that name carries out a lockdown:
// walls that only keep a list of prefixes cannot refuse all but some.
func LocksDown(name string) bool {
	return name != "hosts.deny" && name != "set-only" && name != "exec" && name != "none"
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
	// List calls emit with each block of ours that the wall really holds now, in
	// no set order. What it should hold and does not was deleted one by one by
	// somebody else, unless the error wraps ErrBroken: then what is ours was
	// flushed, replaced or made again since the last order, and all that is
	// missing is to be put back. Each such loss is reported once.
	List(ctx context.Context, emit func(Entry)) error
	// Teardown removes all that is ours and nothing else.
	Teardown(ctx context.Context) error
}

// ListAll gathers what a wall lists, in memory.
func ListAll(ctx context.Context, b Backend) ([]Entry, error) {
	var es []Entry
	err := b.List(ctx, func(e Entry) { es = append(es, e) })
	return es, err
}

// Checker is a Backend that can tell cheaply whether what Setup made still
// stands (chain, hook, table, sets), without looking at every block. The error
// wraps ErrBroken when it does not: call Setup, then Block what is missing.
type Checker interface {
	Check(ctx context.Context) error
}

// Expirer is a Backend whose wall does not lift blocks by itself, or leaves
// their remains: Expire removes those whose end has come.
type Expirer interface {
	Expire(ctx context.Context) error
}

// Noter is a Backend that has something to say to the administrator after
// Setup: what works less well than it could here, and why. One line each.
type Noter interface {
	Notes() []string
}

// Watcher is a Backend whose wall says when somebody else changes what is
// ours. Watch blocks until ctx is done or the wall stops telling, and calls
// emit from its own goroutine, once for several changes that come together.
// It may run beside the other methods.
type Watcher interface {
	Watch(ctx context.Context, emit func(Change)) error
}

// Change is what somebody else did to our part of a wall.
type Change struct {
	// Deleted are the prefixes whose elements were removed by hand.
	Deleted []netip.Prefix
	// Broken says that tables, chains, sets or rules of ours went, or that
	// changes were missed: run Setup and Reconcile.
	Broken bool
}

// Leftover is something of ours that stands in a firewall and that nobody
// keeps: of a backend, hook or kind of iptables that was configured before.
type Leftover struct {
	What   string                      // such as "iptables-legacy: chain STOPLOG in filter"
	Remove func(context.Context) error // takes it away, and nothing else
}

// prober is a Backend that can prove that it would work, leaving nothing behind.
type Prober interface {
	Probe(ctx context.Context) error
}
