package bucket

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestFetchChangesNothing looks ahead at tables in every state: empty, with
// buckets deleted, evicted and swept, and wants the answers of one that is
// never looked at.
func TestFetchChangesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	with, without, lines := NewTable(500, 1), NewTable(500, 2), NewEvidence(0, 1)
	seed, lim := NewSeed(1), Limit{5, time.Minute}
	for round := range 400 {
		at := int64(round) * 10 * sec
		spots := make([]Spot, 20)
		looks := []Look{lines.Look(v4Key(1), 7)}
		for i := range spots {
			spots[i] = seed.Spot(v4Key(r.Uint32N(2000)))
			looks = append(looks, with.Look(spots[i]))
		}
		Fetch(looks)
		for _, p := range spots {
			n, breached := with.PourSpot(p, at, 2, lim)
			if m, b := without.Pour(p.Key, at, 2, lim); n != m || breached != b {
				t.Fatalf("round %d: got %d, %v, want %d, %v", round, n, breached, m, b)
			}
			if r.IntN(4) == 0 && with.Delete(p.Key) != without.Delete(p.Key) {
				t.Fatalf("round %d: deleted in one table only", round)
			}
		}
		if round%100 == 99 && with.Sweep(at) != without.Sweep(at) {
			t.Fatalf("round %d: swept differently", round)
		}
	}
	if with.Len() != without.Len() || with.Evicted() != without.Evicted() || with.Len() == 0 {
		t.Errorf("got %d buckets and %d evicted, want %d and %d", with.Len(), with.Evicted(), without.Len(), without.Evicted())
	}
}
