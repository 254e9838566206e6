// Package reconcile makes the firewall hold what the ledger says.
//
// Two ways lead from the ledger to the kernel. Each decision is queued as an
// order and carried out at once. Beside that, the kernel is compared with the
// ledger from time to time, because others change it too: what is missing is put
// back, what is too much is removed. These invariants hold:
//
//   - The ledger is the truth, with one exception: an element that somebody
//     deleted by hand, while all else of ours stood, is an unblock by the
//     administrator, and goes back into the ledger.
//   - The latest order for a prefix wins. An order that failed is never tried
//     over a newer one.
//   - The queue is bounded by the ledger: it holds one order a prefix.
//   - Nobody waits for a slow or failing firewall, except callers of Applied.
//   - After a step that failed, nobody knows how far it came. The next step
//     therefore sets the firewall up again and compares everything.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/held"
)

// Times between looks and retries.
const (
	checkEvery   = 1500 * time.Millisecond // with pauseBetween and the repair, less than three seconds
	compareEvery = 30 * time.Second
	stepTime     = 2 * time.Minute // a step of many orders may take so long
	minRetry     = 500 * time.Millisecond
	// MaxRetry is the longest time between two orders to a firewall that fails.
	MaxRetry = 30 * time.Second
	// manyBlocks is how many blocks make the garbage of a comparison worth
	// returning to the system at once.
	manyBlocks = 20_000
)

// Ledger is what should be in the firewall, as its owner gives it. Methods wait
// until the owner has time. They return context.Canceled when it stops.
type Ledger interface {
	// Policy returns what stands around the blocks.
	Policy(ctx context.Context) (firewall.Policy, error)
	// Wanted calls use with all blocks, and how many there are. The sequence may
	// be ranged over only during the call: the ledger does not change meanwhile.
	Wanted(ctx context.Context, use func(want iter.Seq[firewall.Entry], n int)) error
	// Lost reports whether the ledger was lost at the start, and Adopt was not
	// called yet.
	Lost(ctx context.Context) (bool, error)
	// Adopt takes over what the firewall still holds.
	Adopt(ctx context.Context, found []firewall.Entry) error
	// Deleted records elements that somebody deleted with the firewall's tools.
	Deleted(ctx context.Context, ps []netip.Prefix) error
}

// Options are the reconciler's settings. The zero Options is usable.
type Options struct {
	Log *slog.Logger // nil: nothing is logged
	Why string       // why this backend was chosen, for the log
	// Ready, when set, is called once the firewall holds the ledger for the first
	// time.
	Ready func()
	// Check and Compare are the times between cheap checks and comparisons.
	Check, Compare time.Duration
	// Patience is how many repairs in a row are made without a pause.
	Patience int
}

// Reconciler owns a backend: only Run's goroutine uses it. The other methods may
// be called from any goroutine.
type Reconciler struct {
	wall   firewall.Backend
	ledger Ledger
	opt    Options
	wake   chan struct{} // holds one
	now    chan request

	// Of Run's goroutine.
	gone  error // the wall process does not answer any more
	setUp bool  // Setup succeeded once

	mu      sync.Mutex // guards what follows
	queue   map[netip.Prefix]Order
	policy  *firewall.Policy // not yet carried out
	queued  uint64           // how often something was queued
	busy    bool             // what was queued before is being carried out
	waiters []waiter
	state   state
}

// waiter waits until what was queued by then is carried out.
type waiter struct {
	queued uint64
	done   chan<- error // has room for one
}

// request asks Run's goroutine for a step.
type request struct {
	step func(context.Context) error
	done chan<- struct{}
}

// Order is a decision about one prefix.
type Order struct {
	Entry firewall.Entry
	Lift  bool // only the prefix counts
}

// State is how the firewall is doing.
type State struct {
	Ready    bool      // it held the ledger once
	Err      string    // why the last step failed; "" when it did not
	Full     string    // what found no room
	Conflict string    // other programs keep changing the firewall
	Restored time.Time // when others' changes were last repaired
	Notes    []string  // the backend's own
}

type state struct {
	State
	entries int
	backoff backoff
}

// New returns a reconciler of a backend that was not set up. Nothing happens
// before Run.
func New(wall firewall.Backend, l Ledger, o Options) *Reconciler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Check, o.Compare = cmp.Or(o.Check, checkEvery), cmp.Or(o.Compare, compareEvery)
	r := &Reconciler{wall: wall, ledger: l, opt: o, wake: make(chan struct{}, 1), now: make(chan request), queue: map[netip.Prefix]Order{}}
	r.state.backoff.patience = o.Patience
	return r
}

// Change queues decisions of the ledger. It never blocks.
func (r *Reconciler) Change(os []Order) {
	r.mu.Lock()
	for _, o := range os {
		r.queue[o.Entry.Prefix] = o
	}
	r.queued++
	r.mu.Unlock()
	r.poke()
}

// SetPolicy queues a policy. It never blocks.
func (r *Reconciler) SetPolicy(p firewall.Policy) {
	r.mu.Lock()
	r.policy = &p
	r.queued++
	r.mu.Unlock()
	r.poke()
}

// Applied returns a channel that says whether the firewall did all that is queued
// now: nil, or why not. What failed is tried again all the same. It never blocks.
func (r *Reconciler) Applied() <-chan error {
	done := make(chan error, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 && r.policy == nil && !r.busy {
		done <- nil
		return done
	}
	r.waiters = append(r.waiters, waiter{r.queued, done})
	r.poke() // it may have been tried, and have failed, before anybody waited
	return done
}

// answer tells those who wait for what was queued by then.
func (r *Reconciler) answer(queued uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiters = slices.DeleteFunc(r.waiters, func(w waiter) bool {
		if w.queued > queued {
			return false
		}
		w.done <- err
		return true
	})
}

func (r *Reconciler) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// State returns how the firewall is doing now.
func (r *Reconciler) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state.State
	s.Notes = slices.Clone(s.Notes)
	s.Conflict, s.Restored = r.state.backoff.conflict(time.Now()), r.state.backoff.last
	return s
}

// CheckNow does what is otherwise done every Options.Check, and CompareNow what
// is done every Options.Compare. They return when it is done, or ctx ends.
func (r *Reconciler) CheckNow(ctx context.Context) error   { return r.do(ctx, r.check) }
func (r *Reconciler) CompareNow(ctx context.Context) error { return r.do(ctx, r.compare) }

// do lets Run's goroutine take a step.
func (r *Reconciler) do(ctx context.Context, step func(context.Context) error) error {
	done := make(chan struct{})
	select {
	case r.now <- request{step, done}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run keeps the firewall until ctx ends, which is no error, or until the wall
// process does not answer any more, which is an error that wraps
// firewall.ErrGone. It does not tear the firewall down.
func (r *Reconciler) Run(ctx context.Context) error {
	changed := make(chan firewall.Change, 16)
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before waiting
	if w, ok := r.wall.(firewall.Watcher); ok {
		watching.Go(func() {
			_ = w.Watch(ctx, func(c firewall.Change) {
				select {
				case changed <- c:
				case <-ctx.Done():
				}
			})
		})
	}
	check := time.NewTicker(r.opt.Check)
	defer check.Stop()
	compare := time.NewTicker(r.opt.Compare)
	defer compare.Stop()
	r.settle(ctx, r.standUp)
	for ctx.Err() == nil && r.gone == nil {
		select {
		case <-ctx.Done():
		case <-r.wake:
			r.settle(ctx, r.drain)
		case c := <-changed:
			r.settle(ctx, func(ctx context.Context) error { return r.onChange(ctx, c, changed) })
		case q := <-r.now:
			r.settle(ctx, q.step)
			close(q.done)
		case <-check.C:
			r.settle(ctx, r.check)
		case <-compare.C:
			r.settle(ctx, r.compare)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return r.gone
}

// settle does a step until it succeeds; a step that failed is followed by
// standing up again, since nobody knows how far it came.
func (r *Reconciler) settle(ctx context.Context, step func(context.Context) error) {
	wait := minRetry
	for ctx.Err() == nil {
		err := r.once(ctx, step)
		if errors.Is(err, firewall.ErrGone) {
			r.gone = err
			r.note(func(s *state) { s.Err = err.Error() })
			r.answer(^uint64(0), err)
			return
		}
		if errors.Is(err, firewall.ErrBroken) {
			r.pause(ctx, r.repairing(err.Error()))
			step = r.standUp
			continue
		}
		var full *firewall.FullError
		if errors.As(err, &full) {
			r.note(func(s *state) { s.Full = full.Error() })
			r.opt.Log.Warn("wall is full", "wall", r.wall.Name(), "problem", full.Error())
			return // what fits stands; the next compare tries again
		}
		if err == nil {
			if r.note(func(s *state) { s.Err = "" }) != "" {
				r.opt.Log.Info("wall works again", "wall", r.wall.Name())
			}
			return
		}
		r.answer(^uint64(0), err)
		if r.note(func(s *state) { s.Err = err.Error() }) != err.Error() {
			r.opt.Log.Error("wall", "wall", r.wall.Name(), "problem", err.Error(), "retry", wait)
		}
		r.pause(ctx, wait)
		wait = min(2*wait, MaxRetry)
		step = r.standUp
	}
}

// pause waits until the next try. One of several walls may fail alone: what is
// decided meanwhile is given to all of them, at the pace of minRetry, so
// that those that work do not wait for the one that does not.
func (r *Reconciler) pause(ctx context.Context, wait time.Duration) {
	if wait == 0 {
		return
	}
	over := time.After(wait)
	for {
		select {
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		_ = r.once(ctx, r.drain) // its error is known already; standing up says whether it is gone
		select {
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-time.After(minRetry):
		}
	}
}

func (r *Reconciler) once(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	return step(ctx)
}

// note changes the state under the lock and returns the error from before.
func (r *Reconciler) note(f func(*state)) (before string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before = r.state.Err
	f(&r.state)
	return before
}

// standUp sets the wall up and brings it to the ledger.
func (r *Reconciler) standUp(ctx context.Context) error {
	p, err := r.ledger.Policy(ctx)
	if err != nil {
		return ignoreStop(err)
	}
	r.mu.Lock()
	r.policy = nil
	r.mu.Unlock()
	if err := r.wall.Setup(ctx, p); err != nil {
		return notBroken(err)
	}
	var notes []string
	if n, ok := r.wall.(firewall.Noter); ok {
		notes = n.Notes()
	}
	r.note(func(s *state) { s.Notes = notes })
	r.setUp = true
	if err := r.adopt(ctx); err != nil {
		return err
	}
	if err := r.reconcile(ctx, true); err != nil {
		return err
	}
	first := false
	r.note(func(s *state) { first, s.Ready = !s.Ready, true })
	if first {
		r.opt.Log.Info("wall is set up", "wall", r.wall.Name(), "entries", r.state.entries, "why", r.opt.Why)
		for _, n := range notes {
			r.opt.Log.Warn("wall", "wall", r.wall.Name(), "note", n)
		}
		if r.opt.Ready != nil {
			r.opt.Ready()
		}
	}
	return nil
}

// notBroken is an error of setting up what others broke: trying again at once
// would not end.
func notBroken(err error) error {
	if errors.Is(err, firewall.ErrBroken) && !errors.Is(err, firewall.ErrGone) {
		return errors.New(err.Error())
	}
	return err
}

// adopt takes over what the firewall still holds when the ledger was lost. Only
// then: in any other case what the ledger does not know is foreign or old.
func (r *Reconciler) adopt(ctx context.Context) error {
	if lost, err := r.ledger.Lost(ctx); err != nil || !lost {
		return ignoreStop(err)
	}
	var found []firewall.Entry
	err := r.wall.List(ctx, func(e firewall.Entry) { found = append(found, e) })
	if err != nil && (!errors.Is(err, firewall.ErrBroken) || errors.Is(err, firewall.ErrGone)) {
		return err // the ledger stays lost until next time
	}
	return ignoreStop(r.ledger.Adopt(ctx, found))
}

// drain carries out what is queued, and tells those who wait for it.
func (r *Reconciler) drain(ctx context.Context) error {
	r.mu.Lock()
	policy, queue, queued := r.policy, r.queue, r.queued
	r.policy, r.queue, r.busy = nil, map[netip.Prefix]Order{}, true
	r.mu.Unlock()
	err := r.carryOut(ctx, policy, queue)
	var full *firewall.FullError
	if err != nil && !errors.As(err, &full) {
		r.requeue(policy, queue)
	}
	r.mu.Lock()
	r.busy = false
	r.mu.Unlock()
	r.answer(queued, err)
	return err
}

func (r *Reconciler) carryOut(ctx context.Context, policy *firewall.Policy, queue map[netip.Prefix]Order) error {
	if policy != nil {
		// Setting up mends what others broke, and what they took must not be taken
		// for deleted by hand.
		if c, ok := r.wall.(firewall.Checker); ok && r.setUp {
			if err := c.Check(ctx); err != nil {
				return err
			}
		}
		if err := r.wall.Setup(ctx, *policy); err != nil {
			return err
		}
	}
	var block []firewall.Entry
	var lift []netip.Prefix
	for p, o := range queue {
		if o.Lift {
			lift = append(lift, p)
		} else {
			block = append(block, o.Entry)
		}
	}
	var failed, refused error
	if len(lift) > 0 {
		failed = r.wall.Unblock(ctx, lift)
	}
	if len(block) > 0 { // whatever became of the others
		refused = r.wall.Block(ctx, block)
	}
	if err := errors.Join(failed, refused); err != nil {
		return err
	}
	for _, e := range block {
		r.opt.Log.Debug("held", "prefix", e.Prefix, "until", e.Until)
	}
	for _, p := range lift {
		r.opt.Log.Debug("lifted", "prefix", p)
	}
	return nil
}

// requeue puts back what failed, unless something newer is queued.
func (r *Reconciler) requeue(policy *firewall.Policy, queue map[netip.Prefix]Order) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.policy == nil {
		r.policy = policy
	}
	for p, o := range queue {
		if _, newer := r.queue[p]; !newer {
			r.queue[p] = o
		}
	}
}

// check looks cheaply whether what was set up still stands.
func (r *Reconciler) check(ctx context.Context) error {
	if e, ok := r.wall.(firewall.Expirer); ok {
		if err := e.Expire(ctx); err != nil {
			return err
		}
	}
	c, ok := r.wall.(firewall.Checker)
	if !ok {
		return nil
	}
	return c.Check(ctx) // settle restores what is broken
}

// repairing notes that others changed the firewall, and returns how long to wait
// before it is restored.
func (r *Reconciler) repairing(what string) (wait time.Duration) {
	times := 0
	r.note(func(s *state) { wait, times = s.backoff.next(time.Now()), s.backoff.times })
	if times <= defaultPatience || times&(times-1) == 0 { // 4, 8, 16…: said, not repeated for each
		r.opt.Log.Warn("another program changed the firewall; restoring", "wall", r.wall.Name(), "found", what, "times", times)
	}
	return wait
}

// compare brings wall and ledger together.
func (r *Reconciler) compare(ctx context.Context) error { return r.reconcile(ctx, false) }

// onChange answers what the wall tells that others did to it; more is what it
// told since.
func (r *Reconciler) onChange(ctx context.Context, c firewall.Change, more <-chan firewall.Change) error {
	if !c.Broken {
		return r.liftedByHand(ctx, c.Deleted)
	}
	r.pause(ctx, r.repairing("tables, sets or rules of stoplog are missing"))
	for { // one restoration mends all that was broken until it begins
		select {
		case c := <-more:
			if err := r.liftedByHand(ctx, c.Deleted); err != nil {
				return err
			}
		default:
			return r.standUp(ctx)
		}
	}
}

// reconcile adds what is missing and removes what is too much. Unless fresh,
// what is missing while all that is ours stands as it was left was deleted by
// hand: that is the administrator's unblock.
func (r *Reconciler) reconcile(ctx context.Context, fresh bool) error {
	if err := r.drain(ctx); err != nil {
		return err
	}
	have, err := r.list(ctx, fresh)
	if err != nil {
		return err
	}
	var diff held.Diff
	n := 0
	if err := r.ledger.Wanted(ctx, func(want iter.Seq[firewall.Entry], blocks int) {
		diff, n = held.Compare(r.settled(want), have, !fresh, time.Now()), blocks
	}); err != nil {
		return ignoreStop(err)
	}
	if err := r.byHand(ctx, diff.ByHand); err != nil {
		return err
	}
	if diff.Flushed && !fresh {
		r.repairing("its blocks are missing")
	}
	if remove := r.unqueued(diff.Remove); len(remove) > 0 {
		if err := r.wall.Unblock(ctx, remove); err != nil {
			return err
		}
	}
	if add := append(diff.Add, diff.Refresh...); len(add) > 0 {
		if err := r.wall.Block(ctx, add); err != nil {
			return err
		}
	}
	r.note(func(s *state) { s.entries, s.Full = n, "" })
	if n >= manyBlocks {
		have, diff = nil, held.Diff{}
		debug.FreeOSMemory() // the listing; the loop goes on meanwhile
	}
	return nil
}

// list gathers what the wall holds. When fresh, what it lost is on its way back
// already.
func (r *Reconciler) list(ctx context.Context, fresh bool) (*held.Listing, error) {
	have := &held.Listing{}
	err := r.wall.List(ctx, have.Add)
	if fresh && errors.Is(err, firewall.ErrBroken) && !errors.Is(err, firewall.ErrGone) {
		err = nil
	}
	return have, err
}

// byHand records deletions by hand that a second look confirms: a flush while
// the wall was listed can look like one.
func (r *Reconciler) byHand(ctx context.Context, missing []netip.Prefix) error {
	if len(missing) == 0 {
		return nil
	}
	have, err := r.list(ctx, false)
	if err != nil {
		return err
	}
	return r.liftedByHand(ctx, slices.DeleteFunc(missing, have.Holds))
}

// settled leaves out what was decided since the last drain: it is on its way
// and not missing.
func (r *Reconciler) settled(es iter.Seq[firewall.Entry]) iter.Seq[firewall.Entry] {
	return func(yield func(firewall.Entry) bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for e := range es {
			if _, queued := r.queue[e.Prefix]; !queued && !yield(e) {
				return
			}
		}
	}
}

func (r *Reconciler) unqueued(ps []netip.Prefix) []netip.Prefix {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(ps, func(p netip.Prefix) bool { _, ok := r.queue[p]; return ok })
}

// liftedByHand records that somebody deleted elements with the firewall's own
// tools: unblocked they stay.
func (r *Reconciler) liftedByHand(ctx context.Context, ps []netip.Prefix) error {
	return ignoreStop(r.ledger.Deleted(ctx, ps))
}

// ignoreStop makes an order that came too late no failure.
func ignoreStop(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
