package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/ledger"
)

// How the keeper paces itself.
const (
	checkEvery = 3 * time.Second
	listEvery  = 30 * time.Second
	orderTime  = 2 * time.Minute // one order to a wall may take so long
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

	mu     sync.Mutex // guards what follows
	queue  map[netip.Prefix]order
	policy *firewall.Policy // not yet told
	state  wallState
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

// feud is how often others changed the wall lately. Who does it without end,
// such as another stoplog of the same name, must not make us restore without
// pause: each would undo the other's work a hundred times a second.
type feud struct {
	last  time.Time // when others' damage was last repaired
	times int       // repairs, none of them long after the one before
}

const (
	patient  = 3               // repairs that are not waited with
	maxTruce = 5 * time.Second // the longest that one is waited with
	peace    = time.Minute     // without a repair: the feud is over
)

// again counts a repair and tells how long to wait with it.
func (f *feud) again(now time.Time) (wait time.Duration) {
	if now.Sub(f.last) > peace {
		f.times = 0
	}
	f.last = now
	if f.times++; f.times <= patient {
		return 0
	}
	return min(minBackoff<<min(f.times-patient-1, 10), maxTruce)
}

// trouble is for status, while it goes on.
func (f *feud) trouble(now time.Time) string {
	if f.times <= patient || now.Sub(f.last) > peace {
		return ""
	}
	return fmt.Sprintf("others keep changing the wall, %d times by now; is there another stoplog of the same name? (run --name)", f.times)
}

func newKeeper(w firewall.Backend, d *daemon) *keeper {
	return &keeper{wall: w, d: d, wake: make(chan struct{}, 1), queue: map[netip.Prefix]order{}}
}

// change queues what the ledger decided. It never blocks.
func (k *keeper) change(cs []ledger.Change) {
	k.mu.Lock()
	for _, c := range cs {
		e := entryOf(c.Block, k.d.set)
		e.Cut = e.Cut && c.New
		k.queue[e.Prefix] = order{e, c.Op == ledger.Lift}
	}
	k.mu.Unlock()
	k.poke()
}

// setPolicy queues a policy. It never blocks.
func (k *keeper) setPolicy(p firewall.Policy) {
	k.mu.Lock()
	k.policy = &p
	k.mu.Unlock()
	k.poke()
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
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	list := time.NewTicker(listEvery)
	defer list.Stop()
	k.settle(ctx, k.standUp)
	for ctx.Err() == nil {
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
	return nil
}

// settle does a step until it succeeds; a step that failed is followed by
// standing up anew, since nobody knows how far it came.
func (k *keeper) settle(ctx context.Context, step func(context.Context) error) {
	wait := minBackoff
	for ctx.Err() == nil {
		err := k.once(ctx, step)
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
	ctx, cancel := context.WithTimeout(ctx, orderTime)
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
		return err
	}
	var notes []string
	if n, ok := k.wall.(firewall.Noter); ok {
		notes = n.Notes()
	}
	k.tell(func(s *wallState) { s.notes = notes })
	if err := k.reconcile(ctx, true); err != nil {
		return err
	}
	first := false
	k.tell(func(s *wallState) { first, s.ready = !s.ready, true })
	if first {
		k.d.log.Info("wall stands", "wall", k.wall.Name(), "entries", k.status().entries, "why", k.d.opt.WallWhy)
		for _, n := range notes {
			k.d.log.Warn("wall", "wall", k.wall.Name(), "note", n)
		}
		if k.d.opt.Ready != nil {
			k.d.opt.Ready()
		}
	}
	return nil
}

// drain carries out what is queued.
func (k *keeper) drain(ctx context.Context) error {
	k.mu.Lock()
	policy, queue := k.policy, k.queue
	k.policy, k.queue = nil, map[netip.Prefix]order{}
	k.mu.Unlock()
	err := k.carryOut(ctx, policy, queue)
	var full *firewall.FullError
	if err != nil && !errors.As(err, &full) {
		k.requeue(policy, queue)
	}
	return err
}

func (k *keeper) carryOut(ctx context.Context, policy *firewall.Policy, queue map[netip.Prefix]order) error {
	if policy != nil {
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
	err := c.Check(ctx)
	if errors.Is(err, firewall.ErrBroken) {
		k.pause(ctx, k.repairing(err.Error()))
		return k.standUp(ctx)
	}
	return err
}

// repairing notes that others changed the wall, and tells how long to wait
// before it is restored.
func (k *keeper) repairing(what string) (wait time.Duration) {
	times := 0
	k.tell(func(s *wallState) { wait, times = s.feud.again(time.Now()), s.feud.times })
	if times <= patient || times&(times-1) == 0 { // 4, 8, 16…: said, not repeated for each
		k.d.log.Warn("somebody changed the wall; restoring it", "wall", k.wall.Name(), "found", what, "times", times)
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
	k.pause(ctx, k.repairing("tables, sets or rules of ours are gone"))
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
// single elements that are missing while the rest stands were deleted by
// hand: that is the administrator's unblock.
func (k *keeper) reconcile(ctx context.Context, fresh bool) error {
	if err := k.drain(ctx); err != nil {
		return err
	}
	have, err := k.wall.List(ctx)
	if err != nil {
		return err
	}
	var want []firewall.Entry
	if err := k.d.ask(ctx, func() { want = k.d.entries(time.Now()) }); err != nil {
		return ignoreStop(err)
	}
	diff := firewall.Reconcile(k.settled(want), have, !fresh, time.Now())
	if diff.Flushed && !fresh {
		k.repairing("its blocks are gone")
	}
	if len(diff.ByHand) > 0 {
		if err := k.liftedByHand(ctx, diff.ByHand); err != nil {
			return err
		}
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
	k.tell(func(s *wallState) { s.entries, s.full = len(want), "" })
	return nil
}

// settled leaves out what was decided since the last drain: it is on its way
// and not missing.
func (k *keeper) settled(es []firewall.Entry) []firewall.Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(es, func(e firewall.Entry) bool { _, ok := k.queue[e.Prefix]; return ok })
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
