// Package notify sends messages about breaches to people and programs: by
// webhook, e-mail or a program of the administrator's. Sending never holds up
// who reports: what happens is gathered, told together, and counted when it
// is too much to list. Log text gets into a message only with everything that
// is not printable escaped.
package notify

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"stoplog/internal/rules"
)

// Message is one thing that happened. Its texts may hold whatever a log held.
type Message struct {
	Time          time.Time // of the line that breached
	Rule          string
	Key           string // what was counted
	Prefix, Addr  string // "" when the rule has no address
	Service, User string
	Count, Points int           // failures, and what they weighed
	Counted       string        // both in words
	TTL           time.Duration // of the block; 0: nothing was blocked
	Source        string
	Line          int64
	Evidence      []string
	Blocks        []netip.Prefix // that were set because of it
}

// Options are what all targets have in common.
type Options struct {
	Host string // the machine's name in messages
	Log  *slog.Logger
}

// lastWait is how long an end waits for messages under way.
const lastWait = 3 * time.Second

// Notifier sends to named targets. Its methods may be called from several
// goroutines.
type Notifier struct {
	opt     Options
	ways    func(rules.Notify, Options) (sender, error)
	swapped chan struct{} // holds one

	mu      sync.Mutex // guards targets
	targets map[string]*target
}

// New prepares the targets and tries their templates on made-up breaches. An
// error names the target. Nothing is sent before Run.
func New(targets []rules.Notify, o Options) (*Notifier, error) {
	return newTeller(targets, o, wayOf)
}

func newTeller(targets []rules.Notify, o Options, ways func(rules.Notify, Options) (sender, error)) (*Notifier, error) {
	t := &Notifier{opt: o, ways: ways, swapped: make(chan struct{}, 1)}
	ts, err := t.build(targets)
	if err != nil {
		return nil, err
	}
	t.targets = ts
	return t, nil
}

func (t *Notifier) build(cfgs []rules.Notify) (map[string]*target, error) {
	ts := map[string]*target{}
	for _, c := range cfgs {
		x, err := newTarget(c, t.opt, t.ways)
		if err != nil {
			return nil, fmt.Errorf("notify target %s: %w", c.Name, err)
		}
		ts[c.Name] = x
	}
	return ts, nil
}

// Send takes on a message for a target. It never blocks. A target that does
// not exist hears nothing: the rules' check warns of it.
func (t *Notifier) Send(name string, m Message) {
	t.mu.Lock() // also over add: nothing may get into a target that Swap has emptied
	defer t.mu.Unlock()
	if x := t.targets[name]; x != nil {
		x.add(m, time.Now())
	}
}

// Swap puts other targets in place, or changes nothing and says why. Those
// that are as before go on undisturbed; what a changed one had gathered goes
// by its new way; what a vanished one had gathered is sent at once.
func (t *Notifier) Swap(cfgs []rules.Notify) error {
	fresh, err := t.build(cfgs)
	if err != nil {
		return err
	}
	t.mu.Lock()
	for name, x := range fresh {
		old := t.targets[name]
		switch {
		case old == nil:
		case reflect.DeepEqual(old.cfg, x.cfg):
			fresh[name] = old
		default:
			x.inherit(old)
		}
	}
	t.targets = fresh
	t.mu.Unlock()
	select {
	case t.swapped <- struct{}{}:
	default:
	}
	return nil
}

// Run sends until ctx ends, then tries once to send what was gathered, for
// three seconds at most, and returns nil. It blocks; call it once.
func (t *Notifier) Run(ctx context.Context) error {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastWait, cancel) })
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	running := map[*target]context.CancelFunc{}
	for {
		t.mu.Lock()
		want := slices.Collect(maps.Values(t.targets))
		t.mu.Unlock()
		for x, end := range running {
			if !slices.Contains(want, x) {
				end()
				delete(running, x)
			}
		}
		for _, x := range want {
			if running[x] != nil {
				continue
			}
			own, end := context.WithCancel(ctx)
			running[x] = end
			all.Go(func() { x.run(own, sending) })
		}
		select {
		case <-t.swapped:
		case <-ctx.Done():
			for _, end := range running {
				end()
			}
			return nil
		}
	}
}

// Stats is how one target fared since the start.
type Stats struct {
	Name      string
	Sent      uint64 // messages
	Failed    uint64 // messages that were given up
	Dropped   uint64 // breaches whose details no message had room for
	Waiting   int    // breaches gathered and not yet told
	LastSent  time.Time
	LastError string // "" after a success
}

// Stats reports all targets, by name.
func (t *Notifier) Stats() []Stats {
	t.mu.Lock()
	ts := slices.Collect(maps.Values(t.targets))
	t.mu.Unlock()
	out := make([]Stats, len(ts))
	for i, x := range ts {
		out[i] = x.status()
	}
	slices.SortFunc(out, func(a, b Stats) int { return strings.Compare(a.Name, b.Name) })
	return out
}
