//go:build linux

package firewalltest

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"stoplog/internal/firewall"
)

// testWall is a wall in memory that fails when told and can be changed by
// others behind our back.
type Memory struct {
	Mu      sync.Mutex
	Held    map[netip.Prefix]firewall.Entry
	Policy  firewall.Policy
	failing error
	Broken  bool
	Setups  int
	changed chan struct{} // one token a call that changed something
}

func NewMemory() *Memory {
	return &Memory{Held: map[netip.Prefix]firewall.Entry{}, changed: make(chan struct{}, 10000)}
}

func (w *Memory) Name() string { return "test" }

func (w *Memory) do(f func()) error {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.failing != nil {
		return w.failing
	}
	f()
	w.changed <- struct{}{}
	return nil
}

func (w *Memory) Setup(_ context.Context, p firewall.Policy) error {
	return w.do(func() { w.Policy, w.Broken, w.Setups = p, false, w.Setups+1 })
}

func (w *Memory) Block(_ context.Context, es []firewall.Entry) error {
	return w.do(func() {
		for _, e := range es {
			w.Held[e.Prefix] = e
		}
	})
}

func (w *Memory) Unblock(_ context.Context, ps []netip.Prefix) error {
	return w.do(func() {
		for _, p := range ps {
			delete(w.Held, p)
		}
	})
}

func (w *Memory) List(_ context.Context, emit func(firewall.Entry)) error {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.failing != nil {
		return w.failing
	}
	for _, e := range w.Held {
		emit(e)
	}
	return nil
}

func (w *Memory) Teardown(context.Context) error { return nil }

func (w *Memory) Check(context.Context) error {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.failing != nil {
		return w.failing
	}
	if w.Broken {
		return fmt.Errorf("table test: %w", firewall.ErrBroken)
	}
	return nil
}

// fail makes every order fail with err, nil to work again.
func (w *Memory) Fail(err error) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.failing = err
}

// meddle lets somebody else change the wall.
func (w *Memory) Meddle(f func(held map[netip.Prefix]firewall.Entry)) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	f(w.Held)
}

func (w *Memory) Has(p string) bool {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	_, ok := w.Held[netip.MustParsePrefix(p)]
	return ok
}

// until waits until ok, looking again whenever the wall was changed.
func (w *Memory) Until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-w.changed:
		case <-timeout:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// hookedWall calls a function before each look and each order to block.
type Hooked struct {
	*Memory
	OnList  func(emit func(firewall.Entry)) func(firewall.Entry)
	OnBlock func() error
}

func (w *Hooked) List(ctx context.Context, emit func(firewall.Entry)) error {
	if w.OnList != nil {
		emit = w.OnList(emit)
	}
	return w.Memory.List(ctx, emit)
}

func (w *Hooked) Block(ctx context.Context, es []firewall.Entry) error {
	if w.OnBlock != nil {
		return w.OnBlock()
	}
	return w.Memory.Block(ctx, es)
}
