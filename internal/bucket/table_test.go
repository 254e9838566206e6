package bucket

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

const sec = int64(time.Second)

func v4Key(n uint32) Key {
	return KeyOf(netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}), 32))
}

func TestPourTimelines(t *testing.T) {
	type row struct {
		at       int64 // seconds
		n        int
		level    int
		breached bool
	}
	lim := Limit{Capacity: 5, Leak: time.Minute}
	for name, rows := range map[string][]row{
		"five are held, the sixth breaches": {{0, 1, 1, false}, {1, 1, 2, false}, {2, 1, 3, false}, {3, 1, 4, false}, {4, 1, 5, false}, {5, 1, 6, true}},
		"one a minute never breaches":       {{0, 1, 1, false}, {60, 1, 1, false}, {120, 1, 1, false}, {180, 1, 1, false}, {240, 1, 1, false}, {300, 1, 1, false}, {360, 1, 1, false}},
		"six with one drained between":      {{0, 5, 5, false}, {60, 1, 5, false}, {61, 1, 6, true}},
		"weight counts at once":             {{0, 2, 2, false}, {0, 2, 4, false}, {0, 2, 6, true}},
		"one heavy event":                   {{0, 1000, 1000, true}, {0, 1000, 1005, true}},
		"stays as full as after a breach":   {{0, 5, 5, false}, {0, 1, 6, true}, {0, 1, 6, true}, {0, 1, 6, true}, {60, 0, 5, false}, {360, 0, 0, false}, {360, 1, 1, false}},
		"time that goes back drains nothing": {{1000, 1, 1, false}, {0, 1, 2, false}, {1000, 1, 3, false},
			{-5000, 1, 4, false}, {1000, 0, 4, false}, {1060, 0, 3, false}},
		"nothing poured is nothing held":       {{0, 0, 0, false}, {5, -3, 0, false}, {5, 1, 1, false}},
		"a begun event counts whole, for show": {{0, 1, 1, false}, {59, 0, 1, false}, {60, 0, 0, false}},
		"a drained bucket starts anew":         {{0, 3, 3, false}, {9000, 1, 1, false}},
		"exactly at the brim is not over":      {{0, 6, 6, true}, {60, 0, 5, false}, {120, 1, 5, false}},
		"far future and far past do not wrap":  {{1 << 33, 5, 5, false}, {-(1 << 33), 1, 6, true}},
	} {
		t.Run(name, func(t *testing.T) {
			tab := NewTable(0, 1)
			k := v4Key(1)
			for i, r := range rows {
				level, breached := tab.Pour(k, r.at*sec, r.n, lim)
				if level != r.level || breached != r.breached {
					t.Fatalf("row %d at %ds n %d: got level %d, breached %v, want %d, %v", i, r.at, r.n, level, breached, r.level, r.breached)
				}
			}
		})
	}
}

func TestCapacityMayDiffer(t *testing.T) {
	tab, k := NewTable(0, 1), v4Key(1)
	wide, narrow := Limit{100, time.Minute}, Limit{1, time.Minute}
	if level, breached := tab.Pour(k, 0, 50, wide); level != 50 || breached {
		t.Errorf("wide: got %d, %v, want 50, false", level, breached)
	}
	if level, breached := tab.Pour(k, 0, 1, narrow); level != 50 || !breached {
		t.Errorf("narrow after wide: got %d, %v, want 50, true: a pour never lowers a level", level, breached)
	}
	if level, breached := tab.Pour(k, 0, 1, wide); level != 51 || breached {
		t.Errorf("wide again: got %d, %v, want 51, false", level, breached)
	}
}

func TestLimitsBeyondReason(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct {
		l  Limit
		ok bool
	}{
		{Limit{5, time.Minute}, true}, {Limit{0, time.Second}, true}, {Limit{6, 12 * time.Hour}, true}, {Limit{800, day}, true},
		{Limit{-1, time.Minute}, false}, {Limit{5, 0}, false}, {Limit{5, -1}, false}, {Limit{900, day}, false}, {Limit{math.MaxInt, 1 << 62}, false}, {Limit{0, math.MaxInt64}, false}, {Limit{5, math.MaxInt64}, false},
	} {
		if err := c.l.Check(); (err == nil) != c.ok {
			t.Errorf("%+v: got %v, want ok %v", c.l, err, c.ok)
		}
		tab, breached := NewTable(0, 1), false
		for range 2000 {
			_, b := tab.Pour(v4Key(1), 0, math.MaxInt32, c.l)
			breached = breached || b
		}
		if !breached {
			t.Errorf("%+v: a flood did not breach", c.l)
		}
	}
}

// TestAgainstModel plays random timelines to a Table and to the slow model:
// levels, breaches, sweeps, deletions, evictions and saving must agree.
func TestAgainstModel(t *testing.T) {
	for i := range rounds(3000) {
		r := rand.New(rand.NewPCG(uint64(i), 42))
		maxKeys := 16 + r.IntN(40)
		tab, model := NewTable(maxKeys, r.Uint64()), newModel(maxKeys)
		leak := time.Duration(1 + r.IntN(1000))
		keys, at := 1+r.IntN(120), int64(r.IntN(1000))
		for step := range 300 {
			at = timeline(r, at, int64(leak))
			k := v4Key(uint32(r.IntN(keys)))
			l := Limit{r.IntN(8), leak}
			what, got, want := "", "", ""
			switch op := r.IntN(100); {
			case op < 90:
				n := r.IntN(4)
				gl, gb := tab.Pour(k, at, n, l)
				wl, wb := model.pour(k, at, n, l)
				what, got, want = fmt.Sprint("pour ", n), fmt.Sprint(gl, gb), fmt.Sprint(wl, wb)
			case op < 93:
				what, got, want = "sweep", fmt.Sprint(tab.Sweep(at)), fmt.Sprint(model.sweep(at))
			case op < 95:
				n := r.IntN(5)
				tab.Refill(k, at, n, l)
				model.refill(k, at, n, l)
				what = fmt.Sprint("refill ", n)
			case op < 96:
				_, had := model.buckets[k]
				delete(model.buckets, k)
				what, got, want = "delete", fmt.Sprint(tab.Delete(k)), fmt.Sprint(had)
			case op < 99:
				what, got, want = "level", fmt.Sprint(tab.Level(k, at, l)), fmt.Sprint(model.level(k, at, l))
			default:
				again := NewTable(maxKeys, r.Uint64())
				rest, err := again.Restore(append(tab.AppendBinary(nil), "rest"...))
				what, got, want = "restore", fmt.Sprintf("%s %v", rest, err), "rest <nil>"
				tab = again
			}
			if got != want || tab.Len() != len(model.buckets) || tab.Evicted() != model.evicted {
				t.Fatalf("seed %d step %d %s %v %+v at %d: got %s, want %s; %d buckets, want %d; %d evicted, want %d",
					i, step, what, k, l, at, got, want, tab.Len(), len(model.buckets), tab.Evicted(), model.evicted)
			}
		}
		same(t, tab, model)
	}
}

// same compares everything the two hold.
func same(t *testing.T, tab *Table, m *modelTable) {
	t.Helper()
	seen := 0
	tab.Range(func(b Bucket) bool {
		seen++
		want, found := m.buckets[b.Key]
		if !found || b.Last != want.last || b.Empty != want.last+want.level {
			t.Fatalf("%v: got %+v, want %+v", b.Key, b, want)
		}
		return true
	})
	if seen != len(m.buckets) {
		t.Fatalf("got %d buckets, want %d", seen, len(m.buckets))
	}
}

// TestEvictionIgnoresSeed floods tables of different seeds, most buckets being
// poured within the same second, and wants the same survivors.
func TestEvictionIgnoresSeed(t *testing.T) {
	size := 20000
	if testing.Short() {
		size = 4000
	}
	lim := Limit{5, time.Minute}
	model := newModel(size)
	tabs := []*Table{NewTable(size, 1), NewTable(size, 2), NewTable(size, 0)}
	r := rand.New(rand.NewPCG(7, 7))
	for i := range 3 * size {
		k, at := v4Key(r.Uint32N(1<<20)), int64(i/size)*sec
		model.pour(k, at, 1, lim)
		for _, tab := range tabs {
			tab.Pour(k, at, 1, lim)
		}
	}
	for _, tab := range tabs {
		same(t, tab, model)
	}
	if model.evicted == 0 {
		t.Error("nothing was evicted")
	}
}

// TestFloodSparesTheFilling throws ten million prefixes at a table while one
// bucket, an event short of breach, is kept warm, and another one just was.
func TestFloodSparesTheFilling(t *testing.T) {
	const maxKeys = 1 << 17
	n := 10_000_000
	if testing.Short() {
		n = 1_000_000
	}
	tab, lim := NewTable(maxKeys, 99), Limit{5, time.Minute}
	warm, full := v4Key(0xffffffff), v4Key(0xfffffffe)
	tab.Pour(warm, 0, 5, lim)
	tab.Pour(full, 0, 5, lim)
	for i := range n {
		at := int64(i) * 60 * sec / int64(n) // all within a minute
		tab.Pour(v4Key(uint32(i)), at, 1, lim)
		if i%(n/10) == 0 && tab.Level(warm, at, lim) < 5 {
			tab.Pour(warm, at, 1, lim)
		}
		if tab.Len() > maxKeys {
			t.Fatalf("%d buckets, want at most %d", tab.Len(), maxKeys)
		}
	}
	if got := tab.Bytes(); got > maxKeys*48 {
		t.Errorf("got %d bytes, want at most %d", got, maxKeys*48)
	}
	if got := tab.Level(full, 59*sec, lim); got != 5 {
		t.Errorf("the filling bucket: got level %d, want 5", got)
	}
	if _, breached := tab.Pour(warm, 60*sec, 2, lim); !breached {
		t.Error("the bucket kept warm was pushed out")
	}
	if tab.Evicted() == 0 {
		t.Error("nothing was evicted: the test is too small")
	}
}

func TestBytesPerBucket(t *testing.T) {
	tab, lim := NewTable(1<<20, 3), Limit{5, time.Minute}
	worst := 0.0
	for i := range 300_000 {
		tab.Pour(v4Key(uint32(i)<<4), 0, 1, lim)
		if i > 1000 {
			worst = max(worst, float64(tab.Bytes())/float64(tab.Len()))
		}
	}
	if worst > 48 {
		t.Errorf("got %.1f bytes a bucket at worst, want at most 48", worst)
	}
	if got := tab.Sweep(61 * sec); got != 300_000 || tab.Len() != 0 || tab.Bytes() > 2048 {
		t.Errorf("after the sweep: swept %d, %d left in %d bytes, want all gone and the memory with them", got, tab.Len(), tab.Bytes())
	}
}

func TestDeleteWithin(t *testing.T) {
	tab, lim := NewTable(0, 5), Limit{5, time.Minute}
	keys := map[string]Key{
		"28":    KeyOf(netip.MustParsePrefix("192.0.2.16/28")),
		"other": KeyOf(netip.MustParsePrefix("192.0.2.32/28")),
		"32":    KeyOf(netip.MustParsePrefix("192.0.2.17/32")),
		"24":    KeyOf(netip.MustParsePrefix("192.0.2.0/24")),
		"pair":  KeyOfPair(netip.MustParsePrefix("192.0.2.16/28"), 1, []byte("root")),
		"text":  KeyOfText(1, []byte("root")),
		"six":   KeyOf(netip.MustParsePrefix("2001:db8::/64")),
	}
	for _, k := range keys {
		tab.Pour(k, 0, 1, lim)
	}
	if got := tab.DeleteWithin(netip.MustParsePrefix("192.0.2.20/28")); got != 3 {
		t.Errorf("got %d deleted, want 3", got)
	}
	for name, want := range map[string]int{"28": 0, "32": 0, "pair": 0, "other": 1, "24": 1, "text": 1, "six": 1} {
		if got := tab.Level(keys[name], 0, lim); got != want {
			t.Errorf("%s: got level %d, want %d", name, got, want)
		}
	}
	if got := tab.DeleteWithin(netip.Prefix{}); got != 0 {
		t.Errorf("no prefix: got %d deleted, want 0", got)
	}
}

func TestFullest(t *testing.T) {
	tab, lim := NewTable(0, 5), Limit{100, time.Minute}
	for i := range 50 {
		tab.Pour(v4Key(uint32(i)), 0, 1+i%10, lim)
	}
	got := tab.Fullest(7, 0)
	if len(got) != 7 {
		t.Fatalf("got %d, want 7", len(got))
	}
	for i, b := range got {
		want, key := int64(10), v4Key(uint32(9+10*i))
		if i >= 5 { // of the second fullest those with the largest keys are taken
			want, key = 9, v4Key(uint32(38+10*(i-5)))
		}
		if b.Empty != want*60*sec || b.Key != key {
			t.Errorf("%d: got %v %d, want %v %d", i, b.Key, b.Empty/sec/60, key, want)
		}
	}
	if got := tab.Fullest(100, 9*60*sec); len(got) != 5 {
		t.Errorf("at nine minutes: got %d, want 5", len(got))
	}
	if got := tab.Fullest(0, 0); got != nil {
		t.Errorf("of none: got %v", got)
	}
}

func TestPourDoesNotAllocate(t *testing.T) {
	tab, lim := NewTable(0, 5), Limit{5, time.Minute}
	for i := range 1000 {
		tab.Pour(v4Key(uint32(i)), 0, 1, lim)
	}
	i := uint32(0)
	if got := testing.AllocsPerRun(1000, func() { tab.Pour(v4Key(i%1000), sec, 1, lim); i++ }); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

func FuzzRestoreTable(f *testing.F) {
	tab := NewTable(0, 1)
	f.Add(tab.AppendBinary(nil))
	for i := range 20 {
		tab.Pour(v4Key(uint32(i)), sec, 1, Limit{5, time.Minute})
	}
	f.Add(tab.AppendBinary(nil))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		tab := NewTable(32, 1)
		if _, err := tab.Restore(b); err != nil {
			if tab.Len() != 0 {
				t.Errorf("after %v: %d buckets, want none", err, tab.Len())
			}
			return
		}
		if tab.Len() > 32 {
			t.Errorf("got %d buckets, want at most 32", tab.Len())
		}
		again := NewTable(32, 2)
		if rest, err := again.Restore(tab.AppendBinary(nil)); err != nil || len(rest) != 0 || again.Len() != tab.Len() {
			t.Errorf("again: %v, %d left over, %d buckets, want %d", err, len(rest), again.Len(), tab.Len())
		}
	})
}

func BenchmarkPour(b *testing.B) {
	for _, n := range []int{1000, 1 << 20} {
		b.Run(fmt.Sprint("of=", n), func(b *testing.B) {
			tab, lim := NewTable(2<<20, 1), Limit{5, time.Minute}
			keys := make([]Key, 1<<16) // picked beforehand, all over the table
			for i := range n {
				tab.Pour(v4Key(uint32(i)*16), 0, 1, lim)
			}
			r := rand.New(rand.NewPCG(1, 2))
			for i := range keys {
				keys[i] = v4Key(r.Uint32N(uint32(n)) * 16)
			}
			b.ReportAllocs()
			at := int64(0)
			for b.Loop() {
				at += 1000
				tab.Pour(keys[at/1000&(1<<16-1)], at, 1, lim)
			}
			b.ReportMetric(float64(tab.Bytes())/float64(tab.Len()), "B/bucket")
		})
	}
}

func BenchmarkPourFlood(b *testing.B) {
	tab, lim := NewTable(1<<20, 1), Limit{5, time.Minute}
	b.ReportAllocs()
	i := uint32(0)
	for b.Loop() {
		i++
		tab.Pour(v4Key(i*2654435761), int64(i)*6000/sec*sec, 1, lim)
	}
}

func ExampleTable() {
	t := NewTable(DefaultMax, 0x5eed)
	limit := Limit{Capacity: 5, Leak: time.Minute}
	k := KeyOf(netip.MustParsePrefix("192.0.2.77/28"))
	start := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	for _, after := range []time.Duration{0, 10 * time.Second, 20 * time.Second, 70 * time.Second, 75 * time.Second, 80 * time.Second, 85 * time.Second} {
		level, breached := t.Pour(k, start.Add(after).UnixNano(), 1, limit)
		fmt.Println(k, after, level, breached)
	}
	// Output:
	// 192.0.2.64/28 0s 1 false
	// 192.0.2.64/28 10s 2 false
	// 192.0.2.64/28 20s 3 false
	// 192.0.2.64/28 1m10s 3 false
	// 192.0.2.64/28 1m15s 4 false
	// 192.0.2.64/28 1m20s 5 false
	// 192.0.2.64/28 1m25s 6 true
}

// TestPoured counts the events since the bucket was last empty, apart from the
// points they weigh, over drains, moves of slots, saving and restoring.
func TestPoured(t *testing.T) {
	tab, lim, k := NewTable(1000, 1), Limit{100, time.Minute}, v4Key(7)
	seed := NewSeed(1)
	pour := func(at int64, n, weight int) { tab.PourHashed(seed.Hash(k), at, n, weight, lim) }
	for i := range uint32(300) { // others before and behind it
		tab.Pour(v4Key(1000+i), 0, 1, lim)
	}
	pour(0, 1, 3)
	pour(sec, 2, 3)
	if got, level := tab.Poured(k), tab.Level(k, sec, lim); got != 3 || level != 9 {
		t.Errorf("got %d events and %d points, want 3 and 9", got, level)
	}
	for i := range uint32(300) {
		tab.Pour(v4Key(2000+i), 0, 1, lim)
		tab.Delete(v4Key(1000 + i))
	}
	if got := tab.Poured(k); got != 3 {
		t.Errorf("after slots moved: got %d, want 3", got)
	}
	saved := tab.AppendBinary(nil)
	other := NewTable(1000, 2)
	if rest, err := other.Restore(saved); err != nil || len(rest) > 0 || other.Poured(k) != 3 {
		t.Errorf("restored: got %d, %v, want 3", other.Poured(k), err)
	}
	pour(4*60*sec, 1, 1) // some drained, not all
	if got := tab.Poured(k); got != 4 {
		t.Errorf("partly drained: got %d, want 4", got)
	}
	pour(60*60*sec, 1, 1)
	if got := tab.Poured(k); got != 1 {
		t.Errorf("after it was empty: got %d, want 1", got)
	}
	pour(60*60*sec, MaxPoured, 1)
	if got := tab.Poured(k); got != MaxPoured {
		t.Errorf("over the largest: got %d, want %d", got, MaxPoured)
	}
}

// TestRestoreVersion1 reads what was saved before events were counted apart.
func TestRestoreVersion1(t *testing.T) {
	tab, lim := NewTable(100, 1), Limit{5, time.Minute}
	tab.Pour(v4Key(7), 0, 4, lim)
	saved := tab.AppendBinary(nil)
	saved[0] = 1
	saved = saved[:len(saved)-2] // of the one bucket
	if rest, err := tab.Restore(saved); err != nil || len(rest) > 0 {
		t.Fatalf("got %d bytes left, %v", len(rest), err)
	}
	if got := tab.Level(v4Key(7), 0, lim); got != 4 {
		t.Errorf("got level %d, want 4", got)
	}
}
