package ledger

import (
	"math/rand/v2"
	"testing"
)

// TestRoster plays random puts and drops against a map; few keys, so that they
// collide and wrap around the end.
func TestRoster(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		var got roster
		want := map[pkey]*record{}
		key := func() pkey { return pkey{uint64(rnd.IntN(3)), uint64(rnd.IntN(40)) << 4, isV4 + uint64(rnd.IntN(2))} }
		for step := range 3000 {
			got.look(key())
			if got.fetch(); len(got.looks) != 0 {
				t.Fatal("looks are left over")
			}
			switch k := key(); {
			case want[k] != nil && rnd.IntN(2) == 0:
				got.drop(k)
				delete(want, k)
			case want[k] == nil:
				r := &record{k: k}
				got.put(r)
				want[k] = r
			}
			if k := key(); got.find(k) != want[k] || got.n != len(want) {
				t.Fatalf("seed %d step %d: find(%v) = %p of %d, want %p of %d", seed, step, k, got.find(k), got.n, want[k], len(want))
			}
		}
		for k, r := range want {
			if got.find(k) != r {
				t.Fatalf("seed %d: %v is lost", seed, k)
			}
		}
	}
}
