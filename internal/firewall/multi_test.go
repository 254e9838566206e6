package firewall

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestMultiListsStrays(t *testing.T) {
	a, b := NewDryRun(), NewDryRun()
	m := Multi{a, b}
	block(t, m, "192.0.2.0/28", time.Hour)
	block(t, b, "198.51.100.0/28", time.Hour)
	block(t, b, "192.0.2.0/28", 2*time.Hour)
	es, err := m.List(t.Context())
	if err != nil || len(es) != 2 {
		t.Fatalf("got %v, %v, want two", es, err)
	}
	for _, e := range es {
		if e.Prefix.String() == "192.0.2.0/28" && time.Until(e.Until) > 90*time.Minute {
			t.Errorf("got the second wall's end of %s", e.Prefix)
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
	if es, _ := d.List(t.Context()); len(es) != 1 {
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
