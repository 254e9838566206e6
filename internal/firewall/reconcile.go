package firewall

import (
	"iter"
	"net/netip"
	"slices"
	"time"
)

// Diff is what to do so that a wall holds what it should.
type Diff struct {
	Add     []Entry        // missing, because the wall was flushed or made anew
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

// Listing gathers what a wall lists, in some 25 bytes a block.
type Listing struct{ t heldTable[listed] }

// listed is what blocks of one kind have in common.
type listed struct {
	action Action
	ports  string
}

func listedAs(e Entry) listed {
	k := listed{action: e.Action}
	if len(e.Ports) > 0 {
		k.ports = FormatPorts(e.Ports)
	}
	return k
}

// Add notes one block; of one that is told twice the last holds.
func (l *Listing) Add(e Entry) {
	l.t.put(e.Prefix, listedAs(e), e.Until.Truncate(time.Second)) // never late
}

// each gives back what was added, with ends of whole seconds.
func (l *Listing) each(do func(Entry)) {
	l.t.each(func(p netip.Prefix) {
		s, _ := l.t.slot(p)
		k := l.t.kinds[s.kind]
		e := Entry{Prefix: p, Until: time.Unix(int64(s.until), 0).UTC(), Action: k.action}
		if k.ports != "" {
			e.Ports, _ = ParsePorts(k.ports)
		}
		do(e)
	})
}

// Holds reports whether p is listed.
func (l *Listing) Holds(p netip.Prefix) bool {
	s, there := l.t.slot(p)
	return there && s.until != secondsOf(onlyElsewhere)
}

// Len is how many blocks there are.
func (l *Listing) Len() int { return l.t.len() }

// Reconcile compares what a wall was given and acknowledged with what it
// listed, which is used up. intact is false when its List or Check said
// ErrBroken, or when it was set up anew: then all that is missing was lost, and
// is to be put back. Otherwise what is missing was deleted by hand, while
// everything else was there; unless all of several are. Blocks about to end are
// left alone.
func Reconcile(want iter.Seq[Entry], have *Listing, intact bool, now time.Time) Diff {
	var d Diff
	var missing []Entry
	live := 0
	for e := range want {
		h, there := have.t.slot(e.Prefix)
		kind := listed{}
		if there {
			kind = have.t.kinds[h.kind]
			have.t.drop(e.Prefix)
		}
		if e.Until.Before(now.Add(endSlack)) {
			continue
		}
		live++
		switch {
		case !there, h.until == secondsOf(onlyElsewhere):
			missing = append(missing, e)
		case kind != listedAs(e) || !sameEnd(e.Until, h.until):
			d.Refresh = append(d.Refresh, e)
		}
	}
	have.t.each(func(p netip.Prefix) { d.Remove = append(d.Remove, p) })
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
	return off < int64(endSlack/time.Second) && off > -int64(endSlack/time.Second)
}
