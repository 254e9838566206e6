package bucket

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"
)

// modelDistinct keeps every event of one key for ever.
type modelDistinct struct {
	events []Value // Count is that of the one event
	last   int64
}

// live gives each value's events since it last came up again.
func (m *modelDistinct) live(at int64, l Spread) []Value {
	var out []Value
	now := max(at, m.last)
	for _, e := range m.events {
		i := slices.IndexFunc(out, func(v Value) bool { return v.Key == e.Key })
		switch {
		case i < 0:
			out = append(out, e)
		case out[i].Last <= e.Last-int64(l.Within): // had fallen out
			out[i] = e
		default:
			out[i].Count, out[i].Last = out[i].Count+e.Count, e.Last
		}
	}
	return slices.DeleteFunc(out, func(v Value) bool { return v.Last <= now-int64(l.Within) })
}

func (m *modelDistinct) pour(value Key, at int64, n int, l Spread) int {
	m.last = max(m.last, at)
	m.events = append(m.events, Value{value, n, m.last})
	return len(m.live(at, l))
}

// TestDistinctAgainstModel plays random timelines of a few keys. The count is
// that of the model up to the cap, and the list is the model's below it.
func TestDistinctAgainstModel(t *testing.T) {
	for i := range rounds(1500) {
		r := rand.New(rand.NewPCG(uint64(i), 44))
		capacity, values := 1+r.IntN(12), uint32(1+r.IntN(20))
		l := Spread{Over: r.IntN(12), Within: time.Duration(1 + r.IntN(1000))}
		d, models := NewDistinct(capacity, 0, 0), map[Key]*modelDistinct{}
		at, latest, overflowed := int64(0), int64(0), map[Key]bool{}
		for step := range 150 {
			at = max(timeline(r, at, int64(l.Within)/8+1), latest-int64(l.Within))
			latest = max(latest, at)
			k, v, n := v4Key(r.Uint32N(3)), v4Key(r.Uint32N(values)), 1+r.IntN(2)
			m := models[k]
			if m == nil {
				m = &modelDistinct{last: at}
				models[k] = m
			}
			all := m.pour(v, at, n, l)
			overflowed[k] = overflowed[k] || all > capacity
			want := min(all, capacity)
			if got, breached := d.Pour(k, v, at, n, l); got != want || breached != (want > l.Over) {
				t.Fatalf("seed %d step %d: got %d, %v, want %d, %v", i, step, got, breached, want, want > l.Over)
			}
			later := at + r.Int64N(int64(l.Within))
			if got, want := d.Count(k, later, l), min(len(m.live(later, l)), capacity); got != want {
				t.Fatalf("seed %d step %d: count at %d: got %d, want %d", i, step, later, got, want)
			}
			if !overflowed[k] {
				sameValues(t, d.List(k, later, l, 2), m.live(later, l), 2)
			}
			switch r.IntN(40) {
			case 0:
				again := NewDistinct(capacity, 0, 0)
				if rest, err := again.Restore(append(d.AppendBinary(nil), 'x')); err != nil || string(rest) != "x" {
					t.Fatalf("restoring: got %q, %v", rest, err)
				}
				d = again
			case 1:
				d.Delete(k)
				delete(models, k)
				delete(overflowed, k)
			case 2:
				d.Sweep(at-int64(l.Within), l) // drops only what no late event can reach
			}
		}
	}
}

func sameValues(t *testing.T, got, want []Value, each int) {
	t.Helper()
	want = slices.DeleteFunc(want, func(v Value) bool { return v.Count < each })
	slices.SortFunc(want, func(a, b Value) int {
		if a.Count != b.Count {
			return b.Count - a.Count
		}
		return a.Key.compare(b.Key)
	})
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// TestDistinctFlood sprays one account from ever new prefixes and many
// accounts from one prefix each: bounds hold, and the account that is being
// counted stays.
func TestDistinctFlood(t *testing.T) {
	d, l := NewDistinct(20, 1000, 2000), Spread{Over: 10, Within: time.Hour}
	warm := KeyOfText(1, []byte("root"))
	for i := range uint32(10) {
		d.Pour(warm, v4Key(i), 0, 1, l)
	}
	for i := range uint32(100_000) {
		d.Pour(KeyOfText(1, fmt.Appendf(nil, "user%d", i)), v4Key(i), int64(i), 1, l)
		d.Pour(KeyOfText(1, []byte("admin")), v4Key(i), int64(i), 1, l)
		if d.Len() > 1000 || d.Values() > 2000 {
			t.Fatalf("got %d keys and %d values, want at most 1000 and 2000", d.Len(), d.Values())
		}
	}
	if got, breached := d.Pour(warm, v4Key(99), 200_000, 1, l); got != 11 || !breached {
		t.Errorf("the account being counted: got %d, %v, want 11, true", got, breached)
	}
	if got := d.Count(KeyOfText(1, []byte("admin")), 100_000, l); got != 20 {
		t.Errorf("over the cap: got %d, want the cap, 20", got)
	}
	if d.Evicted() == 0 {
		t.Error("nothing was evicted")
	}
}

// TestDistinctEvictionIsExact wants the fewest counted to go first, and of
// those the longest silent.
func TestDistinctEvictionIsExact(t *testing.T) {
	d, l := NewDistinct(4, 16, 0), Spread{Over: 10, Within: time.Hour}
	for i := range uint32(16) {
		d.Pour(v4Key(i), v4Key(1), int64(100-i), 1, l)
		if i%2 == 0 {
			d.Pour(v4Key(i), v4Key(2), int64(100-i), 1, l)
		}
	}
	d.Pour(v4Key(99), v4Key(1), 200, 1, l)
	if d.Count(v4Key(9), 200, l) != 0 || d.Count(v4Key(7), 200, l) != 1 || d.Len() != 13 {
		t.Errorf("got counts %d and %d of %d keys, want 0 and 1 of 13", d.Count(v4Key(9), 200, l), d.Count(v4Key(7), 200, l), d.Len())
	}
}

func TestDistinctDeleteWithin(t *testing.T) {
	d, l := NewDistinct(0, 0, 0), Spread{Over: 10, Within: time.Hour}
	user, p, q := KeyOfText(1, []byte("root")), netip.MustParsePrefix("192.0.2.0/28"), netip.MustParsePrefix("192.0.2.16/28")
	for _, k := range []Key{KeyOf(p), KeyOf(q)} {
		d.Pour(user, k, 0, 1, l)
		d.Pour(k, user, 0, 1, l)
	}
	if got := d.DeleteWithin(p); got != 1 {
		t.Errorf("got %d keys deleted, want 1", got)
	}
	if got := d.List(user, 0, l, 0); len(got) != 1 || got[0].Key != KeyOf(q) {
		t.Errorf("values: got %v, want only %v", got, q)
	}
	if d.Count(KeyOf(p), 0, l) != 0 || d.Count(KeyOf(q), 0, l) != 1 {
		t.Error("the wrong key went")
	}
	if got, _ := d.Pour(Key{}, user, 0, 1, l); got != 0 || d.Len() != 2 {
		t.Errorf("the zero key: got %d, %d keys, want 0 and 2", got, d.Len())
	}
}

func FuzzRestoreDistinct(f *testing.F) {
	d, l := NewDistinct(4, 0, 0), Spread{Over: 3, Within: time.Hour}
	f.Add(d.AppendBinary(nil))
	for i := range uint32(12) {
		d.Pour(v4Key(i%3), v4Key(i), int64(i), 1, l)
	}
	f.Add(d.AppendBinary(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := NewDistinct(3, 16, 16)
		if _, err := d.Restore(b); err != nil && d.Len()+d.Values() != 0 {
			t.Errorf("after %v: %d keys, want none", err, d.Len())
		}
		for i := range uint32(40) {
			if got, _ := d.Pour(v4Key(i%5), v4Key(i), int64(i), 1, l); got > 3 {
				t.Errorf("got %d values, want at most 3", got)
			}
		}
	})
}

func BenchmarkDistinctPour(b *testing.B) {
	d, l := NewDistinct(64, 0, 0), Spread{Over: 10, Within: time.Hour}
	b.ReportAllocs()
	i := uint32(0)
	for b.Loop() {
		i++
		d.Pour(v4Key(i&0x3ff), v4Key(i*7&0xfff), int64(i)*1e6, 1, l)
	}
}

// TestDistinctMarks: a value is forgotten for a mark that all its events had,
// and marks are saved.
func TestDistinctMarks(t *testing.T) {
	k, l := v4Key(1), Spread{Over: 10, Within: time.Hour}
	d := NewDistinct(0, 0, 0)
	d.PourMarked(k, v4Key(10), 7, 0, 1, l) // always 7
	d.PourMarked(k, v4Key(10), 7, 1, 1, l)
	d.PourMarked(k, v4Key(11), 7, 2, 1, l) // two marks
	d.PourMarked(k, v4Key(11), 8, 3, 1, l)
	d.PourMarked(k, v4Key(11), 7, 4, 1, l)
	d.PourMarked(k, v4Key(12), 7, 5, 1, l) // once without
	d.Pour(k, v4Key(12), 6, 1, l)
	again := NewDistinct(0, 0, 0)
	if _, err := again.Restore(d.AppendBinary(nil)); err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]*Distinct{"live": d, "restored": again} {
		for _, c := range []struct {
			value uint32
			mark  uint32
			gone  bool
		}{{10, 8, false}, {10, 0, false}, {10, 7, true}, {10, 7, false}, {11, 7, false}, {11, 8, false}, {12, 7, false}, {12, 0, false}, {99, 7, false}} {
			if got := d.DeleteMarked(k, v4Key(c.value), c.mark); got != c.gone {
				t.Errorf("%s: value %d by mark %d: deleted %v", name, c.value, c.mark, got)
			}
		}
		if got := d.Count(k, 10, l); got != 2 {
			t.Errorf("%s: %d values left, want 2", name, got)
		}
	}
}

// TestDistinctShedsTheFewest lets a Distinct make room, for a key and for a
// value, and compares who goes with a sorted list of all.
func TestDistinctShedsTheFewest(t *testing.T) {
	l := Spread{Over: 3, Within: time.Hour}
	for seed := range uint64(rounds(2000)) {
		r := rand.New(rand.NewPCG(seed, 46))
		maxKeys := 16 + r.IntN(40)
		d := NewDistinct(20, maxKeys, 40+r.IntN(200))
		most, at := 1+r.IntN(20), int64(0)
		for range 40 * most {
			at += r.Int64N(2) * sec
			d.Pour(v4Key(r.Uint32N(uint32(maxKeys))), v4Key(r.Uint32N(uint32(most))), at, 1, l)
		}
		spare := v4Key(r.Uint32N(uint32(maxKeys)))
		var all []weighed
		d.each(func(r *ring) {
			live := d.Count(r.key, at, l)
			if live > 0 || r.key == spare {
				all = append(all, weighed{r.key, live, r.last})
			}
		})
		slices.SortFunc(all, weighed.compare)
		keys, values := len(all), 0
		for _, w := range all {
			values += w.count
		}
		want := map[Key]int{}
		for _, w := range all {
			if w.key != spare && (keys > maxKeys-max(maxKeys/4, 1) || values > d.max/4*3) {
				keys, values = keys-1, values-w.count
				continue
			}
			want[w.key] = w.count
		}
		d.shed(spare, at, l)
		got := map[Key]int{}
		d.each(func(r *ring) { got[r.key] = int(r.n) })
		if !reflect.DeepEqual(got, want) || d.Len() != len(want) || d.Values() != values {
			t.Fatalf("seed %d: got %v, want %v", seed, got, want)
		}
	}
}
