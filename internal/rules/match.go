package rules

import (
	"net/netip"
	"regexp"

	"stoplog/internal/parse"
)

// Match says which events a rule looks at: all of its conditions must hold.
// The zero Match takes every event.
type Match struct {
	// Services, Outcomes and Kinds are the conditions that an index can use;
	// nil and 0 take any. Bit n of a mask is the outcome or kind n.
	Services []string
	Outcomes uint8
	Kinds    uint8
	// Known, when set, asks that somebody has (or has not) logged in lately
	// from the event's source.
	Known *bool
	Conds []Cond
}

// Cond is one condition on one field of an event.
type Cond struct {
	Field string // as in the rules file: "path", "status", "field.tenant"…
	get   getter
	num   func(*parse.Event) (int64, bool)
	tests []test // any of them
	not   bool
}

// getter reads a field; false: the event has none.
type getter func(*parse.Event) ([]byte, bool)

// test is one thing that a field's value may be.
type test struct {
	op       op
	text     string
	re       *regexp.Regexp
	lo, hi   int64
	prefixes []netip.Prefix
	any      []test // not: none of them
}

type op uint8

const (
	opIs op = iota
	opGlob
	opStarts
	opEnds
	opContains
	opRegex
	opRange
	opCIDR
	opNot
)

// Index reports whether an event of this service, outcome and kind may match:
// what an index decides before Event is asked.
func (m *Match) Index(service string, o parse.Outcome, k parse.Kind) bool {
	if m.Outcomes != 0 && m.Outcomes&(1<<o) == 0 || m.Kinds != 0 && m.Kinds&(1<<k) == 0 {
		return false
	}
	if m.Services == nil {
		return true
	}
	for _, s := range m.Services {
		if s == service {
			return true
		}
	}
	return false
}

// Weight is how much one matching event pours: the largest of the weights
// that apply, 1 when none does.
type Weight struct {
	// Kinds are weights by kind of event.
	Kinds [8]int
	conds []weighing
}

type weighing struct {
	cond Cond
	n    int
}
