package detect

import (
	"hash/crc32"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"stoplog/internal/bucket"
	"stoplog/internal/rules"
)

// counter is a rule at work.
type counter struct {
	rule   *rules.Rule
	scope  uint32 // of its evidence: 24 bits of its name's sum, the same in every run
	levels []level
	byUser bool // its key names a user
	texts  bool // its key is more than a prefix or an address
	plain  bool // its key is a prefix or an address and no more: by
	by     rules.KeyPart
	source bool // its key names the source
	acts   bool // an answer closes something, or raises a flag that others heed

	wide bool // a level counts the sources of networks

	matched, poured, breached uint64
}

// level is one way to count at work: exactly one of table, window and
// distinct is there, none for a trigger.
type level struct {
	rules.Level
	base     string // what it counts; several levels may count the same
	meaning  string // base, and what tells it from others of it
	limit    bucket.Limit
	table    *bucket.Table
	parts    *bucket.Table // what single accounts poured, for clears
	window   *bucket.Window
	distinct *bucket.Distinct
	answers  []Answer
	blocks   bool // one of the answers blocks the key's own prefix
	hush     int64
	// each is how often a contributor must have come up, 0: none is blocked.
	each             int
	onlyContributors bool // there is no other answer
}

// valuesPerKey is how many values of one key a distinct window tells apart.
const valuesPerKey = 1024

func newCounters(set *rules.Set, seed uint64) []*counter {
	out := make([]*counter, len(set.Rules))
	for i, r := range set.Rules {
		out[i] = newCounter(set, r, seed)
	}
	return out
}

func newCounter(set *rules.Set, r *rules.Rule, seed uint64) *counter {
	c := &counter{rule: r, scope: crc32.ChecksumIEEE([]byte(r.Name)) >> 8, byUser: r.Key.Has(rules.ByUser)}
	for _, p := range r.Key {
		c.texts = c.texts || p.By != rules.ByPrefix && p.By != rules.ByAddr
	}
	c.source = r.Key.HasSource()
	if c.plain = len(r.Key) == 1 && c.source; c.plain {
		c.by = r.Key[0].By
	}
	c.levels = make([]level, len(r.Levels))
	for i := range r.Levels {
		c.levels[i] = newLevel(set, r, &r.Levels[i], seed)
		c.wide = c.wide || r.Levels[i].Wide()
		for _, a := range r.Levels[i].Then {
			c.acts = c.acts || !r.Observe && a.Kind != rules.Observe && a.Kind != rules.Tell && a.Kind != rules.Exec
		}
	}
	c.tellApart()
	return c
}

// tellApart gives the levels that count the same, each with its own room, names
// of their own: their meaning and their room.
func (c *counter) tellApart() {
	of, taken := map[string]int{}, map[string]bool{}
	for i := range c.levels {
		of[c.levels[i].base]++
	}
	for i := range c.levels {
		l := &c.levels[i]
		if of[l.base] > 1 {
			l.meaning = l.base + twin + strconv.Itoa(l.Capacity+l.Over)
		}
		for taken[l.meaning] { // even the room is the same
			l.meaning += twin + "0"
		}
		taken[l.meaning] = true
	}
}

// twin stands between a meaning and what tells levels of it apart.
const twin = " #"

// before finds what l goes on with among old levels by their meanings: itself,
// or else the one of its meaning with most room, which knows what all of them
// have counted. own says which.
func before[T any](l *level, old map[string]T) (o T, own, found bool) {
	if o, found = old[l.meaning]; found {
		return o, true, true
	}
	if o, found = old[l.base]; found {
		return o, false, true
	}
	most := -1
	for m, v := range old {
		rest, is := strings.CutPrefix(m, l.base+twin)
		if room, err := strconv.Atoi(rest); is && err == nil && room > most {
			o, most, found = v, room, true
		}
	}
	return o, false, found
}

func newLevel(set *rules.Set, r *rules.Rule, rl *rules.Level, seed uint64) level {
	l := level{Level: *rl, meaning: r.Meaning(rl), base: r.Meaning(rl)}
	l.answers, l.blocks = answersOf(r, rl)
	l.hush = hushOf(set, r, &l)
	for _, a := range rl.Then {
		if a.Kind == rules.BlockContributors {
			l.each = max(a.Each, 1)
		}
	}
	l.onlyContributors = l.each > 0 && len(rl.Then) == 1
	switch rl.Kind {
	case rules.Bucket:
		l.limit = bucket.Limit{Capacity: rl.Capacity, Leak: rl.Leak}
		l.table = newTable(set, seed)
		if r.Clears {
			l.parts = newTable(set, seed)
		}
	case rules.Window:
		l.window = bucket.NewWindow(0, 0)
	case rules.Distinct:
		if rl.Wide() {
			l.distinct = newWide(set, rl)
			break
		}
		// A rule that tells contributors needs to remember more than breach, and
		// a known-good source has more room.
		l.distinct = bucket.NewDistinct(max(valuesPerKey, namesRoom*(mostOver(set, rl.Over)+1)), 0, 0)
	}
	return l
}

// mostOver is the most room that a window has in any network.
func mostOver(set *rules.Set, over int) int {
	most := over
	for i := range set.Networks {
		most = max(most, set.Networks[i].Holds(over))
	}
	return min(most, bucket.MaxCount)
}

func newTable(set *rules.Set, seed uint64) *bucket.Table {
	t := bucket.NewTable(set.Limits.Buckets, seed)
	t.SweepLate(time.Duration(lateness))
	return t
}

func (c *counter) forget(p netip.Prefix) {
	for i := range c.levels {
		l := &c.levels[i]
		if l.table != nil {
			l.table.DeleteWithin(p)
		}
		if l.parts != nil {
			forgetParts(l.parts, p)
		}
		if l.window != nil {
			l.window.DeleteWithin(p)
		}
		if l.distinct != nil {
			l.distinct.DeleteWithin(p)
		}
	}
}

func (l *level) sweep(at int64) {
	if l.table != nil {
		l.table.Sweep(at)
	}
	if l.parts != nil {
		l.parts.Sweep(at)
	}
	if l.window != nil {
		l.window.Sweep(at, l.rolling(l.Over))
	}
	if l.distinct != nil {
		l.distinct.Sweep(at, l.spread(l.Over))
	}
}

// rolling breaches at the latest at the most that a window counts.
func (l *level) rolling(over int) bucket.Rolling {
	if l.First {
		over = 1 // to tell one event from more
	}
	return bucket.Rolling{Count: min(over, bucket.MaxCount-1), Within: l.Within}
}

// spread breaches at the latest when there are as many values as can be told
// apart, however much room was asked for.
func (l *level) spread(over int) bucket.Spread {
	return bucket.Spread{Over: min(over, l.distinct.Cap()-1), Within: l.Within}
}

// drain is how long a full level takes to be empty.
func (l *level) drain() time.Duration {
	if l.Kind == rules.Bucket {
		return time.Duration(min(int64(l.Capacity+1), int64(bucket.MaxSpan)/int64(max(l.Leak, 1)))) * l.Leak
	}
	return l.Within
}
