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
	model := map[pkey]int64{}
	for step := range 60_000 {
		k := pkey{r.Uint64N(3), r.Uint64N(400), []uint64{24, 28, isV4 + 24, isV4 + 28}[r.IntN(4)]}
		if growing := step/10_000%2 == 0; r.IntN(4) == 0 != growing {
			rec := x.get(k)
			if rec == nil {
				if rec = x.add(k); *rec != (record{k: k}) {
					t.Fatalf("step %d: got %+v, want a record of nothing but its prefix", step, *rec)
				}
			}
			rec.line, model[k] = int64(step+1), int64(step+1)
		} else {
			x.delete(k)
			delete(model, k)
		}
		line := int64(0)
		if rec := x.get(k); rec != nil {
			line = rec.line
		}
		if x.len() != len(model) || line != model[k] {
			t.Fatalf("step %d: got %d, %d records, want %d, %d", step, line, x.len(), model[k], len(model))
		}
		if step%1000 != 0 {
			continue
		}
		seen := 0
		for rec := range x.all() {
			if seen++; model[rec.k] != rec.line || x.get(rec.k) != rec {
				t.Fatalf("step %d: %v is not what was put", step, rec.k)
			}
		}
		if seen != len(model) {
			t.Fatalf("step %d: got %d records, want %d", step, seen, len(model))
		}
	}
}

// TestRecordsGiveBack: when few of many records are left, most pages are gone.
func TestRecordsGiveBack(t *testing.T) {
	var x records
	for i := range uint64(10_000) {
		x.add(pkey{0, i, isV4 + 32})
	}
	for i := range uint64(10_000) {
		if i >= 100 {
			x.delete(pkey{0, i, isV4 + 32})
		}
	}
	left := 0
	for _, p := range x.pages {
		if p != nil {
			left++
		}
	}
	if left > 3 || x.len() != 100 {
		t.Errorf("got %d pages of %d records, want 3 of 100", left, x.len())
	}
}

// TestEndsComeInOrder pops instants, pushed in any order, the soonest first.
func TestEndsComeInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var e agenda[int]
	for range 500 {
		e = append(e, due[int]{at: r.Int64N(100)})
	}
	e.order()
	for range 500 {
		e.push(r.Int64N(100), 0)
	}
	for last := int64(-1); len(e) > 0; {
		x := e.pop()
		if x.at < last {
			t.Fatalf("got %d after %d", x.at, last)
		}
		last = x.at
	}
}
