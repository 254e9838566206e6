package held

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
)

func listing(es []firewall.Entry) *Listing {
	var l Listing
	for _, e := range es {
		l.Add(e)
	}
	return &l
}

func TestReconcile(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	e := func(i int, ttl time.Duration) firewall.Entry {
		return firewall.Entry{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i), 0}), 24), Until: now.Add(ttl)}
	}
	many := func(from, to int) (es []firewall.Entry) {
		for i := from; i < to; i++ {
			es = append(es, e(i, time.Hour))
		}
		return es
	}
	reject, ports := e(1, time.Hour), e(1, time.Hour)
	reject.Action, ports.Ports = firewall.Reject, []firewall.Ports{{Proto: "tcp", From: 22, To: 22}}
	for name, tc := range map[string]struct {
		want, have []firewall.Entry
		broken     bool
		diff       string // add, refresh, remove, by hand, flushed
	}{
		"nothing":                        {diff: "0 0 0 0 false"},
		"as it should be":                {want: many(0, 3), have: many(0, 3), diff: "0 0 0 0 false"},
		"rounded down":                   {want: []firewall.Entry{e(1, time.Hour)}, have: []firewall.Entry{e(1, time.Hour-time.Second)}, diff: "0 0 0 0 false"},
		"one deleted by hand":            {want: many(0, 3), have: many(1, 3), diff: "0 0 0 1 false"},
		"the only one deleted by hand":   {want: many(0, 1), diff: "0 0 0 1 false"},
		"one of two deleted by hand":     {want: many(0, 2), have: many(0, 1), diff: "0 0 0 1 false"},
		"all of two gone":                {want: many(0, 2), diff: "2 0 0 0 true"},
		"some of many gone":              {want: many(0, 30), have: many(0, 20), diff: "0 0 0 10 false"},
		"some of many flushed":           {want: many(0, 30), have: many(0, 20), broken: true, diff: "10 0 0 0 true"},
		"the only one, and the table":    {want: many(0, 1), broken: true, diff: "1 0 0 0 true"},
		"half, and the table":            {want: many(0, 3), have: many(0, 2), broken: true, diff: "1 0 0 0 true"},
		"broken, and nothing missing":    {want: many(0, 3), have: many(0, 3), broken: true, diff: "0 0 0 0 false"},
		"too much":                       {want: many(0, 1), have: many(0, 3), diff: "0 0 2 0 false"},
		"too short":                      {want: []firewall.Entry{e(1, 2*time.Hour)}, have: []firewall.Entry{e(1, time.Hour)}, diff: "0 1 0 0 false"},
		"too long":                       {want: []firewall.Entry{e(1, time.Hour)}, have: []firewall.Entry{e(1, 2*time.Hour)}, diff: "0 1 0 0 false"},
		"another action":                 {want: []firewall.Entry{e(1, time.Hour)}, have: []firewall.Entry{reject}, diff: "0 1 0 0 false"},
		"other ports":                    {want: []firewall.Entry{ports}, have: []firewall.Entry{e(1, time.Hour)}, diff: "0 1 0 0 false"},
		"about to end, and gone":         {want: []firewall.Entry{e(1, time.Second)}, diff: "0 0 0 0 false"},
		"about to end, and there":        {want: []firewall.Entry{e(1, time.Second)}, have: []firewall.Entry{e(1, time.Second)}, diff: "0 0 0 0 false"},
		"ended, and still in hosts.deny": {want: nil, have: []firewall.Entry{e(1, time.Hour)}, diff: "0 0 1 0 false"},
	} {
		d := Compare(slices.Values(tc.want), listing(tc.have), !tc.broken, now)
		got := fmt.Sprint(len(d.Add), len(d.Refresh), len(d.Remove), len(d.ByHand), d.Flushed)
		if got != tc.diff {
			t.Errorf("%s: got %s, want %s", name, got, tc.diff)
		}
		if d.None() != (tc.diff == "0 0 0 0 false") {
			t.Errorf("%s: None: got %v", name, d.None())
		}
	}
}

// TestReconcileHeals: doing what a diff says leaves nothing to do.
func TestReconcileHeals(t *testing.T) {
	now := time.Now()
	want := []firewall.Entry{
		{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Until: now.Add(time.Hour)},
		{Prefix: netip.MustParsePrefix("2001:db8::/64"), Until: now.Add(time.Hour), Action: firewall.Reject},
	}
	w := firewall.NewDryRun()
	firewalltest.Block(t, w, "198.51.100.0/28", time.Hour)
	have, _ := firewall.ListAll(t.Context(), w)
	d := Compare(slices.Values(want), listing(have), true, now)
	if err := w.Block(t.Context(), append(d.Add, d.Refresh...)); err != nil {
		t.Fatal(err)
	}
	if err := w.Unblock(t.Context(), d.Remove); err != nil {
		t.Fatal(err)
	}
	have, _ = firewall.ListAll(t.Context(), w)
	if d := Compare(slices.Values(want), listing(have), true, now); !d.None() {
		t.Errorf("got %+v, want nothing", d)
	}
}

func BenchmarkReconcile100000(b *testing.B) {
	now := time.Now()
	es := make([]firewall.Entry, 100_000)
	for i := range es {
		es[i] = firewall.Entry{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{20, byte(i >> 16), byte(i >> 8), byte(i)}), 32), Until: now.Add(time.Hour)}
	}
	for b.Loop() {
		if d := Compare(slices.Values(es), listing(es), true, now); !d.None() {
			b.Fatal(d)
		}
	}
}
