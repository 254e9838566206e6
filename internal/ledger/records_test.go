package ledger

import (
	"math/rand/v2"
	"testing"
)

// TestRecordsAgainstMap plays random changes to records and to a map, so full
// and so empty that places run together and the table shrinks.
func TestRecordsAgainstMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var x records
	model := map[pkey]*record{}
	for step := range 60_000 {
		k := pkey{r.Uint64N(3), r.Uint64N(400), []uint64{24, 28, isV4 + 24, isV4 + 28}[r.IntN(4)]}
		if growing := step/10_000%2 == 0; r.IntN(4) == 0 != growing {
			rec := &record{k: k}
			x.put(rec)
			model[k] = rec
		} else {
			x.delete(k)
			delete(model, k)
		}
		if x.len() != len(model) || x.get(k) != model[k] {
			t.Fatalf("step %d: got %v, %d records, want %v, %d", step, x.get(k), x.len(), model[k], len(model))
		}
		if step%1000 != 0 {
			continue
		}
		seen := 0
		for rec := range x.all() {
			if seen++; model[rec.k] != rec || x.get(rec.k) != rec {
				t.Fatalf("step %d: %v is not what was put", step, rec.k)
			}
		}
		if seen != len(model) {
			t.Fatalf("step %d: got %d records, want %d", step, seen, len(model))
		}
	}
}

// TestEndsComeInOrder pops instants, pushed in any order, the soonest first.
func TestEndsComeInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var e ends
	for range 500 {
		e = append(e, end{at: r.Int64N(100)})
	}
	e.order()
	for range 500 {
		e.push(end{at: r.Int64N(100)})
	}
	for last := int64(-1); len(e) > 0; {
		x := e.pop()
		if x.at < last {
			t.Fatalf("got %d after %d", x.at, last)
		}
		last = x.at
	}
}
