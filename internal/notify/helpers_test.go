package notify

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	"stoplog/internal/rules"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func options() Options { return Options{Host: "web1", Log: quiet()} }

// breach is what a block by a rule reports.
func breach(n int) Message {
	p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 12), byte(n >> 4), byte(n << 4)}), 28)
	return Message{
		Time: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), Rule: "ssh-login", Key: p.String(), Prefix: p.String(), Addr: p.Addr().String(),
		Service: "sshd", User: "root", Count: 6, Points: 6, Counted: "6 failures", TTL: 10 * time.Minute, Source: "auth.log", Line: 123,
		Evidence: []string{"Failed password for root"}, Blocks: []netip.Prefix{p},
	}
}

// post is a sender that remembers.
type post struct {
	mu      sync.Mutex
	at      []time.Time
	letters []letter
	fail    func(try int) error // nil: never
	hang    bool                // until ctx ends
}

func (p *post) send(ctx context.Context, l letter) error {
	p.mu.Lock()
	p.at = append(p.at, time.Now())
	p.letters = append(p.letters, l)
	n, fail, hang := len(p.at), p.fail, p.hang
	p.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if fail != nil {
		return fail(n)
	}
	return nil
}

func (p *post) sent() ([]time.Time, []letter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]time.Time{}, p.at...), append([]letter{}, p.letters...)
}

// running starts a teller whose targets send to the posts of the same name.
func running(t *testing.T, posts map[string]*post, cfgs ...rules.Notify) (*Notifier, func()) {
	t.Helper()
	for i := range cfgs {
		if cfgs[i].Timeout == 0 {
			cfgs[i].Timeout = 10 * time.Second
		}
	}
	x, err := newTeller(cfgs, options(), func(c rules.Notify, _ Options) (sender, error) {
		if p := posts[c.Name]; p != nil {
			return p, nil
		}
		return &post{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	return x, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	}
}

func stats(t *testing.T, x *Notifier, name string) Stats {
	t.Helper()
	for _, s := range x.Stats() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no target %s in %v", name, x.Stats())
	return Stats{}
}

func errEach(s string) func(int) error { return func(int) error { return fmt.Errorf("%s", s) } }
