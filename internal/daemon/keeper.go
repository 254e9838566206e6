package daemon

import (
	"context"
	"errors"
	"iter"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/held"
	"stoplog/internal/ledger"
)

// How the keeper paces itself.
const (
	checkEvery = 1500 * time.Millisecond // with truce and the repair, less than three seconds
	listEvery  = 30 * time.Second
	stepTime   = 2 * time.Minute // a step of many orders may take so long
	minBackoff = 500 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// keeper makes the walls hold what the ledger says. Changes queue up by
// prefix, the latest of a prefix winning, so that a slow or failing wall
// stalls nobody and the queue is bounded by the ledger.
type keeper struct {
	wall firewall.Backend
	d    *daemon
	wake chan struct{} // holds one
	// checks and lists are the times between cheap looks and whole ones.
	checks, lists time.Duration

	gone  error // the wall process does not answer any more; of run's goroutine
	stood bool  // the wall was set up once; likewise

	mu     sync.Mutex // guards what follows
	queue  map[netip.Prefix]order
	policy *firewall.Policy // not yet told
	asked  uint64           // how often something was queued
	busy   bool             // what was queued before is being carried out
	wait   []waiter
	state  wallState
}

// waiter is somebody who wants to know whether the wall holds what was queued.
type waiter struct {
	asked uint64
	done  chan<- error // has room for one
}

// order is what is to become of a prefix: block it, or lift it (Until zero).
type order struct {
	entry firewall.Entry
	lift  bool
}

type wallState struct {
	ready   bool
	err     string
	full    string
	entries int
	notes   []string
	feud    feud
}

func newKeeper(w firewall.Backend, d *daemon) *keeper {
	return &keeper{wall: w, d: d, checks: checkEvery, lists: listEvery, wake: make(chan struct{}, 1), queue: map[netip.Prefix]order{}}
}

// change queues what the ledger decided. It never blocks.
func (k *keeper) change(cs []ledger.Change) {
	k.mu.Lock()
	for _, c := range cs {
		e := entryOf(c.Block, k.d.set)
		e.Cut = e.Cut && c.New
		k.queue[e.Prefix] = order{e, c.Op == ledger.Lift}
	}
	k.asked++
	k.mu.Unlock()
	k.poke()
}

// setPolicy queues a policy. It never blocks.
func (k *keeper) setPolicy(p firewall.Policy) {
	k.mu.Lock()
	k.policy = &p
	k.asked++
	k.mu.Unlock()
	k.poke()
}

// carried tells on the channel whether the wall did all that is queued now: nil,
// or why not. What failed is tried again all the same. It never blocks.
func (k *keeper) carried() <-chan error {
	done := make(chan error, 1)
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.queue) == 0 && k.policy == nil && !k.busy {
		done <- nil
		return done
	}
	k.wait = append(k.wait, waiter{k.asked, done})
	k.poke() // it may have been tried, and have failed, before anybody waited
	return done
}

// answer tells those who wait for what was queued up to asked.
func (k *keeper) answer(asked uint64, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wait = slices.DeleteFunc(k.wait, func(w waiter) bool {
		if w.asked > asked {
			return false
		}
		w.done <- err
		return true
	})
}

func (k *keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *keeper) status() wallState {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

// run keeps the walls until ctx ends.
func (k *keeper) run(ctx context.Context) error {
	changed := make(chan firewall.Change, 16)
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before waiting
	if w, ok := k.wall.(firewall.Watcher); ok {
		watching.Go(func() {
			_ = w.Watch(ctx, func(c firewall.Change) {
				select {
				case changed <- c:
				case <-ctx.Done():
				}
			})
		})
	}
	check := time.NewTicker(k.checks)
	defer check.Stop()
	list := time.NewTicker(k.lists)
	defer list.Stop()
	k.settle(ctx, k.standUp)
	for ctx.Err() == nil && k.gone == nil {
		select {
		case <-ctx.Done():
		case <-k.wake:
			k.settle(ctx, k.drain)
		case c := <-changed:
			k.settle(ctx, func(ctx context.Context) error { return k.onChange(ctx, c, changed) })
		case <-check.C:
			k.settle(ctx, k.check)
		case <-list.C:
			k.settle(ctx, k.compare)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return k.gone
}

// settle does a step until it succeeds; a step that failed is followed by
// standing up anew, since nobody knows how far it came.
func (k *keeper) settle(ctx context.Context, step func(context.Context) error) {
	wait := minBackoff
	for ctx.Err() == nil {
		err := k.once(ctx, step)
		if errors.Is(err, firewall.ErrGone) {
			k.gone = err
			k.tell(func(s *wallState) { s.err = err.Error() })
			k.answer(^uint64(0), err)
			return
		}
		if errors.Is(err, firewall.ErrBroken) {
			k.pause(ctx, k.repairing(err.Error()))
			step = k.standUp
			continue
		}
		var full *firewall.FullError
		if errors.As(err, &full) {
			k.tell(func(s *wallState) { s.full = full.Error() })
			k.d.log.Warn("wall is full", "wall", k.wall.Name(), "problem", full.Error())
			return // what fits stands; the next compare tries again
		}
		if err == nil {
			if k.tell(func(s *wallState) { s.err = "" }) != "" {
				k.d.log.Info("wall works again", "wall", k.wall.Name())
			}
			return
		}
		k.answer(^uint64(0), err)
		if k.tell(func(s *wallState) { s.err = err.Error() }) != err.Error() {
			k.d.log.Error("wall", "wall", k.wall.Name(), "problem", err.Error(), "retry", wait)
		}
		k.pause(ctx, wait)
		wait = min(2*wait, maxBackoff)
		step = k.standUp
	}
}

// pause waits until the next try. One of several walls may fail alone: what is
// decided meanwhile is given to all of them, at the pace of minBackoff, so
// that those that work do not wait for the one that does not.
func (k *keeper) pause(ctx context.Context, wait time.Duration) {
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
		case <-k.wake:
		}
		_ = k.once(ctx, k.drain) // its error is known already; standing up tells whether it is gone
		select {
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-time.After(minBackoff):
		}
	}
}

func (k *keeper) once(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	return step(ctx)
}

// tell changes the state under the lock and returns the error from before.
func (k *keeper) tell(f func(*wallState)) (before string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before = k.state.err
	f(&k.state)
	return before
}

// standUp sets the wall up and brings it to the ledger.
func (k *keeper) standUp(ctx context.Context) error {
	var p firewall.Policy
	if err := k.d.ask(ctx, func() { p = k.d.policy(time.Now()) }); err != nil {
		return ignoreStop(err)
	}
	k.mu.Lock()
	k.policy = nil
	k.mu.Unlock()
	if err := k.wall.Setup(ctx, p); err != nil {
		return notBroken(err)
	}
	var notes []string
	if n, ok := k.wall.(firewall.Noter); ok {
		notes = n.Notes()
	}
	k.tell(func(s *wallState) { s.notes = notes })
	k.stood = true
	if err := k.adopt(ctx); err != nil {
		return err
	}
	if err := k.reconcile(ctx, true); err != nil {
		return err
	}
	first := false
	k.tell(func(s *wallState) { first, s.ready = !s.ready, true })
	if first {
		k.d.log.Info("wall is set up", "wall", k.wall.Name(), "entries", k.status().entries, "why", k.d.opt.WallWhy)
		for _, n := range notes {
			k.d.log.Warn("wall", "wall", k.wall.Name(), "note", n)
		}
		if k.d.opt.Ready != nil {
			k.d.opt.Ready()
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

// adopt takes over what the wall still holds when the ledger was lost.
func (k *keeper) adopt(ctx context.Context) error {
	lost := false
	if err := k.d.ask(ctx, func() { lost, k.d.lostState = k.d.lostState, false }); err != nil || !lost {
		return ignoreStop(err)
	}
	var found []firewall.Entry
	err := k.wall.List(ctx, func(e firewall.Entry) { found = append(found, e) })
	if err == nil || errors.Is(err, firewall.ErrBroken) && !errors.Is(err, firewall.ErrGone) {
		return ignoreStop(k.d.ask(ctx, func() { k.d.adopt(found, time.Now()) }))
	}
	return errors.Join(err, ignoreStop(k.d.ask(ctx, func() { k.d.lostState = true }))) // next time
}

// drain carries out what is queued, and tells those who wait for it.
func (k *keeper) drain(ctx context.Context) error {
	k.mu.Lock()
	policy, queue, asked := k.policy, k.queue, k.asked
	k.policy, k.queue, k.busy = nil, map[netip.Prefix]order{}, true
	k.mu.Unlock()
	err := k.carryOut(ctx, policy, queue)
	var full *firewall.FullError
	if err != nil && !errors.As(err, &full) {
		k.requeue(policy, queue)
	}
	k.mu.Lock()
	k.busy = false
	k.mu.Unlock()
	k.answer(asked, err)
	return err
}

func (k *keeper) carryOut(ctx context.Context, policy *firewall.Policy, queue map[netip.Prefix]order) error {
	if policy != nil {
		// Setting up mends what others broke, and what they took must not be taken
		// for deleted by hand.
		if c, ok := k.wall.(firewall.Checker); ok && k.stood {
			if err := c.Check(ctx); err != nil {
				return err
			}
		}
		if err := k.wall.Setup(ctx, *policy); err != nil {
			return err
		}
	}
	var block []firewall.Entry
	var lift []netip.Prefix
	for p, o := range queue {
		if o.lift {
			lift = append(lift, p)
		} else {
			block = append(block, o.entry)
		}
	}
	var failed, refused error
	if len(lift) > 0 {
		failed = k.wall.Unblock(ctx, lift)
	}
	if len(block) > 0 { // whatever became of the others
		refused = k.wall.Block(ctx, block)
	}
	if err := errors.Join(failed, refused); err != nil {
		return err
	}
	for _, e := range block {
		k.d.log.Debug("held", "prefix", e.Prefix, "until", e.Until)
	}
	for _, p := range lift {
		k.d.log.Debug("lifted", "prefix", p)
	}
	return nil
}

// requeue puts back what failed, unless something newer is queued.
func (k *keeper) requeue(policy *firewall.Policy, queue map[netip.Prefix]order) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.policy == nil {
		k.policy = policy
	}
	for p, o := range queue {
		if _, newer := k.queue[p]; !newer {
			k.queue[p] = o
		}
	}
}

// check looks cheaply whether what was set up still stands.
func (k *keeper) check(ctx context.Context) error {
	if e, ok := k.wall.(firewall.Expirer); ok {
		if err := e.Expire(ctx); err != nil {
			return err
		}
	}
	c, ok := k.wall.(firewall.Checker)
	if !ok {
		return nil
	}
	return c.Check(ctx) // settle restores what is broken
}

// repairing notes that others changed the wall, and tells how long to wait
// before it is restored.
func (k *keeper) repairing(what string) (wait time.Duration) {
	times := 0
	k.tell(func(s *wallState) { wait, times = s.feud.again(time.Now()), s.feud.times })
	if times <= patient || times&(times-1) == 0 { // 4, 8, 16…: said, not repeated for each
		k.d.log.Warn("another program changed the firewall; restoring", "wall", k.wall.Name(), "found", what, "times", times)
	}
	return wait
}

// compare brings wall and ledger together.
func (k *keeper) compare(ctx context.Context) error { return k.reconcile(ctx, false) }

// onChange answers what the wall tells that others did to it; more is what it
// told since.
func (k *keeper) onChange(ctx context.Context, c firewall.Change, more <-chan firewall.Change) error {
	if !c.Broken {
		return k.liftedByHand(ctx, c.Deleted)
	}
	k.pause(ctx, k.repairing("tables, sets or rules of stoplog are missing"))
	for { // one restoration mends all that was broken until it begins
		select {
		case c := <-more:
			if err := k.liftedByHand(ctx, c.Deleted); err != nil {
				return err
			}
		default:
			return k.standUp(ctx)
		}
	}
}

// reconcile adds what is missing and removes what is too much. Unless fresh,
// what is missing while all that is ours stands as it was left was deleted by
// hand: that is the administrator's unblock.
func (k *keeper) reconcile(ctx context.Context, fresh bool) error {
	if err := k.drain(ctx); err != nil {
		return err
	}
	have, err := k.list(ctx, fresh)
	if err != nil {
		return err
	}
	var diff held.Diff
	n := 0
	if err := k.d.ask(ctx, func() {
		now := time.Now()
		diff = held.Compare(k.settled(k.d.entries(now)), have, !fresh, now)
		n = k.d.ledger.Stats().Blocks
	}); err != nil {
		return ignoreStop(err)
	}
	if err := k.byHand(ctx, diff.ByHand); err != nil {
		return err
	}
	if diff.Flushed && !fresh {
		k.repairing("its blocks are missing")
	}
	if remove := k.unqueued(diff.Remove); len(remove) > 0 {
		if err := k.wall.Unblock(ctx, remove); err != nil {
			return err
		}
	}
	if add := append(diff.Add, diff.Refresh...); len(add) > 0 {
		if err := k.wall.Block(ctx, add); err != nil {
			return err
		}
	}
	k.tell(func(s *wallState) { s.entries, s.full = n, "" })
	if n >= manyBlocks {
		have, diff = nil, held.Diff{}
		debug.FreeOSMemory() // the listing; the loop goes on meanwhile
	}
	return nil
}

// list gathers what the wall holds. When fresh, what it lost is on its way back
// already.
func (k *keeper) list(ctx context.Context, fresh bool) (*held.Listing, error) {
	have := &held.Listing{}
	err := k.wall.List(ctx, have.Add)
	if fresh && errors.Is(err, firewall.ErrBroken) && !errors.Is(err, firewall.ErrGone) {
		err = nil
	}
	return have, err
}

// byHand records deletions by hand that a second look confirms: a flush while
// the wall was listed can look like one.
func (k *keeper) byHand(ctx context.Context, missing []netip.Prefix) error {
	if len(missing) == 0 {
		return nil
	}
	have, err := k.list(ctx, false)
	if err != nil {
		return err
	}
	return k.liftedByHand(ctx, slices.DeleteFunc(missing, have.Holds))
}

// settled leaves out what was decided since the last drain: it is on its way
// and not missing.
func (k *keeper) settled(es iter.Seq[firewall.Entry]) iter.Seq[firewall.Entry] {
	return func(yield func(firewall.Entry) bool) {
		k.mu.Lock()
		defer k.mu.Unlock()
		for e := range es {
			if _, queued := k.queue[e.Prefix]; !queued && !yield(e) {
				return
			}
		}
	}
}

func (k *keeper) unqueued(ps []netip.Prefix) []netip.Prefix {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(ps, func(p netip.Prefix) bool { _, ok := k.queue[p]; return ok })
}

// liftedByHand records that somebody deleted elements with the firewall's own
// tools: unblocked they stay.
func (k *keeper) liftedByHand(ctx context.Context, ps []netip.Prefix) error {
	return ignoreStop(k.d.ask(ctx, func() { k.d.deletedByHand(ps, time.Now()) }))
}

// ignoreStop makes an order that came too late no failure.
func ignoreStop(err error) error {
	if errors.Is(err, errStopping) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
