package nft_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/firewall/nft"
)

func TestNFTablesWatch(t *testing.T) {
	firewalltest.NeedPrograms(t, "nft")
	if !firewalltest.InNamespace(t) {
		return
	}
	w := firewalltest.Must(nft.New(firewall.Options{}))(t)
	defer w.Close()
	if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	changes, done := make(chan firewall.Change), make(chan error, 1)
	go func() { done <- w.Watch(ctx, func(c firewall.Change) { changes <- c }) }()
	// Watching begins some time after; others' changes until then are unseen.
	sign := func() { firewalltest.Output(t, "nft", "add chain inet stoplog sign; delete chain inet stoplog sign") }
	for begun := false; !begun; {
		sign()
		select {
		case <-changes:
			begun = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	drain(changes)
	next := func(doing string) firewall.Change {
		t.Helper()
		select {
		case c := <-changes:
			return c
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: not told", doing)
			return firewall.Change{}
		}
	}
	es := []firewall.Entry{
		firewalltest.Entry("192.0.2.0/28", time.Hour), firewalltest.Entry("192.0.2.16/28", time.Hour), firewalltest.Entry("192.0.2.32/28", time.Hour),
		firewalltest.Entry("2001:db8::/64", time.Hour),
	}
	for range 2 { // ours, and its refresh, are not told
		if err := w.Block(t.Context(), es); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Unblock(t.Context(), []netip.Prefix{es[2].Prefix}); err != nil {
		t.Fatal(err)
	}
	firewalltest.Output(t, "nft", "delete element inet stoplog v6.64.drop { 2001:db8:: }")
	if c := next("one deleted"); c.Broken || len(c.Deleted) != 1 || c.Deleted[0] != es[3].Prefix {
		t.Errorf("one deleted by hand: got %+v", c)
	}
	firewalltest.Output(t, "nft", "flush set inet stoplog v4.28.drop")
	if c := next("set flushed"); !c.Broken {
		t.Errorf("set flushed: got %+v", c)
	}
	firewalltest.Output(t, "nft", "add table inet other; add set inet other s { type ipv4_addr; elements = { 192.0.2.1 } ; }; delete table inet other")
	firewalltest.Output(t, "nft", "flush ruleset")
	if c := next("ruleset flushed"); !c.Broken {
		t.Errorf("ruleset flushed: got %+v", c)
	}
	if err := w.Block(t.Context(), es); !errors.Is(err, firewall.ErrBroken) {
		t.Errorf("Block into nothing: got %v, want ErrBroken", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch: got %v", err)
	}
}

// drain takes what is there.
func drain(changes chan firewall.Change) {
	for {
		select {
		case <-changes:
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
}

// TestNFTablesOptionsChange: a table that a stoplog with other options left is
// taken over.
func TestNFTablesOptionsChange(t *testing.T) {
	firewalltest.NeedPrograms(t, "nft")
	firewalltest.Namespace(t)
	e := firewalltest.Entry("192.0.2.0/28", time.Hour)
	for i, o := range []firewall.Options{{}, {MaxSet: 50}, {Forward: true, Slow: 7}, {Hook: firewall.HookPrerouting}, {Hook: firewall.HookRaw}, {}} {
		w := firewalltest.Must(nft.New(o))(t)
		if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		if i == 0 {
			if err := w.Block(t.Context(), []firewall.Entry{e}); err != nil {
				t.Fatal(err)
			}
		}
		if es, err := firewall.ListAll(t.Context(), w); err != nil || len(es) != 1 {
			t.Errorf("%+v: got %v, %v, want the one block", o, es, err)
		}
		if err := w.Check(t.Context()); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
		w.Close()
	}
}
