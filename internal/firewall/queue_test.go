package firewall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"
)

func TestQueueCoalesces(t *testing.T) {
	q := NewQueue()
	a, b := netip.MustParsePrefix("192.0.2.0/28"), netip.MustParsePrefix("2001:db8::/64")
	until := time.Now().Add(time.Hour)
	q.Block(Entry{Prefix: a, Until: until}, Entry{Prefix: b, Until: until})
	q.Unblock(a)
	q.Block(Entry{Prefix: b, Until: until.Add(time.Hour)})
	if q.Len() != 2 {
		t.Errorf("got %d orders, want 2", q.Len())
	}
	got, err := q.Next(t.Context(), 100)
	if err != nil || len(got.Block) != 1 || len(got.Unblock) != 1 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if got.Unblock[0] != a || got.Block[0].Prefix != b || !got.Block[0].Until.Equal(until.Add(time.Hour)) {
		t.Errorf("got %+v, want the last word of each", got)
	}
	if q.Len() != 0 {
		t.Errorf("got %d orders left, want none", q.Len())
	}
}

func TestQueueBatches(t *testing.T) {
	q := NewQueue()
	for i := range 25 {
		q.Block(Entry{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32)})
	}
	next := 0
	for _, n := range []int{10, 10, 5} {
		b, err := q.Next(t.Context(), 10)
		if err != nil || len(b.Block) != n {
			t.Fatalf("got %d, %v, want %d", len(b.Block), err, n)
		}
		for _, e := range b.Block {
			if got := int(e.Prefix.Addr().As4()[3]); got != next {
				t.Errorf("got %d, want %d: the oldest first", got, next)
			}
			next++
		}
	}
}

func TestQueueRetry(t *testing.T) {
	q := NewQueue()
	a, b := netip.MustParsePrefix("192.0.2.0/28"), netip.MustParsePrefix("192.0.2.16/28")
	q.Block(Entry{Prefix: a}, Entry{Prefix: b})
	batch, _ := q.Next(t.Context(), 10)
	q.Unblock(a) // while the wall failed
	q.Retry(batch)
	got, _ := q.Next(t.Context(), 10)
	if fmt.Sprint(got.Unblock) != "[192.0.2.0/28]" || len(got.Block) != 1 || got.Block[0].Prefix != b {
		t.Errorf("got %+v, want the unblock, and the other block again", got)
	}
}

func TestQueueWaits(t *testing.T) {
	q := NewQueue()
	got := make(chan Batch)
	go func() {
		b, _ := q.Next(t.Context(), 10)
		got <- b
	}()
	q.Unblock(netip.MustParsePrefix("192.0.2.0/28"))
	if b := <-got; len(b.Unblock) != 1 {
		t.Errorf("got %+v", b)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Next(ctx, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// TestQueueLosesNothing puts from several sides while one takes.
func TestQueueLosesNothing(t *testing.T) {
	q := NewQueue()
	const sides, each = 4, 500
	var putting sync.WaitGroup
	for s := range sides {
		putting.Go(func() {
			for i := range each {
				q.Block(Entry{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{198, byte(s), byte(i >> 8), byte(i)}), 32)})
			}
		})
	}
	seen := map[netip.Prefix]bool{}
	for len(seen) < sides*each {
		b, err := q.Next(t.Context(), 64)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Block {
			seen[e.Prefix] = true
		}
	}
	putting.Wait()
	if q.Len() != 0 {
		t.Errorf("got %d left", q.Len())
	}
}
