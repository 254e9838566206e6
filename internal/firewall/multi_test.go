package firewall_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/firewall/held"
)

// TestMultiDisagree: what the walls do not agree on is put right.
func TestMultiDisagree(t *testing.T) {
	prefix := netip.MustParsePrefix
	same, lacked, byHand, stray := prefix("192.0.2.0/28"), prefix("192.0.2.16/28"), prefix("192.0.2.32/28"), prefix("198.51.100.0/28")
	var want []firewall.Entry
	for _, p := range []netip.Prefix{same, lacked, byHand} {
		want = append(want, firewall.Entry{Prefix: p, Until: time.Now().Add(time.Hour)})
	}
	made := func() (a, b *firewall.DryRun, m firewall.Multi) {
		a, b = firewall.NewDryRun(), firewall.NewDryRun()
		m = firewall.Multi{a, b}
		if err := m.Block(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		unblock(t, b, lacked)
		unblock(t, a, byHand)
		firewalltest.Block(t, b, stray.String(), time.Hour)
		return a, b, m
	}
	for _, intact := range []bool{true, false} {
		a, b, m := made()
		have, err := firewall.ListAll(t.Context(), m)
		if err != nil || len(have) != 4 {
			t.Fatalf("List: got %v, %v, want 4", have, err)
		}
		d := held.Compare(slices.Values(want), listing(have), intact, time.Now())
		if err := m.Block(t.Context(), append(d.Add, d.Refresh...)); err != nil {
			t.Fatal(err)
		}
		if err := m.Unblock(t.Context(), append(d.Remove, d.ByHand...)); err != nil {
			t.Fatal(err)
		}
		left := 2
		if !intact {
			left++ // put back, not taken for deleted
		}
		for _, w := range []*firewall.DryRun{a, b} {
			got := firewalltest.List(t, w)
			has := func(p netip.Prefix) bool { return slices.Contains(got, p.String()) }
			if len(got) != left || !has(same) || !has(lacked) || has(byHand) == intact {
				t.Errorf("intact %v: got %v", intact, got)
			}
		}
		have, _ = firewall.ListAll(t.Context(), m)
		if intact {
			want := want[:2]
			if d := held.Compare(slices.Values(want), listing(have), true, time.Now()); !d.None() {
				t.Errorf("afterwards: got %+v, want nothing", d)
			}
		}
	}
}

func TestMultiGoesOn(t *testing.T) {
	d := firewall.NewDryRun()
	cause := errors.New("the cause")
	m := firewall.Multi{&firewalltest.Failing{DryRun: *firewall.NewDryRun(), Err: cause}, d}
	err := m.Block(t.Context(), []firewall.Entry{{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Until: time.Now().Add(time.Hour)}})
	if !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	if es, _ := firewall.ListAll(t.Context(), d); len(es) != 1 {
		t.Errorf("the second wall holds %v, want the block", es)
	}
	if err := m.Check(t.Context()); !errors.Is(err, cause) {
		t.Errorf("Check: got %v", err)
	}
	if got := m.Name(); got != "dry-run+dry-run" {
		t.Errorf("Name: got %q", got)
	}
}

func TestMultiWatch(t *testing.T) {
	p := netip.MustParsePrefix("192.0.2.0/28")
	deleted := []firewall.Change{{Deleted: []netip.Prefix{p}}}
	m := firewall.Multi{&firewalltest.Telling{Changes: deleted}, firewall.NewDryRun(), &firewalltest.Telling{Changes: deleted}}
	ctx, cancel := context.WithCancel(t.Context())
	var byHand, broken int
	err := m.Watch(ctx, func(c firewall.Change) {
		if c.Broken {
			broken++
		} else {
			byHand++
		}
		if byHand+broken == 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || byHand != 1 || broken != 1 {
		t.Errorf("got %d by hand, %d broken, %v, want one of each", byHand, broken, err)
	}
	if n := m.Notes(); len(n) != 4 || !strings.HasPrefix(n[0], "telling: ") {
		t.Errorf("Notes: got %q", n)
	}
}

func unblock(t *testing.T, w firewall.Backend, p netip.Prefix) {
	t.Helper()
	if err := w.Unblock(t.Context(), []netip.Prefix{p}); err != nil {
		t.Fatal(err)
	}
}

func listing(es []firewall.Entry) *held.Listing {
	var l held.Listing
	for _, e := range es {
		l.Add(e)
	}
	return &l
}
