package reconcile

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
)

// memoryLedger is a ledger in memory, for one goroutine.
type memoryLedger struct {
	want    []firewall.Entry
	lost    bool
	adopted []firewall.Entry
	deleted []netip.Prefix
}

func (l *memoryLedger) Policy(context.Context) (firewall.Policy, error) {
	return firewall.Policy{}, nil
}

func (l *memoryLedger) Wanted(_ context.Context, use func(iter.Seq[firewall.Entry], int)) error {
	use(slices.Values(l.want), len(l.want))
	return nil
}

func (l *memoryLedger) Lost(context.Context) (bool, error) { return l.lost, nil }

func (l *memoryLedger) Adopt(_ context.Context, found []firewall.Entry) error {
	l.lost, l.adopted, l.want = false, found, append(l.want, found...)
	return nil
}

func (l *memoryLedger) Deleted(_ context.Context, ps []netip.Prefix) error {
	l.deleted = append(l.deleted, ps...)
	return nil
}

func block(prefix string) Order { return Order{Entry: firewalltest.Entry(prefix, time.Hour)} }
func lift(prefix string) Order {
	return Order{Entry: firewall.Entry{Prefix: netip.MustParsePrefix(prefix)}, Lift: true}
}

// TestBackoff: changes by others are repaired at once, but for those that never
// end: these after a pause, and the state reports them.
func TestBackoff(t *testing.T) {
	var log strings.Builder
	r := New(firewalltest.NewMemory(), &memoryLedger{}, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	for range defaultPatience {
		if wait := r.repairing("a test"); wait != 0 {
			t.Errorf("one of the first repairs waits %s", wait)
		}
	}
	if got := r.State().Conflict; got != "" {
		t.Errorf("after %d repairs: got %q", defaultPatience, got)
	}
	for range 100 {
		if wait := r.repairing("a test"); wait != pauseBetween {
			t.Fatalf("waits %s, want %s", wait, pauseBetween)
		}
	}
	if got := r.State().Conflict; !strings.Contains(got, "103 times") {
		t.Errorf("at last: got %q", got)
	}
	if n := strings.Count(log.String(), "another program changed the firewall"); n < defaultPatience || n > 10 {
		t.Errorf("logged %d times, want some of 103", n)
	}
	b := backoff{last: time.Now().Add(-2 * calmAfter), times: 100}
	if said := b.conflict(time.Now()); said != "" || b.next(time.Now()) != 0 {
		t.Errorf("after a calm minute: said %q, or a repair waits", said)
	}
}

// TestBrokenOnce: what was broken several times is restored once.
func TestBrokenOnce(t *testing.T) {
	w := firewalltest.NewMemory()
	r := New(w, &memoryLedger{}, Options{})
	more := make(chan firewall.Change, 16)
	for range cap(more) {
		more <- firewall.Change{Broken: true}
	}
	if err := r.onChange(t.Context(), firewall.Change{Broken: true}, more); err != nil {
		t.Fatal(err)
	}
	if len(more) > 0 || w.Setups != 1 {
		t.Errorf("set up %d times, %d changes still wait", w.Setups, len(more))
	}
	if n := r.state.backoff.times; n != 1 {
		t.Errorf("counted as %d repairs, want 1", n)
	}
}

// TestNewerOrderWins: an order that failed is not tried again over a newer one
// for the same prefix.
func TestNewerOrderWins(t *testing.T) {
	w := &firewalltest.Hooked{Memory: firewalltest.NewMemory()}
	r := New(w, &memoryLedger{}, Options{})
	w.OnBlock = func() error {
		r.Change([]Order{lift("192.0.2.0/28")})
		return errors.New("down")
	}
	r.Change([]Order{block("192.0.2.0/28"), block("198.51.100.0/28")})
	if err := r.drain(t.Context()); err == nil {
		t.Fatal("the firewall did not fail")
	}
	for prefix, lift := range map[string]bool{"192.0.2.0/28": true, "198.51.100.0/28": false} {
		if o, queued := r.queue[netip.MustParsePrefix(prefix)]; !queued || o.Lift != lift {
			t.Errorf("%s: queued %v, to lift %v, want %v", prefix, queued, o.Lift, lift)
		}
	}
}

// lame is two backends of which the second fails.
type lame struct{ *firewalltest.Memory }

func (w lame) Block(ctx context.Context, es []firewall.Entry) error {
	return errors.Join(w.Memory.Block(ctx, es), errors.New("the second wall fails"))
}

func (w lame) Unblock(ctx context.Context, ps []netip.Prefix) error {
	return errors.Join(w.Memory.Unblock(ctx, ps), errors.New("the second wall fails"))
}

// TestOneBackendFailsAlone: what is decided while one backend is waited for
// reaches those that work.
func TestOneBackendFailsAlone(t *testing.T) {
	w := lame{firewalltest.NewMemory()}
	r := New(w, &memoryLedger{}, Options{})
	gone, come := netip.MustParsePrefix("192.0.2.0/28"), netip.MustParsePrefix("192.0.2.16/28")
	w.Held[gone] = firewall.Entry{Prefix: gone}
	ctx, cancel := context.WithCancel(t.Context())
	paused := make(chan struct{})
	go func() {
		defer close(paused)
		r.pause(ctx, time.Hour)
	}()
	r.Change([]Order{lift(gone.String()), block(come.String())})
	w.Until(t, "the block that came during the pause", func() bool { return w.Has(come.String()) && !w.Has(gone.String()) })
	cancel()
	<-paused
	if len(r.queue) != 2 {
		t.Errorf("%d orders wait for the backend that fails, want 2", len(r.queue))
	}
}

// TestApplied: the answer comes after the firewall holds the order, and says why
// when it does not.
func TestApplied(t *testing.T) {
	w := firewalltest.NewMemory()
	r := New(w, &memoryLedger{}, Options{})
	r.Change([]Order{block("192.0.2.0/28")})
	applied := r.Applied()
	select {
	case err := <-applied:
		t.Fatalf("answered before it was carried out: %v", err)
	default:
	}
	if err := r.drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-applied; err != nil || !w.Has("192.0.2.0/28") {
		t.Errorf("got %v, held %v", err, w.Has("192.0.2.0/28"))
	}
	down := errors.New("down")
	w.Fail(down)
	r.Change([]Order{block("198.51.100.0/28")})
	applied = r.Applied()
	_ = r.drain(t.Context())
	if err := <-applied; !errors.Is(err, down) {
		t.Errorf("got %v, want %v", err, down)
	}
}

// TestAdoptsOnlyWhenLost: elements that the ledger does not know are taken over
// when it was lost, and removed when it was not.
func TestAdoptsOnlyWhenLost(t *testing.T) {
	for _, lost := range []bool{true, false} {
		w, l := firewalltest.NewMemory(), &memoryLedger{lost: lost}
		e := firewalltest.Entry("192.0.2.0/28", time.Hour)
		w.Held[e.Prefix] = e
		if err := New(w, l, Options{}).standUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if (len(l.adopted) == 1) != lost || w.Has("192.0.2.0/28") != lost {
			t.Errorf("lost %v: adopted %v, held %v", lost, l.adopted, w.Has("192.0.2.0/28"))
		}
	}
}
