package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"stoplog/internal/rules"
)

// How a target paces itself.
const (
	// settle is how long it must be quiet before a first message goes out, so
	// that one attack is one message. A lone breach is told after so long.
	settle = 2 * time.Second
	// tries that a message gets, and the waits before the second and third.
	tries     = 3
	firstWait = time.Second
	nextWait  = 5 * time.Second
	// maxAsked bounds the wait that a server may ask for (Retry-After).
	maxAsked = time.Minute
)

// sender is one way out. An error that wraps permanent is not tried again.
type sender interface {
	send(ctx context.Context, l letter) error
}

// permanent marks an error that another try would not mend.
type permanent struct{ err error }

func (p permanent) Error() string { return p.err.Error() }
func (p permanent) Unwrap() error { return p.err }

// partly marks an error after which some have the message: it is sent.
type partly struct{ err error }

func (p partly) Error() string { return p.err.Error() }
func (p partly) Unwrap() error { return p.err }

// later marks an error of a server that asked to wait.
type later struct {
	err  error
	wait time.Duration
}

func (l later) Error() string { return l.err.Error() }
func (l later) Unwrap() error { return l.err }

// target gathers and sends, for one name.
type target struct {
	cfg  rules.Notify
	log  *slog.Logger
	form *form
	way  sender
	wake chan struct{} // holds one

	mu    sync.Mutex // guards what follows
	held  group
	stats Stats
	lost  int // breaches in messages that were given up, not yet said
	// lastSent is when the last message ended; recent are the last sendings,
	// oldest first, at most Limit.
	lastSent time.Time
	recent   []time.Time
}

func newTarget(c rules.Notify, o Options, ways func(rules.Notify, Options) (sender, error)) (*target, error) {
	f, err := newForm(c, o.Host)
	if err != nil {
		return nil, err
	}
	t := &target{cfg: c, log: o.Log, form: f, wake: make(chan struct{}, 1)}
	t.stats.Name = c.Name
	t.way, err = ways(c, o)
	return t, err
}

// wayOf is how a target sends.
func wayOf(c rules.Notify, o Options) (sender, error) {
	switch {
	case c.Webhook != "":
		return newWebhook(c)
	case c.Email.To != nil:
		return newMailer(c.Email, o.Host)
	case len(c.Exec) > 0:
		return program{argv: c.Exec}, nil
	}
	return nil, errors.New("expected one of webhook, email and exec")
}

// add gathers a message. It never blocks for longer than another add.
func (t *target) add(m Message, now time.Time) {
	t.mu.Lock()
	if !t.held.add(m, now) {
		t.stats.Dropped++
	}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// inherit takes over what an earlier target of the same name had gathered.
func (t *target) inherit(old *target) {
	old.mu.Lock()
	defer old.mu.Unlock()
	t.held, t.stats, t.lost, t.lastSent, t.recent = old.held, old.stats, old.lost, old.lastSent, slices.Clone(old.recent)
	old.held, old.lost = group{}, 0
}

func (t *target) status() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Waiting = t.held.count
	return s
}

// run sends until own ends, then sends once what is left. Each try runs under
// sending, which outlasts own by a little.
func (t *target) run(own, sending context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		due, some := t.due()
		wait := time.Until(due)
		if some && wait <= 0 {
			t.deliver(own, sending)
			continue
		}
		if !some {
			wait = time.Hour
		}
		timer.Reset(wait)
		select {
		case <-t.wake:
		case <-timer.C:
		case <-own.Done():
			t.deliver(own, sending)
			return
		}
	}
}

// due is when what is gathered goes out: when it has been quiet for a little,
// at the latest Group after the first, not before Group after the last
// message, and never more than Limit in any hour.
func (t *target) due() (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held.count == 0 {
		return time.Time{}, false
	}
	due := t.held.last.Add(min(settle, t.cfg.Group))
	if latest := t.held.first.Add(t.cfg.Group); due.After(latest) {
		due = latest
	}
	if next := t.lastSent.Add(t.cfg.Group); !t.lastSent.IsZero() && due.Before(next) {
		due = next
	}
	t.held.limited = 0
	if free := t.free(); due.Before(free) {
		t.held.limited = free.Sub(due)
		due = free
	}
	return due, true
}

// free is when the limit lets another message go; mu is held.
func (t *target) free() time.Time {
	if n := len(t.recent); t.cfg.Limit > 0 && n >= t.cfg.Limit {
		return t.recent[n-t.cfg.Limit].Add(time.Hour)
	}
	return time.Time{}
}

// take empties the group, counts a sending, and says what else the message
// must tell.
func (t *target) take(now time.Time) (group, []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.held
	if g.count == 0 {
		return g, nil
	}
	t.held = group{}
	if t.cfg.Limit > 0 {
		t.recent = append(t.recent[max(0, len(t.recent)+1-t.cfg.Limit):], now)
	}
	var notes []string
	if g.limited > 0 {
		notes = append(notes, fmt.Sprintf("delayed for %s by the limit of %d messages per hour", rules.FormatDuration(g.limited.Round(time.Second)), t.cfg.Limit))
	}
	if t.lost > 0 {
		notes = append(notes, fmt.Sprintf("messages about %d earlier breaches could not be delivered", t.lost))
	}
	return g, notes
}

// deliver sends what is gathered, trying again when that may help.
func (t *target) deliver(own, sending context.Context) {
	g, notes := t.take(time.Now())
	if g.count == 0 {
		return
	}
	l, err := t.form.letter(g.digest(notes))
	for try := 1; err == nil; try++ {
		err = t.once(sending, l)
		wait, again := backoff(try, err)
		if !again || !sleep(own, wait) {
			break
		}
		err = nil
	}
	t.settleUp(g, err, time.Now())
}

func (t *target) once(sending context.Context, l letter) error {
	ctx, cancel := context.WithTimeout(sending, t.cfg.Timeout)
	defer cancel()
	err := t.way.send(ctx, l)
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	late := fmt.Errorf("timed out after %s", rules.FormatDuration(t.cfg.Timeout))
	if errors.As(err, new(permanent)) {
		return permanent{late}
	}
	return late
}

// backoff says whether another try is due after err, and when.
func backoff(try int, err error) (time.Duration, bool) {
	if err == nil || errors.As(err, new(permanent)) || errors.As(err, new(partly)) || try >= tries {
		return 0, false
	}
	wait := firstWait
	if try > 1 {
		wait = nextWait
	}
	if l := (later{}); errors.As(err, &l) {
		wait = min(max(l.wait, wait), maxAsked)
	}
	return wait, true
}

// sleep waits, and reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// settleUp counts a message as sent or given up.
func (t *target) settleUp(g group, err error, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lastSent, t.stats.LastError = now, ""
	if err != nil {
		t.stats.LastError = clip(clean(err.Error()), maxText)
		t.log.Warn("notify", "target", t.cfg.Name, "problem", t.stats.LastError, "breaches", g.count)
	}
	if err == nil || errors.As(err, new(partly)) {
		t.stats.Sent++
		t.stats.LastSent, t.lost = now, 0
		return
	}
	t.stats.Failed++
	t.lost += g.count
}
