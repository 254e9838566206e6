package tune

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"stoplog/internal/addr"
	"stoplog/internal/parse"
	"stoplog/internal/rules"
)

// Share of the time by which settings are chosen; the rest judges the choice.
const firstShare = 0.7

// data is all that is known of a log, for one rule.
type data struct {
	tables
	events []event
	seq    []uint32 // the place of each event in the log; nil: as they stand
	set    *rules.Set
	rule   *rules.Rule // under study
	beside []*rules.Rule
	web    bool
	// The time: all but the hundredth of the events at either end lies between
	// begin and end. From split on is the rest.
	begin, end, split int64
}

// Labels counts what sources were taken for.
type Labels struct {
	Sources   int `json:"sources"`
	Attackers int `json:"attackers"`
	Good      int `json:"good"`
	GoodFirst int `json:"good_first"` // by the first part of the time alone
	// GoodFailed are those of them that failed at least once: only they show what
	// honest people do.
	GoodFailed int `json:"good_failed"`
	Neither    int `json:"neither"`
}

// settle finds the time of the log and labels the sources, those within named as
// good. Then it drops the sources that can have nothing to do with the rule: those
// of networks in which it matches no event.
func (d *data) settle(lens rules.Lens, named []netip.Prefix) Labels {
	var ev parse.Event
	nets := make([]netip.Prefix, len(d.sources)) // the widest of all settings
	hit := map[netip.Prefix]struct{}{}
	for i := range nets {
		nets[i] = networkOf(d.set, lens, d.sources[i].addr)
	}
	for i := range d.events {
		if e := &d.events[i]; d.matches(e, &ev) {
			hit[nets[e.src]] = struct{}{}
			d.web = d.web || e.rec != 0 && len(d.records[e.rec].Method) > 0
		}
	}
	d.findSplit()
	n := d.label(named)
	wanted := make([]bool, len(d.sources))
	for i := range wanted {
		_, wanted[i] = hit[nets[i]]
	}
	d.events = slices.DeleteFunc(d.events, func(e event) bool { return !wanted[e.src] })
	return n
}

// findSplit sets the time's bounds. A clock that jumps moves some events far
// away: they decide on nothing here.
func (d *data) findSplit() {
	if len(d.events) == 0 {
		return
	}
	step := max(len(d.events)/100_000, 1)
	var at []int64
	for i := 0; i < len(d.events); i += step {
		at = append(at, d.events[i].at)
	}
	slices.Sort(at)
	d.begin, d.end = at[len(at)/100], at[len(at)-1-len(at)/100]
	d.split = d.begin + int64(firstShare*float64(d.end-d.begin)) + 1
}

// record is what one source did in some part of the time.
type record struct{ logins, failures, pages, others uint32 }

// attacker and good are the labels, which the documentation explains.
func (r *record) attacker(web bool) bool {
	if web {
		return r.others > 0 && !r.good(web)
	}
	return r.failures > 0 && r.logins == 0
}

func (r *record) good(web bool) bool {
	if web {
		return r.pages > r.others
	}
	return r.logins > 0 && r.failures <= 3*r.logins+10
}

// label says of each source what it is taken for. Sources within named are good.
func (d *data) label(named []netip.Prefix) Labels {
	first, all := make([]record, len(d.sources)), make([]record, len(d.sources))
	var ev parse.Event
	seen := make([]bool, len(d.sources))
	for i := range d.events {
		e := &d.events[i]
		seen[e.src] = true
		d.count(&all[e.src], e, &ev)
		if e.at < d.split {
			d.count(&first[e.src], e, &ev)
		}
	}
	var n Labels
	for i := range d.sources {
		s := &d.sources[i]
		s.label = 0
		if !seen[i] {
			continue
		}
		n.Sources++
		a := addr.Of(s.addr)
		if slices.ContainsFunc(named, func(p netip.Prefix) bool { return p.Contains(a) }) {
			s.label = goodFirst | goodAll | namedGood
			n.Good++
			n.GoodFirst++
			if first[i].failures+first[i].others > 0 {
				n.GoodFailed++
			}
			continue
		}
		if first[i].attacker(d.web) {
			s.label |= attackerFirst
		}
		if first[i].good(d.web) {
			s.label |= goodFirst
			n.GoodFirst++
			if first[i].failures+first[i].others > 0 {
				n.GoodFailed++
			}
		}
		switch {
		case all[i].attacker(d.web):
			s.label |= attackerAll
			n.Attackers++
		case all[i].good(d.web):
			s.label |= goodAll
			n.Good++
		default:
			n.Neither++
		}
	}
	return n
}

func (d *data) count(r *record, e *event, ev *parse.Event) {
	n := max(uint32(e.count), 1)
	if e.rec != 0 && len(d.records[e.rec].Method) > 0 {
		if isPage(&d.records[e.rec]) && !d.matches(e, ev) {
			r.pages++
		} else {
			r.others += n
		}
		return
	}
	switch d.classes[e.class].proto.Outcome {
	case parse.Success:
		r.logins++
	case parse.Failure:
		r.failures += n
	default:
		if d.matches(e, ev) {
			r.failures += n
		}
	}
}

// partner reports whether r can be run beside the rule under study, network by
// network; why it cannot, otherwise. "" and false: it has nothing to do with it.
func partner(r, study *rules.Rule) (ok bool, why string) {
	switch {
	case r.Observe:
		return false, ""
	case !share(r, study):
		return false, ""
	case !r.Key.HasSource():
		return false, fmt.Sprintf("counts by %s", r.Key)
	}
	return true, ""
}

func share(a, b *rules.Rule) bool {
	if len(a.Match.Services) == 0 || len(b.Match.Services) == 0 || a.Match.Except || b.Match.Except {
		return true
	}
	return slices.ContainsFunc(a.Match.Services, func(s string) bool { return slices.Contains(b.Match.Services, s) })
}

func pct(part, whole int) string {
	if whole == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(part)/float64(whole))
}

// clampTime keeps instants within what a page can show.
func clampTime(at int64) time.Time { return time.Unix(0, cmp.Or(at, 1)).UTC() }
