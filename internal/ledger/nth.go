package ledger

import "math/rand/v2"

// nth returns what would be xs[n] if xs, which it puts into another order, were
// sorted. It takes time in proportion to len(xs): who makes room in a flood
// cannot sort all there is each time.
func nth(xs []int64, n int) int64 {
	for len(xs) > 1 {
		pivot := xs[rand.IntN(len(xs))] // which nobody can foresee
		// Less than the pivot, up to less; then equal ones; from more on, more.
		less, more := 0, len(xs)
		for i := 0; i < more; {
			switch x := xs[i]; {
			case x < pivot:
				xs[i], xs[less] = xs[less], x
				less++
				i++
			case x > pivot:
				more--
				xs[i], xs[more] = xs[more], x
			default:
				i++
			}
		}
		switch {
		case n < less:
			xs = xs[:less]
		case n < more:
			return pivot
		default:
			xs, n = xs[more:], n-more
		}
	}
	return xs[0]
}
