package held

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
)

// Diff is what to do so that a wall holds what it should.
type Diff struct {
	Add     []firewall.Entry // missing, because the wall was flushed or made again
	Refresh []firewall.Entry // held otherwise than wanted (end, action, ports)
	Remove  []netip.Prefix   // held, but not wanted
	ByHand  []netip.Prefix   // deleted by the administrator: to be taken as unblocked
	Flushed bool             // others removed our blocks wholesale: worth a report
}

// None reports whether nothing is to be done.
func (d Diff) None() bool {
	return len(d.Add)+len(d.Refresh)+len(d.Remove)+len(d.ByHand) == 0
}

// Listing gathers what a wall lists, in some 25 bytes a block.
type Listing struct{ t Table[listed] }

// listed is what blocks of one kind have in common.
type listed struct {
	action firewall.Action
	ports  string
}

func listedAs(e firewall.Entry) listed {
	k := listed{action: e.Action}
	if len(e.Ports) > 0 {
		k.ports = firewall.FormatPorts(e.Ports)
	}
	return k
}

// Add notes one block; of one that is told twice the last holds.
func (l *Listing) Add(e firewall.Entry) {
	l.t.Put(e.Prefix, listedAs(e), e.Until.Truncate(time.Second)) // never late
}

// each gives back what was added, with ends of whole seconds.
func (l *Listing) Each(do func(firewall.Entry)) {
	l.t.Each(func(p netip.Prefix) {
		s, _ := l.t.Slot(p)
		k := l.t.kinds[s.kind]
		e := firewall.Entry{Prefix: p, Until: time.Unix(int64(s.Until), 0).UTC(), Action: k.action}
		if k.ports != "" {
			e.Ports, _ = firewall.ParsePorts(k.ports)
		}
		do(e)
	})
}

// Holds reports whether p is listed.
func (l *Listing) Holds(p netip.Prefix) bool {
	s, there := l.t.Slot(p)
	return there && s.Until != SecondsOf(firewall.OnlyElsewhere)
}

// Len is how many blocks there are.
func (l *Listing) Len() int { return l.t.Len() }

// Reconcile compares what a wall was given and acknowledged with what it
// listed, which is used up. intact is false when its List or Check said
// ErrBroken, or when it was set up again: then all that is missing was lost, and
// is to be put back. Otherwise what is missing was deleted by hand, while
// everything else was there; unless all of several are. Blocks about to end are
// left alone.
func Compare(want iter.Seq[firewall.Entry], have *Listing, intact bool, now time.Time) Diff {
	var d Diff
	var missing []firewall.Entry
	live := 0
	for e := range want {
		h, there := have.t.Slot(e.Prefix)
		kind := listed{}
		if there {
			kind = have.t.kinds[h.kind]
			have.t.Drop(e.Prefix)
		}
		if e.Until.Before(now.Add(base.EndSlack)) {
			continue
		}
		live++
		switch {
		case !there, h.Until == SecondsOf(firewall.OnlyElsewhere):
			missing = append(missing, e)
		case kind != listedAs(e) || !sameEnd(e.Until, h.Until):
			d.Refresh = append(d.Refresh, e)
		}
	}
	have.t.Each(func(p netip.Prefix) { d.Remove = append(d.Remove, p) })
	slices.SortFunc(d.Remove, netip.Prefix.Compare)
	d.Flushed = len(missing) > 0 && (!intact || len(missing) > 1 && len(missing) == live)
	if d.Flushed {
		d.Add = missing
		return d
	}
	for _, e := range missing {
		d.ByHand = append(d.ByHand, e.Prefix)
	}
	return d
}

func sameEnd(want time.Time, have uint32) bool {
	off := want.Unix() - int64(have)
	return off < int64(base.EndSlack/time.Second) && off > -int64(base.EndSlack/time.Second)
}
