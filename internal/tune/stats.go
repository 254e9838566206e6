package tune

import (
	"math/rand/v2"
	"slices"
)

// resamples is how often the networks are drawn again for an interval.
const resamples = 2000

// Interval holds 95 of a hundred draws.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// bootstrap draws as many networks as there are, with repetition, again and
// again, and returns within what the sum lies in 95 % of the draws. Sources of one
// network are counted together, so they are drawn together. Values of 0 change no
// sum: only how many there are matters, so they need not be drawn. The same values
// give the same interval.
func bootstrap(values []int) Interval {
	var v []float64
	for _, x := range values {
		if x != 0 {
			v = append(v, float64(x))
		}
	}
	if len(v) == 0 {
		return Interval{}
	}
	rnd := rand.New(rand.NewPCG(1, uint64(len(v))))
	draws := resamples
	if len(v) > 50_000 {
		draws /= 4
	}
	sums := make([]float64, draws)
	for i := range sums {
		// How often a network is drawn is nearly Poisson's with mean 1.
		for _, x := range v {
			if n := poisson(rnd); n > 0 {
				sums[i] += float64(n) * x
			}
		}
	}
	slices.Sort(sums)
	return Interval{sums[draws*25/1000], sums[draws*975/1000]}
}

// steps of the distribution function of a Poisson variable of mean 1, of 2^32.
var steps = func() (out [9]uint32) {
	p, sum := 0.36787944117144233, 0.0
	for k := range out {
		sum += p
		out[k] = uint32(sum * (1<<32 - 1))
		p /= float64(k + 1)
	}
	return out
}()

func poisson(r *rand.Rand) int {
	u := r.Uint32()
	for k, s := range steps {
		if u <= s {
			return k
		}
	}
	return len(steps)
}
