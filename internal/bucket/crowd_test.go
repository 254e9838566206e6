package bucket

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// floods are sources that somebody can have, by number.
var floods = []struct {
	name   string
	stands bool // a bucket of somebody else's stays, however full the flood's are
	key    func(i int) Key
}{
	{"/64s of a /44", true, func(i int) Key { return v6Key(0x20010db8_00100000+uint64(i), 64) }},
	{"/64s of 65,536 /48s of a /32", true, func(i int) Key { return v6Key(0x20010db9_00000000|uint64(i%65536)<<16|uint64(i/65536), 64) }},
	{"a /48 each of sixteen /32s", true, func(i int) Key { return v6Key(uint64(0x20010d00+i%16)<<32|uint64(i/16%65536)<<16, 64) }},
	{"/28s of 1,024 networks of /20", true, func(i int) Key { return KeyOf(v4(uint64(20<<24|i%1024<<12|i/1024%256<<4), 28)) }},
	{"a /64 each of as many /32s", false, func(i int) Key { return v6Key(uint64(0x20010000+i)<<32, 64) }},
	{"/28s all over IPv4", false, func(i int) Key { return KeyOf(v4(uint64(uint32(i)*2654435761&^15), 28)) }},
}

func v6Key(hi uint64, n int) Key { return KeyOf(v6(hi, 0, n)) }

// TestSameLevelFlood: a bucket one event short of its breach outlives a flood
// whose buckets are all as full and were poured later, as long as the flood
// comes from networks that can be told.
func TestSameLevelFlood(t *testing.T) {
	const maxKeys = 1 << 13
	lim := Limit{5, 12 * time.Hour}
	for _, c := range floods {
		tab := NewTable(maxKeys, rand.Uint64())
		victims := []Key{v6Key(0xfd00_0001_0000_0000, 64), KeyOf(v4(198<<24|51<<16, 28)), KeyOfText(0, []byte("admin"))}
		for _, v := range victims {
			tab.Pour(v, 0, 5, lim)
		}
		for i := range 12 * maxKeys {
			tab.Pour(c.key(i), int64(i)*1000, 5, lim)
		}
		for _, v := range victims {
			if got := tab.Level(v, sec, lim); (got == 5) != c.stands {
				t.Errorf("%s: the bucket of %v holds %d", c.name, v, got)
			}
		}
		if tab.Evicted() == 0 || tab.Bytes() > maxKeys*48 {
			t.Errorf("%s: %d evicted, %d bytes", c.name, tab.Evicted(), tab.Bytes())
		}
	}
}

// TestCellsAreNoNetworks: who finds a network that meets a stranger's in a cell
// of the census cannot have the stranger's bucket taken for one of theirs.
func TestCellsAreNoNetworks(t *testing.T) {
	const maxKeys = 1 << 13
	counts := &census{cells: make([]cell, cellsFor(maxKeys))}
	stranger := slotOf(v6Key(0xfd00_0001_0000_0000, 64))
	g, _ := scales[0].network(&stranger)
	at := uint64(0)
	for n := uint64(0x20010db8_0000); ; n++ { // a /48 of a /32 that meets it
		if counts.at(n) == counts.at(g) {
			at = n << 16
			break
		}
	}
	tab, lim := NewTable(maxKeys, 1), Limit{5, 12 * time.Hour}
	tab.Pour(stranger.key(), 0, 5, lim)
	for i := range 4 * maxKeys {
		tab.Pour(v6Key(at+uint64(i), 64), int64(i), 5, lim)
	}
	if got := tab.Level(stranger.key(), sec, lim); got != 5 {
		t.Errorf("the stranger's bucket holds %d", got)
	}
}

func slotOf(k Key) slot { return slot{hi: k.hi, lo: k.lo, meta: uint64(k.tag) << spanBits} }

// TestCrowdAgainstModel is TestAgainstModel's eviction with networks of all
// sizes and kinds, and levels of all heights.
func TestCrowdAgainstModel(t *testing.T) {
	lim := Limit{5, time.Minute}
	for i := range rounds(60) {
		r := rand.New(rand.NewPCG(uint64(i), 5))
		maxKeys := 64 + r.IntN(400)
		tab, model := NewTable(maxKeys, r.Uint64()), newModel(maxKeys)
		wide := 1 + r.IntN(60)
		for step := range 4 * maxKeys {
			var k Key
			switch n := r.IntN(wide); r.IntN(6) {
			case 0:
				k = KeyOf(v4(uint64(20+n%3)<<24|uint64(n)<<12|uint64(r.IntN(64))<<4, 28))
			case 1:
				k = KeyOfText(0, fmt.Append(nil, r.IntN(1000)))
			case 2:
				k = KeyOfPair(v6(0x20010db8_00000000|uint64(n*n)<<16|uint64(r.IntN(16)), 0, 64), 1, []byte("x"))
			default:
				k = v6Key(0x20010db8_00000000|uint64(n*n*n)<<16|uint64(r.IntN(500)), 64)
			}
			at, n := int64(step)*sec/10, 1+r.IntN(5)
			tab.Pour(k, at, n, lim)
			model.pour(k, at, n, lim)
		}
		if model.evicted == 0 || tab.Evicted() != model.evicted {
			t.Fatalf("round %d: %d evicted, want %d", i, tab.Evicted(), model.evicted)
		}
		same(t, tab, model)
	}
}

// BenchmarkEviction floods a table of the default size with buckets as full as
// a stranger's, and says how many events it takes until that is gone. None:
// it is still there after four times the table.
func BenchmarkEviction(b *testing.B) {
	const maxKeys = 250_000
	lim := Limit{5, 12 * time.Hour}
	for _, c := range floods {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				tab := NewTable(maxKeys, 1)
				victim := v6Key(0xfd00_0001_0000_0000, 64)
				tab.Pour(victim, 0, 5, lim)
				events := 0
				for i := 0; i < 4*maxKeys; i++ {
					tab.Pour(c.key(i), int64(i)*1000, 5, lim)
					if events += 5; i%1024 == 0 && tab.Level(victim, int64(i)*1000, lim) == 0 {
						break
					}
				}
				if tab.Level(victim, int64(4*maxKeys)*1000, lim) > 0 {
					events = 0
				}
				b.ReportMetric(float64(events), "events/eviction")
			}
		})
	}
}
