// Package trend counts what the rules and services did, in bins of a minute, an
// hour and a day. Memory is bounded, whatever the names and however long it
// runs; it reads no clock.
package trend

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"
)

// Unit is the length of a bin.
type Unit uint8

// The units, and how many bins of each are kept: a day of minutes, 40 days of
// hours, 400 days.
const (
	Minute Unit = iota
	Hour
	Day
)

var kept = [...]int{Minute: 24 * 60, Hour: 40 * 24, Day: 400}

// Length is the time that one bin covers. Days are those of UTC.
func (u Unit) Length() time.Duration {
	return [...]time.Duration{time.Minute, time.Hour, 24 * time.Hour}[u]
}

// Kept is how many bins there are, the running one included.
func (u Unit) Kept() int { return kept[u] }

// Kind is what a series counts.
type Kind uint8

// The kinds: everything together, one rule, one service.
const (
	All Kind = iota
	Rule
	Service
	kinds
)

// Series is what is counted apart. The name of All is empty.
type Series struct {
	Kind Kind
	Name string
}

const (
	// maxSeries bounds the names of one kind; what comes after counts as Other.
	maxSeries = 48
	maxName   = 128
	// Other is the name that stands for all the others.
	Other = "others"
)

// Count is what happened in one bin. Lines are counted of All only.
type Count struct {
	Lines, Events, Breaches, Blocks uint32
}

func (c *Count) add(d Count) {
	sum := func(a *uint32, b uint32) { *a = uint32(min(uint64(*a)+uint64(b), math.MaxUint32)) }
	sum(&c.Lines, d.Lines)
	sum(&c.Events, d.Events)
	sum(&c.Breaches, d.Breaches)
	sum(&c.Blocks, d.Blocks)
}

type entry struct {
	series uint8 // index in Trend.series
	Count
}

type bin struct {
	no      int64 // Unix time in units; the place is reused after kept bins
	entries []entry
}

// Trend holds the counts. One goroutine uses it. The zero value is ready.
type Trend struct {
	series []Series
	rings  [len(kept)][]bin
}

// Add counts c for s at now, in all three units.
func (t *Trend) Add(now time.Time, s Series, c Count) {
	if c == (Count{}) {
		return
	}
	id := t.id(s, now)
	for u := range t.rings {
		t.at(Unit(u), number(Unit(u), now)).add(id, c)
	}
}

// at returns the bin of that number, emptied when it held another one.
func (t *Trend) at(u Unit, no int64) *bin {
	if t.rings[u] == nil {
		t.rings[u] = make([]bin, kept[u])
	}
	b := &t.rings[u][place(u, no)]
	if b.no != no {
		*b = bin{no: no}
	}
	return b
}

func place(u Unit, no int64) int64 {
	n := int64(kept[u])
	return (no%n + n) % n
}

func (b *bin) add(id uint8, c Count) {
	for i := range b.entries {
		if b.entries[i].series == id {
			b.entries[i].add(c)
			return
		}
	}
	b.entries = append(b.entries, entry{id, c})
}

// id is the index of s, or of the series of all others.
func (t *Trend) id(s Series, now time.Time) uint8 {
	if len(s.Name) > maxName {
		s.Name = s.Name[:maxName]
	}
	if i := slices.Index(t.series, s); i >= 0 {
		return uint8(i)
	}
	same := 0
	for _, x := range t.series {
		if x.Kind == s.Kind && x.Name != Other {
			same++
		}
	}
	if same >= maxSeries {
		if i := t.unused(s.Kind, now); i >= 0 {
			t.series[i] = s
			return uint8(i)
		}
		s.Name = Other
		if i := slices.Index(t.series, s); i >= 0 {
			return uint8(i)
		}
	}
	t.series = append(t.series, s)
	return uint8(len(t.series) - 1)
}

// unused is the index of a series of that kind that no bin of the time kept
// before now counts, or -1. It empties older bins.
func (t *Trend) unused(k Kind, now time.Time) int {
	used := make([]bool, len(t.series))
	for u, ring := range t.rings {
		oldest := number(Unit(u), now) - int64(kept[u])
		for i := range ring {
			if ring[i].no <= oldest {
				ring[i] = bin{}
			}
			for _, e := range ring[i].entries {
				used[e.series] = true
			}
		}
	}
	for i, s := range t.series {
		if s.Kind == k && s.Name != Other && !used[i] {
			return i
		}
	}
	return -1
}

// number is that of the bin that t lies in.
func number(u Unit, t time.Time) int64 { return t.Unix() / int64(u.Length()/time.Second) }

// Read calls f for each count of a kind in the n bins of u that begin at the
// bin of from: with its index among them and its series.
func (t *Trend) Read(u Unit, k Kind, from time.Time, n int, f func(i int, s Series, c Count)) {
	if t.rings[u] == nil {
		return
	}
	first := number(u, from)
	for i := range min(n, kept[u]) {
		b := &t.rings[u][place(u, first+int64(i))]
		if b.no != first+int64(i) {
			continue
		}
		for _, e := range b.entries {
			if s := t.series[e.series]; s.Kind == k {
				f(i, s, e.Count)
			}
		}
	}
}

const version = 1

// AppendBinary appends all counts to b.
func (t *Trend) AppendBinary(b []byte) []byte {
	b = append(b, version, byte(len(t.series)))
	for _, s := range t.series {
		b = append(b, byte(s.Kind), byte(len(s.Name)))
		b = append(b, s.Name...)
	}
	for _, ring := range t.rings {
		full := 0
		for _, x := range ring {
			if len(x.entries) > 0 {
				full++
			}
		}
		b = binary.AppendUvarint(b, uint64(full))
		for _, x := range ring {
			if len(x.entries) == 0 {
				continue
			}
			b = binary.AppendVarint(b, x.no)
			b = append(b, byte(len(x.entries)))
			for _, e := range x.entries {
				b = append(b, e.series)
				for _, n := range [...]uint32{e.Lines, e.Events, e.Breaches, e.Blocks} {
					b = binary.AppendUvarint(b, uint64(n))
				}
			}
		}
	}
	return b
}

var errCorrupt = errors.New("the counts of the charts are corrupt or of another version")

// Restore replaces all counts by those of AppendBinary. After an error there
// are none.
func (t *Trend) Restore(b []byte) error {
	*t = Trend{}
	r := reader{b: b}
	if r.byte() != version {
		return errCorrupt
	}
	var fresh Trend
	for range r.byte() {
		s := Series{Kind: Kind(r.byte())}
		s.Name = string(r.take(int(r.byte())))
		if r.bad || s.Kind >= kinds || len(s.Name) > maxName || len(fresh.series) >= int(kinds)*(maxSeries+1) || slices.Contains(fresh.series, s) {
			return errCorrupt
		}
		fresh.series = append(fresh.series, s)
	}
	for u := range fresh.rings {
		full := r.uvarint(uint64(kept[u]))
		for range full {
			x := fresh.at(Unit(u), r.varint())
			for range r.byte() {
				e := entry{series: r.byte()}
				for _, n := range [...]*uint32{&e.Lines, &e.Events, &e.Breaches, &e.Blocks} {
					*n = uint32(r.uvarint(math.MaxUint32))
				}
				if r.bad || int(e.series) >= len(fresh.series) {
					return errCorrupt
				}
				x.add(e.series, e.Count)
			}
		}
	}
	if r.bad || len(r.b) > 0 {
		return errCorrupt
	}
	*t = fresh
	return nil
}

// reader takes numbers from b; bad says that one was missing or too large.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uvarint(most uint64) uint64 {
	n, w := binary.Uvarint(r.b)
	if w <= 0 || n > most {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[w:]
	return n
}

func (r *reader) varint() int64 {
	n, w := binary.Varint(r.b)
	if w <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[w:]
	return n
}
