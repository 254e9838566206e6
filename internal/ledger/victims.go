package ledger

import "container/heap"

// victims orders the records by which has to go first when there are too many
// blocks: those that ended, then those that end soonest, by hand ones last.
// It is made when the ledger is full for the first time and kept up to date
// from then on; a record knows its place, so that each change costs the
// logarithm of how many there are.
type victims []*record

// before reports whether r has to go before o. The prefix decides among equals,
// so that live and replay choose the same.
func (r *record) before(o *record) bool {
	if a, b := r.rank(), o.rank(); a != b {
		return a < b
	}
	if r.until != o.until {
		return r.until < o.until
	}
	return r.k.before(o.k)
}

func (r *record) rank() int {
	switch {
	case r.ended:
		return 0
	case r.byRule():
		return 1
	}
	return 2
}

func (v victims) Len() int           { return len(v) }
func (v victims) Less(i, j int) bool { return v[i].before(v[j]) }
func (v victims) Swap(i, j int) {
	v[i], v[j] = v[j], v[i]
	v[i].place, v[j].place = int32(i), int32(j)
}
func (v *victims) Push(x any) {
	r := x.(*record)
	r.place = int32(len(*v))
	*v = append(*v, r)
}
func (v *victims) Pop() any {
	last := len(*v) - 1
	r := (*v)[last]
	(*v)[last] = nil
	*v = (*v)[:last]
	return r
}

// room makes room for one more record, by lifting a block if it must.
func (l *Ledger) room() {
	if l.blocks.len() < l.o.MaxBlocks {
		return
	}
	if l.victims == nil {
		l.victims = make(victims, 0, l.blocks.len()+1)
		for r := range l.blocks.all() {
			l.victims.Push(r)
		}
		heap.Init(&l.victims)
	}
	for l.blocks.len() >= l.o.MaxBlocks { // more than one only after the cap was lowered
		r := l.victims[0]
		if !r.ended {
			l.stats.Evicted++
			delete(l.waiting, r.k)
			l.out = append(l.out, Change{Op: Lift, Block: r.block()})
		}
		l.forget(r.k)
	}
}

// moved puts r where it belongs after a change of its end, and adds a new one.
func (l *Ledger) moved(r *record, fresh bool) {
	switch {
	case l.victims == nil:
	case fresh:
		heap.Push(&l.victims, r)
	default:
		heap.Fix(&l.victims, int(r.place))
	}
}

// spared takes a record that is forgotten out of the order, and gives the order
// up once half of the room is free.
func (l *Ledger) spared(r *record) {
	if l.victims == nil {
		return
	}
	heap.Remove(&l.victims, int(r.place))
	if len(l.victims) < l.o.MaxBlocks/2 {
		l.victims = nil
	}
}
