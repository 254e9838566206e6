package bucket

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// modelWindow keeps every event for ever.
type modelWindow struct {
	keys    map[Key]*modelSeries
	max     int
	evicted uint64
}

type modelSeries struct {
	at   []int64
	last int64
}

func (s *modelSeries) count(at int64, l Rolling) int {
	n, now := 0, max(at, s.last)
	for _, t := range s.at {
		if t > now-int64(l.Within) {
			n++
		}
	}
	return n
}

func (m *modelWindow) pour(k Key, at int64, n int, l Rolling) (int, bool) {
	s := m.keys[k]
	if n > 0 {
		if s == nil {
			if len(m.keys) >= m.max {
				m.shed(at, l)
			}
			s = &modelSeries{last: at}
			m.keys[k] = s
		}
		s.last = max(s.last, at)
		for range n {
			s.at = append(s.at, s.last)
		}
	}
	if s == nil {
		return 0, false
	}
	count := s.count(at, l)
	return min(count, l.Count+1), n > 0 && count > l.Count
}

func (m *modelWindow) sweep(at int64, l Rolling) {
	for k, s := range m.keys {
		if !slices.ContainsFunc(s.at, func(t int64) bool { return t > at-int64(l.Within) }) {
			delete(m.keys, k)
		}
	}
}

func (m *modelWindow) shed(at int64, l Rolling) {
	m.sweep(at, l)
	var keys []Key
	for k := range m.keys {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b Key) int {
		x, y := m.keys[a], m.keys[b]
		return cmp.Or(cmp.Compare(x.count(at, l), y.count(at, l)), cmp.Compare(x.last, y.last), a.compare(b))
	})
	for len(keys) > m.max-max(m.max/16, 1) {
		delete(m.keys, keys[0])
		keys = keys[1:]
		m.evicted++
	}
}

func TestWindowTimeline(t *testing.T) {
	w, k, l := NewWindow(0, 0), v4Key(1), Rolling{Count: 3, Within: time.Minute}
	for i, r := range []struct {
		at, n    int
		count    int
		breached bool
	}{
		{0, 1, 1, false}, {59, 1, 2, false}, {59, 1, 3, false},
		{60, 1, 3, false}, // that of 0 is out: no sooner and no later
		{61, 1, 4, true},
		{0, 1, 4, true},    // late counts as the latest
		{120, 0, 2, false}, // of 61 and the late one
		{121, 1, 1, false},
		{500, 9, 4, true},
	} {
		count, breached := w.Pour(k, int64(r.at)*sec, r.n, 1, l)
		if count != r.count || breached != r.breached {
			t.Errorf("row %d: got %d, %v, want %d, %v", i, count, breached, r.count, r.breached)
		}
	}
}

// TestWindowAgainstModel plays random timelines, with many keys and few, and
// counts that differ from pour to pour.
func TestWindowAgainstModel(t *testing.T) {
	for i := range rounds(2000) {
		r := rand.New(rand.NewPCG(uint64(i), 43))
		most := 16 + r.IntN(20)
		w, m := NewWindow(most, 0), &modelWindow{keys: map[Key]*modelSeries{}, max: most}
		l := Rolling{Count: 12, Within: time.Duration(1 + r.IntN(1000))}
		keys, at := 1+r.IntN(60), int64(0)
		w.Pour(v4Key(0), 0, 1, 1, l)
		m.pour(v4Key(0), 0, 1, l)
		for step := range 200 {
			at = timeline(r, at, int64(l.Within)/4+1)
			k, n := v4Key(uint32(r.IntN(keys))), r.IntN(4)
			pour := l
			if len(m.keys) > 1 && m.keys[k] != nil && len(m.keys[k].at) > 0 {
				pour.Count = r.IntN(12)
			}
			gc, gb := w.Pour(k, at, n, 1, pour)
			wc, wb := m.pour(k, at, n, pour)
			if gc != wc || gb != wb || w.Len() != len(m.keys) || w.Evicted() != m.evicted {
				t.Fatalf("seed %d step %d: pour %d of %v at %d: got %d, %v, want %d, %v; %d keys, want %d; %d evicted, want %d",
					i, step, n, pour, at, gc, gb, wc, wb, w.Len(), len(m.keys), w.Evicted(), m.evicted)
			}
			switch r.IntN(40) {
			case 0:
				w.Sweep(at, l)
				m.sweep(at, l)
			case 1:
				again := NewWindow(most, 0)
				if rest, err := again.Restore(append(w.AppendBinary(nil), 'x')); err != nil || string(rest) != "x" || again.Bytes() > w.Bytes() {
					t.Fatalf("restoring: got %q, %v, %d bytes, want at most %d", rest, err, again.Bytes(), w.Bytes())
				}
				w = again
			case 2:
				w.Delete(k)
				delete(m.keys, k)
			}
		}
	}
}

func TestWindowStaysInItsBytes(t *testing.T) {
	const most = 1 << 20
	w, l := NewWindow(1<<20, most), Rolling{Count: 100, Within: time.Hour}
	warm := v4Key(0xffffffff)
	w.Pour(warm, 0, 100, 1, l)
	for i := range 200_000 {
		w.Pour(v4Key(uint32(i)), int64(i), 1+i%3, 1, l)
		if w.Bytes() > most {
			t.Fatalf("got %d bytes, want at most %d", w.Bytes(), most)
		}
	}
	if _, breached := w.Pour(warm, sec, 1, 1, l); !breached {
		t.Error("the window that was filling was pushed out")
	}
	if w.Evicted() == 0 {
		t.Error("nothing was evicted")
	}
}

func TestWindowDeleteWithin(t *testing.T) {
	w, l := NewWindow(0, 0), Rolling{Count: 5, Within: time.Minute}
	in, out := KeyOf(netip.MustParsePrefix("192.0.2.0/28")), KeyOf(netip.MustParsePrefix("192.0.2.16/28"))
	w.Pour(in, 0, 2, 1, l)
	w.Pour(out, 0, 2, 1, l)
	if got := w.DeleteWithin(netip.MustParsePrefix("192.0.2.0/28")); got != 1 || w.Count(in, 0, l) != 0 || w.Count(out, 0, l) != 2 {
		t.Errorf("got %d deleted, counts %d and %d, want 1, 0 and 2", got, w.Count(in, 0, l), w.Count(out, 0, l))
	}
	w.Delete(out)
	if w.Bytes() != 0 || w.Len() != 0 {
		t.Errorf("empty: got %d bytes, %d keys", w.Bytes(), w.Len())
	}
}

func FuzzRestoreWindow(f *testing.F) {
	w, l := NewWindow(0, 0), Rolling{Count: 5, Within: time.Minute}
	f.Add(w.AppendBinary(nil))
	for i := range 9 {
		w.Pour(v4Key(uint32(i)), int64(i), i, 1, l)
	}
	f.Add(w.AppendBinary(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := NewWindow(16, 1<<16)
		if _, err := w.Restore(b); err != nil && w.Len() != 0 {
			t.Errorf("after %v: %d keys, want none", err, w.Len())
		}
		for i := range 20 {
			w.Pour(v4Key(uint32(i)), int64(i), i, 1, l)
		}
		if w.Len() > len(b)+20 {
			t.Errorf("got %d keys out of %d bytes", w.Len(), len(b))
		}
	})
}

func BenchmarkWindowPour(b *testing.B) {
	w, l := NewWindow(0, 64<<20), Rolling{Count: 30, Within: 5 * time.Minute}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		w.Pour(v4Key(uint32(i)&0x3fff), int64(i)*sec/1000, 1, 1, l)
	}
}

func ExampleWindow() {
	w := NewWindow(0, 0)
	limit := Rolling{Count: 2, Within: time.Minute}
	k := KeyOfText(0, []byte("root"))
	for _, at := range []time.Duration{0, 40 * time.Second, 60 * time.Second, 90 * time.Second} {
		fmt.Println(w.Pour(k, int64(at), 1, 1, limit))
	}
	// Output:
	// 1 false
	// 2 false
	// 2 false
	// 3 true
}

// TestWindowEvents counts events apart from the points they weigh.
func TestWindowEvents(t *testing.T) {
	w, k, l := NewWindow(0, 0), v4Key(7), Rolling{Count: 10, Within: time.Minute}
	w.Pour(k, 0, 2, 3, l)
	w.Pour(k, 30*sec, 1, 4, l)
	if points, events := w.Count(k, 30*sec, l), w.Events(k, 30*sec, l); points != 10 || events != 3 {
		t.Errorf("got %d points and %d events, want 10 and 3", points, events)
	}
	saved := w.AppendBinary(nil)
	other := NewWindow(0, 0)
	if _, err := other.Restore(saved); err != nil || other.Events(k, 61*sec, l) != 1 || other.Count(k, 61*sec, l) != 4 {
		t.Errorf("restored: got %d events, %v, want 1", other.Events(k, 61*sec, l), err)
	}
	// What filled the window is exact, although it keeps little more than its count.
	if points, _ := w.Pour(k, 31*sec, 1, 9, l); points != 19 || w.Events(k, 31*sec, l) != 4 {
		t.Errorf("over the count: got %d points and %d events, want 19 and 4", points, w.Events(k, 31*sec, l))
	}
}
