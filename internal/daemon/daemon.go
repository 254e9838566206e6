// Package daemon wires the house: sources, pipeline, walls, the
// control socket. It starts every part on a goroutine of its own and
// waits for all of them, tells the pipeline the time, and decides what happens
// on reload and at the end. A part that needs goroutines inside (a reader of a
// pipe, a server's connections) waits for them itself before it returns.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"stoplog/internal/api"
	"stoplog/internal/control"
	"stoplog/internal/detect"
	"stoplog/internal/feed"
	"stoplog/internal/firewall"
	"stoplog/internal/ledger"
	"stoplog/internal/notify"
	"stoplog/internal/pipeline"
	"stoplog/internal/protect"
	"stoplog/internal/reconcile"
	"stoplog/internal/rules"
	"stoplog/internal/runner"
	"stoplog/internal/source"
)

// Options are what a daemon is made of. The caller keeps nothing of it.
type Options struct {
	Version string
	// Load reads the rules, at the start and at each reload. It must be safe
	// to call at any time.
	Load func() (*rules.Set, []rules.Problem)
	// OldRules says why Load gave older rules at the start, with the mistakes of
	// those that it should have given; "" when it did not.
	OldRules string
	// Lacks, when set, tells what of rules that were read later this process
	// cannot do until it is started again.
	Lacks    func(*rules.Set) []string
	StateDir string // must exist and be writable
	// TokensDir is where the page's tokens are, unless the rules name a file; "" =
	// StateDir.
	TokensDir string
	// Leftovers are walls of ours that are not in use and could not be removed.
	Leftovers []string
	// Listener is the control socket; the daemon closes it.
	Listener net.Listener
	// Wall blocks; the daemon owns it, but does not tear it down at the end.
	Wall     firewall.Backend
	WallName string
	// WallWhy says why this wall was chosen.
	WallWhy string
	DryRun  bool
	Rights  string
	// FlagsDir is where raised flags are files; "" = none.
	FlagsDir string
	Since    time.Time // where a first start begins; zero: at the end
	Log      *slog.Logger
	// Ready, when set, is called once the firewall holds the ledger.
	Ready func()
	// Alive, when set, is called by the loop each AliveEvery, as long as it lives.
	Alive      func()
	AliveEvery time.Duration
	// SaveEvery is the time between snapshots; 0: 30 s.
	SaveEvery time.Duration
}

// daemon is the state of Run. All fields below the line belong to the loop's
// goroutine; others reach them by ask.
type daemon struct {
	opt        Options
	log        *slog.Logger
	started    time.Time
	asks       chan func()
	stopped    chan struct{}
	reconciler *reconcile.Reconciler
	runner     *runner.Runner
	notifier   *notify.Notifier
	sources    *source.Set
	api        *api.API

	lists feed.Snapshot

	feedNow  atomic.Pointer[feed.Feed]  // nil: off
	checkNow atomic.Pointer[feed.Check] // nil: off

	page    *service[rules.Listener]
	metrics *service[rules.Metrics]
	feed    *service[rules.Listener]
	check   *service[rules.Check]
	exports *service[[]rules.Export]

	// of the loop:
	set        *rules.Set
	machine    *pipeline.Machine
	engine     *detect.Engine
	ledger     *ledger.Ledger
	positions  map[string]source.Pos
	recovering bool
	dirty      bool
	savedAt    time.Time
	saveErr    error
	reloadedAt time.Time
	reloadErr  string
	lacks      []string // of the rules in use
	listErrs   []string // of the files of allowed and denied prefixes
	tierErrs   []string // of the files of customers
	problems   problems
	notes      []string
	finder     protect.Finder // zero: looks at the running system
	protected  []protect.Addr
	files      fileTimes
	clock      clock
	nextExpiry time.Time
	giving     atomic.Bool // memory is being given back
	lostState  bool        // the ledger was lost: what the walls hold is to be adopted
	// allowEnds is when an allowance that walls were told of ends next; zero: none does.
	allowEnds time.Time
	excepted  []netip.Prefix // inside blocks of networks, as walls and lists were told
	trends    trends
	fleet     together
}

// Run follows, counts and blocks until ctx ends, then saves the state and
// returns nil. Blocks are left standing: their TTLs hold without us. A
// non-nil error says what could not go on.
func Run(ctx context.Context, o Options) error {
	lock, err := lockState(o.StateDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	d, err := open(o)
	if err != nil {
		return err
	}
	defer d.ledger.Close()
	return d.run(ctx)
}

// open brings back the state; nothing runs yet.
func open(o Options) (*daemon, error) {
	now := time.Now()
	if o.SaveEvery == 0 {
		o.SaveEvery = 30 * time.Second
	}
	set, problems := o.Load()
	if set == nil {
		return nil, &RulesError{Problems: problems}
	}
	d := &daemon{
		opt: o, log: o.Log, started: now, set: set,
		asks: make(chan func()), stopped: make(chan struct{}),
		positions: map[string]source.Pos{}, recovering: true,
		runner: runner.New(o.Log),
	}
	d.api = d.newAPI()
	var err error
	if d.notifier, err = d.newNotifier(set); err != nil {
		return nil, &RulesError{Problems: []rules.Problem{{File: set.Name, Msg: err.Error()}}}
	}
	d.runner.Notify = d.notify
	for _, w := range set.Warnings {
		d.log.Warn("rules", "warning", w.Error())
	}
	if d.reloadErr = o.OldRules; d.reloadErr != "" {
		for _, p := range problems {
			d.log.Error("rules", "mistake", p.Error())
		}
		d.log.Error(o.OldRules)
	}
	if l := d.lockless(set); l != "" {
		d.log.Warn("rules", "warning", l)
	}
	led, rec, err := ledger.Open(o.StateDir, now, d.ledgerOptions(set))
	if err != nil {
		return nil, err
	}
	d.ledger = led
	d.engine = pipeline.NewEngine(set)
	compiled, err := pipeline.Compile(set, time.Local)
	if err != nil {
		led.Close()
		return nil, err
	}
	d.machine = pipeline.New(compiled, d.engine, led)
	d.restore(rec)
	d.reconciler = reconcile.New(o.Wall, firewallLedger{d}, reconcile.Options{Log: d.log, Why: o.WallWhy, Ready: o.Ready})
	specs := sourceSpecs(set)
	d.sources, err = source.New(specs, source.Options{
		Saved: d.positions, Since: o.Since, Stamp: compiled.Stamps(now), MaxLine: set.Limits.LineBytes,
		Report: func(p source.Problem) { d.log.Warn("source", "origin", p.Origin, "problem", p.Err.Error()) },
	})
	if err != nil {
		led.Close()
		return nil, err
	}
	d.files = watchFiles(set)
	d.page, d.metrics = newService(d.keepPage), newService(d.showMetrics)
	d.feed, d.check = newService(d.serveFeed), newService(d.serveCheck)
	d.exports = newService(d.writeExports)
	d.configure(set)
	d.openFleet()
	return d, nil
}

// run starts all parts and waits until they have stopped.
func (d *daemon) run(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	batches := make(chan *source.Batch, 4)
	parts := []struct {
		name string
		do   func(context.Context) error
	}{
		{"reading the logs", func(ctx context.Context) error { return d.sources.Run(ctx, batches) }},
		{"updating the firewall", d.reconciler.Run},
		{"running programs", d.runner.Run},
		{"the watchdog", d.watchdog},
		{"sending notifications", d.notifier.Run},
		{"the metrics", d.metrics.run},
		{"the page", d.page.run},
		{"the feed", d.feed.run},
		{"the check", d.check.run},
		{"the exports", d.exports.run},
		{"the fleet", d.runFleet},
		{"the control socket", func(ctx context.Context) error { return control.Serve(ctx, d.opt.Listener, d.api) }},
	}
	d.refreshProtected(time.Now())
	d.showAll(time.Now())
	d.tellPolicy()
	done := make(chan error, len(parts))
	for _, p := range parts {
		go func() {
			err := p.do(ctx)
			switch {
			case ctx.Err() != nil: // asked to end
				err = nil
			case err == nil:
				err = errors.New("stopped unexpectedly")
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", p.name, err)
				cancel()
			}
			done <- err
		}()
	}
	d.loop(ctx, batches)
	close(d.stopped)
	var failed error
	for range parts {
		failed = cmp.Or(failed, <-done)
	}
	d.save(time.Now())
	return cmp.Or(failed, d.saveErr)
}

// RulesError is returned for rules with mistakes.
type RulesError struct{ Problems []rules.Problem }

func (e *RulesError) Error() string {
	return fmt.Sprintf("the rules have %d mistakes", len(e.Problems))
}
