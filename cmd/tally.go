package cmd

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"stoplog/internal/control"
)

// tally is what a report counts: the shape of `report --json`.
type tally struct {
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until"`
	Entries int       `json:"entries"` // of the audit trail
	// Partial: older entries of the time asked for were not looked at.
	Partial  bool       `json:"partial,omitempty"`
	Blocks   int        `json:"blocks"`
	ByHand   int        `json:"by_hand"` // blocks ordered by people
	Days     []dayCount `json:"days"`    // the oldest first, quiet ones too
	Hours    [24]int    `json:"hours"`   // blocks by hour of the day
	Rules    []count    `json:"rules"`   // the most blocks first, as are the next two
	Prefixes []count    `json:"prefixes"`
	Networks []count    `json:"networks"` // /16 and /32: what registries hand out
}

type dayCount struct {
	Day      string `json:"day"`
	Blocks   int    `json:"blocks"`
	Unblocks int    `json:"unblocks"`
	Told     int    `json:"told"` // breaches that block nothing
}

// count is how often something was blocked.
type count struct {
	Name     string    `json:"name"`
	Blocks   int       `json:"blocks"`
	Prefixes int       `json:"prefixes,omitempty"` // different ones
	Events   int       `json:"events"`             // that filled the buckets
	Last     time.Time `json:"last"`

	seen map[string]bool
}

// counts are bounded: past the bound what is new is not counted apart.
type counts struct {
	m map[string]*count
}

const maxCounts = 100_000

func (c *counts) add(name string, a control.AuditEntry) {
	if c.m == nil {
		c.m = map[string]*count{}
	}
	x := c.m[name]
	if x == nil {
		if len(c.m) >= maxCounts {
			return
		}
		x = &count{Name: name, seen: map[string]bool{}}
		c.m[name] = x
	}
	x.Blocks++
	x.Events += a.Count
	x.seen[a.Prefix] = true
	x.Prefixes = len(x.seen)
	if a.Time.After(x.Last) {
		x.Last = a.Time
	}
}

// top gives the most n, by blocks, then by events, then by name.
func (c *counts) top(n int) []count {
	out := make([]count, 0, len(c.m))
	for _, x := range c.m {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b count) int {
		return cmp.Or(cmp.Compare(b.Blocks, a.Blocks), cmp.Compare(b.Events, a.Events), cmp.Compare(a.Name, b.Name))
	})
	return out[:min(n, len(out))]
}

// countAudit makes the report of entries between since and until; days are
// those of zone, and tables have at most n rows.
func countAudit(as []control.AuditEntry, since, until time.Time, zone *time.Location, n int) tally {
	t := tally{Since: since.UTC(), Until: until.UTC(), Days: []dayCount{}}
	index := map[string]int{}
	for d := since.In(zone); ; d = time.Date(d.Year(), d.Month(), d.Day()+1, 0, 0, 0, 0, zone) {
		if d.After(until) {
			break
		}
		day := d.Format(time.DateOnly)
		index[day] = len(t.Days)
		t.Days = append(t.Days, dayCount{Day: day})
	}
	var rules, prefixes, networks counts
	for _, a := range as {
		at := a.Time.In(zone)
		i, ok := index[at.Format(time.DateOnly)]
		if !ok || a.Time.Before(since) || a.Time.After(until) {
			continue
		}
		t.Entries++
		switch a.What {
		case "unblock":
			t.Days[i].Unblocks++
		case "tell":
			t.Days[i].Told++
		case "block":
			t.Days[i].Blocks++
			t.Blocks++
			t.Hours[at.Hour()]++
			rule := a.Rule
			if rule == "" {
				rule = "by hand"
				t.ByHand++
			}
			rules.add(rule, a)
			prefixes.add(a.Prefix, a)
			networks.add(networkOf(a.Prefix), a)
		}
	}
	t.Rules, t.Prefixes, t.Networks = rules.top(n), prefixes.top(n), networks.top(n)
	return t
}

// networkOf is the /16 or /32 around a prefix, or itself when it is wider.
func networkOf(prefix string) string {
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		return "unknown"
	}
	bits := 16
	if p.Addr().Is6() {
		bits = 32
	}
	if p.Bits() <= bits {
		return p.String()
	}
	return netip.PrefixFrom(p.Addr(), bits).Masked().String()
}
