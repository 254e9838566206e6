package firewall

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMultiDisagree: what the walls do not agree on is put right.
func TestMultiDisagree(t *testing.T) {
	prefix := netip.MustParsePrefix
	same, lacked, byHand, stray := prefix("192.0.2.0/28"), prefix("192.0.2.16/28"), prefix("192.0.2.32/28"), prefix("198.51.100.0/28")
	var want []Entry
	for _, p := range []netip.Prefix{same, lacked, byHand} {
		want = append(want, Entry{Prefix: p, Until: time.Now().Add(time.Hour)})
	}
	made := func() (a, b *DryRun, m Multi) {
		a, b = NewDryRun(), NewDryRun()
		m = Multi{a, b}
		if err := m.Block(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		delete(b.held, lacked)
		delete(a.held, byHand)
		block(t, b, stray.String(), time.Hour)
		return a, b, m
	}
	for _, intact := range []bool{true, false} {
		a, b, m := made()
		have, err := ListAll(t.Context(), m)
		if err != nil || len(have) != 4 {
			t.Fatalf("List: got %v, %v, want 4", have, err)
		}
		d := Reconcile(slices.Values(want), listing(have), intact, time.Now())
		if err := m.Block(t.Context(), append(d.Add, d.Refresh...)); err != nil {
			t.Fatal(err)
		}
		if err := m.Unblock(t.Context(), append(d.Remove, d.ByHand...)); err != nil {
			t.Fatal(err)
		}
		for _, w := range []*DryRun{a, b} {
			_, back := w.held[byHand]
			if len(w.held) != 2+famIndex(!intact) || w.held[same].Prefix != same || w.held[lacked].Prefix != lacked || back == intact {
				t.Errorf("intact %v: got %v", intact, w.held)
			}
		}
		have, _ = ListAll(t.Context(), m)
		if intact {
			want := want[:2]
			if d := Reconcile(slices.Values(want), listing(have), true, time.Now()); !d.None() {
				t.Errorf("afterwards: got %+v, want nothing", d)
			}
		}
	}
}

func TestMultiGoesOn(t *testing.T) {
	d := NewDryRun()
	cause := errors.New("the cause")
	m := Multi{&failing{DryRun: *NewDryRun(), err: cause}, d}
	err := m.Block(t.Context(), []Entry{{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Until: time.Now().Add(time.Hour)}})
	if !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	if es, _ := ListAll(t.Context(), d); len(es) != 1 {
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
	deleted := []Change{{Deleted: []netip.Prefix{p}}}
	m := Multi{&telling{changes: deleted}, NewDryRun(), &telling{changes: deleted}}
	ctx, cancel := context.WithCancel(t.Context())
	var byHand, broken int
	err := m.Watch(ctx, func(c Change) {
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
