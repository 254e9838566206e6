package bucket

import "math/rand/v2"

// shed makes room: first go the keys without values, then, down to three
// quarters of keys and values, those with the fewest, of them the longest
// silent. spare stays. A quarter at once, for all keys are looked at.
func (d *Distinct) shed(spare Key, at int64, l Spread) {
	counts := make([]int, d.cap+1) // keys with so many values
	d.each(func(r *ring) {
		d.expire(r, max(clamp(at), r.last)-l.within())
		switch {
		case r.key == spare:
		case r.n == 0:
			d.remove(r)
		default:
			counts[r.n]++
		}
	})
	keys, values := d.n-d.maxKeys+max(d.maxKeys/4, 1), d.held-d.max/4*3 // too many
	if keys <= 0 && values <= 0 {
		return
	}
	// All with fewer than count values go, and some of those that have count.
	count, some := 1, 0
	for ; count < len(counts); count++ {
		if some = max(keys, (values+count-1)/count); some <= counts[count] {
			break
		}
		keys, values = keys-counts[count], values-count*counts[count]
	}
	d.evict(spare, count, some)
}

// evict deletes the keys with fewer than count values, and of those that have
// count the some that are longest silent.
func (d *Distinct) evict(spare Key, count, some int) {
	var of []silent
	d.each(func(r *ring) {
		switch {
		case r.key == spare || int(r.n) > count:
		case int(r.n) < count:
			d.evicted += uint64(r.n)
			d.forget(r)
		default:
			of = append(of, silent{r.key, r.last})
		}
	})
	for _, s := range longest(of, some) {
		d.evicted += uint64(count)
		d.Delete(s.key)
	}
}

// silent is a key, and since when it is silent.
type silent struct {
	key  Key
	last int64
}

func (a *silent) before(b *silent) bool {
	if a.last != b.last {
		return a.last < b.last
	}
	return a.key.compare(b.key) < 0
}

// longest moves the n that are longest silent to the front, in no order, and
// returns them. It takes time in proportion to how many all are.
func longest(all []silent, n int) []silent {
	n = min(max(n, 0), len(all))
	for from, to := 0, len(all); from < n && n < to; {
		// Those before a pivot, which nobody can foresee, go to the front.
		last, less := to-1, from
		pivot := from + rand.IntN(to-from)
		all[pivot], all[last] = all[last], all[pivot]
		for i := from; i < last; i++ {
			if all[i].before(&all[last]) {
				all[i], all[less] = all[less], all[i]
				less++
			}
		}
		all[less], all[last] = all[last], all[less]
		switch {
		case n <= less:
			to = less
		default:
			from = less + 1
		}
	}
	return all[:n]
}
