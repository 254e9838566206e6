package ledger

import (
	"math/bits"
	"math/rand/v2"
)

// roster finds records as every event asks for them: open addressing over a
// power of two of places, at most half full, keyed with a random seed, because
// strangers choose what is blocked. The beginning of a record is all that is
// looked at.
type roster struct {
	places []*record
	n      int
	seed   uint64
	looks  []int32 // places that are asked for soon
	seen   *record // with when: keeps looks from being left out
	when   int64
}

const fewestPlaces = 64

func (t *roster) home(k pkey) int {
	a, b := bits.Mul64(k.lo^t.seed, k.hi^t.seed^k.n<<32^0xd6e8feb86659fd93)
	return int((a^b)*0x9e3779b97f4a7c15>>32) & (len(t.places) - 1)
}

// find returns the record of k, nil when there is none.
func (t *roster) find(k pkey) *record {
	if t.n == 0 {
		return nil
	}
	for i := t.home(k); t.places[i] != nil; i = (i + 1) & (len(t.places) - 1) {
		if r := t.places[i]; r.k == k {
			return r
		}
	}
	return nil
}

// look notes that k is asked for soon, and fetch has all that was noted in the
// processor's cache: its loops ask nothing of what they have just fetched, so
// that the waits for memory overlap.
func (t *roster) look(k pkey) {
	if t.n > 0 && len(t.looks) < maxLooks {
		t.looks = append(t.looks, int32(t.home(k)))
	}
}

const maxLooks = 256

func (t *roster) fetch() {
	for _, i := range t.looks {
		t.seen = t.places[i]
	}
	for _, i := range t.looks {
		if r := t.places[i]; r != nil {
			t.when |= r.since | int64(len(r.Ports))
		}
	}
	t.looks = t.looks[:0]
}

// put enters r, whose key is not in it yet.
func (t *roster) put(r *record) {
	if 2*(t.n+1) > len(t.places) {
		old := t.places
		if len(old) == 0 {
			t.seed = rand.Uint64() | 1
		}
		t.places = make([]*record, max(2*len(old), fewestPlaces))
		for _, r := range old {
			if r != nil {
				t.enter(r)
			}
		}
	}
	t.enter(r)
	t.n++
	t.looks = t.looks[:0]
}

func (t *roster) enter(r *record) {
	i := t.home(r.k)
	for t.places[i] != nil {
		i = (i + 1) & (len(t.places) - 1)
	}
	t.places[i] = r
}

// drop takes the record of k out, which is in it, and moves those up that it
// stood in the way of.
func (t *roster) drop(k pkey) {
	mask := len(t.places) - 1
	free := t.home(k)
	for t.places[free].k != k {
		free = (free + 1) & mask
	}
	t.n--
	for i := (free + 1) & mask; t.places[i] != nil; i = (i + 1) & mask {
		// One that may not stand at free, because its own place is behind it, stays.
		if home := t.home(t.places[i].k); (i-home)&mask >= (i-free)&mask {
			t.places[free] = t.places[i]
			free = i
		}
	}
	t.places[free] = nil
}
