package replay

import "testing"

// TestTable compares a table with a map while it grows over several sizes.
func TestTable(t *testing.T) {
	got, want := newTable[[16]byte, int](), map[[16]byte]int{}
	key := func(i int) (k [16]byte) {
		k[0], k[7], k[15] = byte(i), byte(i>>8), byte(i>>16)
		return k
	}
	for i := range 20_000 {
		k := key(i * 7919 % 15_000)
		n, v := got.find(k)
		if old, known := want[k]; (v != nil) != known || known && *v != old {
			t.Fatalf("%v: got %v, want %d (%v)", k, v, old, known)
		}
		if v == nil {
			n, v = got.add(k)
		}
		*v, want[k] = i, i
		if e := got.at(n); e.key != k || e.value != i {
			t.Fatalf("number %d: got %+v, want %v", n, *e, k)
		}
	}
	if got.n != len(want) {
		t.Errorf("got %d values, want %d", got.n, len(want))
	}
	for k, old := range want {
		if _, v := got.find(k); v == nil || *v != old {
			t.Errorf("%v: got %v, want %d", k, v, old)
		}
	}
	if _, v := got.find(key(1 << 20)); v != nil {
		t.Error("found what was never added")
	}
}
