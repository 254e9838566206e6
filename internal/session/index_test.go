package session

import (
	"math/rand/v2"
	"testing"
)

// TestIndex plays random puts and drops against a map; few keys, so that they
// collide and wrap around the end.
func TestIndex(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		var x index
		conns := make([]conn, 200)
		want := map[uint64]int32{}
		for step := range 5000 {
			i := int32(rnd.IntN(len(conns)))
			key := conns[i].key
			if at, held := want[key]; held && at == i {
				x.drop(i, key)
				delete(want, key)
				conns[i].key = 0
			} else {
				key = rnd.Uint64N(1<<16) * 0x10001
				if _, taken := want[key]; taken {
					continue
				}
				conns[i].key = key
				x.put(i, key)
				want[key] = i
			}
			if x.n != len(want) {
				t.Fatalf("seed %d step %d: holds %d, want %d", seed, step, x.n, len(want))
			}
			probe := rnd.Uint64N(1<<16) * 0x10001
			got, ok := x.find(probe, conns)
			if w, held := want[probe]; ok != held || held && got != w {
				t.Fatalf("seed %d step %d: find = %d, %v; want %d, %v", seed, step, got, ok, w, held)
			}
		}
		for key, w := range want {
			if got, ok := x.find(key, conns); !ok || got != w {
				t.Fatalf("seed %d: %x is lost", seed, key)
			}
		}
	}
}
