package parse

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestLooksChangeNothing joins the same events with and without looks ahead,
// more of them than are taken.
func TestLooksChangeNothing(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 5))
		with, without := NewSessions(16), NewSessions(16)
		for round := range 30 {
			evs := make([]Event, r.IntN(300))
			for i := range evs {
				evs[i] = randomEvent(r, 1e18+int64(round*300+i)*1e9)
				with.Look(&evs[i], nil)
			}
			with.Fetch()
			for i := range evs {
				a, b := evs[i], evs[i]
				with.Join(&a, nil)
				without.Join(&b, nil)
				if got, want := fmt.Sprint(a), fmt.Sprint(b); got != want {
					t.Fatalf("seed %d: got %s, want %s", seed, got, want)
				}
			}
		}
		got, _ := with.MarshalBinary()
		want, _ := without.MarshalBinary()
		if string(got) != string(want) {
			t.Fatalf("seed %d: what is remembered differs", seed)
		}
	}
}
