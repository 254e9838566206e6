package firewall

import (
	"net/netip"
	"slices"
	"time"
)

// Diff is what to do so that a wall holds what it should.
type Diff struct {
	Add     []Entry        // missing, because the wall was flushed or remade
	Refresh []Entry        // held otherwise than wanted (end, action, ports)
	Remove  []netip.Prefix // held, but not wanted
	ByHand  []netip.Prefix // deleted by the administrator: to be taken as unblocked
	Flushed bool           // others removed our blocks wholesale: worth a report
}

// None reports whether nothing is to be done.
func (d Diff) None() bool {
	return len(d.Add)+len(d.Refresh)+len(d.Remove)+len(d.ByHand) == 0
}

// endSlack is how far a wall's end of a block may be from the wanted one: it
// counts in seconds, and rounds down.
const endSlack = 5 * time.Second

// massLoss is how many blocks may be missing at once and still count as
// deleted one by one.
const massLoss = 16

// Reconcile compares what a wall was given and acknowledged with what it says
// it holds. intact is what its Check and its changes said before: when chain,
// table or sets were gone, all that is missing was lost with them. Otherwise a
// missing block was deleted by hand, unless all of several are missing, or
// many and more than half. Blocks about to end are left alone.
func Reconcile(want, have []Entry, intact bool, now time.Time) Diff {
	var d Diff
	held := make(map[netip.Prefix]Entry, len(have))
	for _, e := range have {
		held[e.Prefix] = e
	}
	var missing []Entry
	live := 0
	for _, e := range want {
		h, there := held[e.Prefix]
		delete(held, e.Prefix)
		if e.Until.Before(now.Add(endSlack)) {
			continue
		}
		live++
		switch {
		case !there, h.Until.Equal(onlyElsewhere):
			missing = append(missing, e)
		case !sameBlock(e, h):
			d.Refresh = append(d.Refresh, e)
		}
	}
	for p := range held {
		d.Remove = append(d.Remove, p)
	}
	slices.SortFunc(d.Remove, netip.Prefix.Compare)
	d.Flushed = len(missing) > 0 && (!intact || wholesale(len(missing), live))
	if d.Flushed {
		d.Add = missing
		return d
	}
	for _, e := range missing {
		d.ByHand = append(d.ByHand, e.Prefix)
	}
	return d
}

func wholesale(missing, of int) bool {
	return missing > 1 && missing == of || missing > massLoss && missing > of/2
}

func sameBlock(want, have Entry) bool {
	off := want.Until.Sub(have.Until)
	return off < endSlack && off > -endSlack && want.Action == have.Action && slices.Equal(want.Ports, have.Ports)
}
