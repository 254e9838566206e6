// Package api answers what the administrator asks of a running daemon, over the
// control socket and the page. It reads the loop's state and passes orders to it,
// and owns neither.
package api

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"stoplog/internal/addr"
	"stoplog/internal/control"
	"stoplog/internal/detect"
	"stoplog/internal/export"
	"stoplog/internal/fleet"
	"stoplog/internal/ledger"
	"stoplog/internal/pipeline"
	"stoplog/internal/protect"
	"stoplog/internal/reconcile"
	"stoplog/internal/rules"
	"stoplog/internal/source"
	"stoplog/internal/trend"
)

// Loop is the daemon's loop. Ask runs f on the loop's goroutine and waits for it;
// all methods but Ask and Done may only be called inside f, and State is only
// valid there.
type Loop interface {
	Ask(ctx context.Context, f func(State)) error
	// Done is closed when the loop has ended.
	Done() <-chan struct{}
	Health() Health
	// Trends are the counts for the charts, up to now.
	Trends(now time.Time) *trend.Trend
	// Block returns what changed, nothing if the ledger refuses the block.
	Block(p netip.Prefix, ttl time.Duration, reason, by string, now time.Time) ([]ledger.Change, error)
	// Unblock returns the number of blocks that it lifted.
	Unblock(p netip.Prefix, by string, now time.Time) (int, error)
	// Allow is permanent if ttl is 0.
	Allow(p netip.Prefix, ttl time.Duration, reason, by string, now time.Time) error
	// Disallow and ClearFlag report whether there was something to end.
	Disallow(p netip.Prefix, by string, now time.Time) (bool, error)
	RaiseFlag(name string, ttl time.Duration, by string, now time.Time) error
	ClearFlag(name, by string, now time.Time) (bool, error)
	// Reload returns the rules in use after it, and the mistakes of those that it
	// refused.
	Reload(now time.Time) (*rules.Set, []rules.Problem)
}

// ErrStopping is what Ask returns once the loop has ended.
var ErrStopping = errors.New("stoplog is stopping")

// State is what the loop owns and this package reads.
type State struct {
	Rules     *rules.Set
	Ledger    *ledger.Ledger
	Engine    *detect.Engine
	Machine   *pipeline.Machine
	Sources   *source.Set
	Firewall  *reconcile.Reconciler
	Protected []protect.Addr
	Fleet     *fleet.Node // nil: this machine counts alone
	// Limit is what a block closes when it closes less than everything.
	Limit func(ledger.Block) export.Limit
}

// Health is how the daemon itself is doing.
type Health struct {
	Recovering          bool
	SavedAt, ReloadedAt time.Time // zero: never
	// Trouble degrades the daemon, notes do not.
	Trouble, Notes []string
	Listeners      []string // the use of the feed and the check
}

// Options are what does not change while the daemon runs.
type Options struct {
	Version    string
	Rights     string
	StateDir   string
	Started    time.Time
	DryRun     bool
	Backend    string
	BackendWhy string // why it was chosen
}

// API answers the control socket and the page. All its methods may be called from
// several goroutines.
type API struct {
	loop Loop
	opt  Options
	live liveLook // of the loop's goroutine
}

// New returns the API of a loop.
func New(l Loop, o Options) *API { return &API{loop: l, opt: o} }

func target(s string) (netip.Prefix, error) {
	p, ok := rules.ParsePrefix(s)
	if !ok {
		return p, control.BadOrder("%q is not an IP address or prefix", s)
	}
	return p, nil
}

// maxReason is the longest reason of an order, in bytes.
const maxReason = 500

func tidy(o control.Order) (control.Order, netip.Prefix, error) {
	if len(o.Reason) > maxReason {
		return o, netip.Prefix{}, control.BadOrder("the reason is longer than %d bytes", maxReason)
	}
	if o.TTL < 0 {
		return o, netip.Prefix{}, control.BadOrder("the time %s is negative", o.TTL)
	}
	p, err := target(o.Target)
	return o, p, err
}

// do runs f on the loop and returns its answer.
func (x *API) do(ctx context.Context, f func(s State, now time.Time) (control.Answer, error)) (a control.Answer, err error) {
	if e := x.loop.Ask(ctx, func(s State) { a, err = f(s, time.Now()) }); e != nil {
		return control.Answer{}, e
	}
	return a, err
}

// heldWithin bounds how long an order waits for the firewall before it is
// answered.
const heldWithin = 5 * time.Second

// order is do for orders that the firewall has to apply: it returns when it has,
// or with the reason why it has not. what starts that error's text.
func (x *API) order(ctx context.Context, what string, f func(s State, now time.Time) (control.Answer, error)) (control.Answer, error) {
	var applied <-chan error
	a, err := x.do(ctx, func(s State, now time.Time) (control.Answer, error) {
		a, err := f(s, now)
		applied = s.Firewall.Applied()
		return a, err
	})
	if applied == nil || errors.Is(err, control.ErrBadOrder) {
		return a, err
	}
	late := time.NewTimer(heldWithin)
	defer late.Stop()
	var why error
	select {
	case why = <-applied:
	case <-late.C:
		why = fmt.Errorf("no answer within %s", rules.FormatDuration(heldWithin))
	case <-ctx.Done():
		why = ctx.Err()
	case <-x.loop.Done():
		why = ErrStopping
	}
	if why != nil {
		return control.Answer{}, errors.Join(err, fmt.Errorf("%s, but the firewall has not applied it yet: %w; stoplog keeps trying", what, why))
	}
	return a, err
}

func (x *API) Block(ctx context.Context, o control.Order) (control.Answer, error) {
	o, p, err := tidy(o)
	if err != nil {
		return control.Answer{}, err
	}
	return x.order(ctx, "the block of "+p.String()+" is saved", func(s State, now time.Time) (control.Answer, error) {
		ttl := o.TTL
		if ttl == 0 {
			ttl = s.Rules.Block.TTL
		}
		p := addr.OfPrefix(p)
		cs, err := x.loop.Block(p, ttl, o.Reason, o.By, now)
		if len(cs) == 0 {
			return control.Answer{}, orRefused(err, p)
		}
		return said(err, "blocked %s for %s", p, rules.FormatDuration(ttl))
	})
}

// orRefused is the error for an order that blocked nothing.
func orRefused(err error, p netip.Prefix) error {
	if err == nil {
		err = fmt.Errorf("%s was not blocked", p)
	}
	return control.BadOrder("%s", err)
}

// said answers with one sentence. err means that the order was carried out but
// may not survive a crash.
func said(err error, format string, args ...any) (control.Answer, error) {
	line := fmt.Sprintf(format, args...)
	if err != nil {
		return control.Answer{}, fmt.Errorf("%s, but saving it failed: %w", line, err)
	}
	return control.Answer{Lines: []string{line}}, nil
}

func (x *API) Unblock(ctx context.Context, o control.Order) (control.Answer, error) {
	o, p, err := tidy(o)
	if err != nil {
		return control.Answer{}, err
	}
	return x.order(ctx, "the unblock of "+p.String()+" is saved", func(_ State, now time.Time) (control.Answer, error) {
		p := addr.OfPrefix(p)
		n, err := x.loop.Unblock(p, o.By, now)
		if n == 0 {
			return said(err, "%s was not blocked; its buckets are now empty", p)
		}
		return said(err, "lifted %s; the buckets of %s are now empty", detect.Quantity(n, "block"), p)
	})
}

func (x *API) Allow(ctx context.Context, o control.Order) (control.Answer, error) {
	o, p, err := tidy(o)
	if err != nil {
		return control.Answer{}, err
	}
	return x.order(ctx, "the permission for "+p.String()+" is saved", func(_ State, now time.Time) (control.Answer, error) {
		err := x.loop.Allow(p, o.TTL, o.Reason, o.By, now)
		span := "permanently"
		if o.TTL > 0 {
			span = "for " + rules.FormatDuration(o.TTL)
		}
		return said(err, "allowed %s %s", p, span)
	})
}

func (x *API) Disallow(ctx context.Context, o control.Order) (control.Answer, error) {
	o, p, err := tidy(o)
	if err != nil {
		return control.Answer{}, err
	}
	return x.order(ctx, "the end of the permission for "+p.String()+" is saved", func(_ State, now time.Time) (control.Answer, error) {
		was, err := x.loop.Disallow(p, o.By, now)
		if !was && err == nil {
			return control.Answer{}, control.BadOrder("%s is not allowed by hand; see: stoplog allow list", p)
		}
		return said(err, "%s is no longer allowed by hand", p)
	})
}

func (x *API) Allowed(ctx context.Context) (as []control.AllowEntry, err error) {
	err = x.loop.Ask(ctx, func(s State) { as = s.allowed(time.Now()) })
	return as, err
}

// allowed lists all allowed prefixes and their origin.
func (s State) allowed(now time.Time) []control.AllowEntry {
	as := []control.AllowEntry{}
	for _, a := range s.Ledger.Allowances(now) {
		e := control.AllowEntry{Prefix: a.Prefix.String(), Origin: "by hand", Reason: a.Reason, By: a.By}
		if !a.Until.IsZero() {
			e.Until = &a.Until
		}
		as = append(as, e)
	}
	for _, p := range s.Rules.Allow.Prefixes {
		as = append(as, control.AllowEntry{Prefix: p.String(), Origin: "rules"})
	}
	if len(s.Rules.Allow.Files) > 0 {
		listed, _ := rules.List{Files: s.Rules.Allow.Files}.Read()
		for _, p := range listed {
			as = append(as, control.AllowEntry{Prefix: p.String(), Origin: "file"})
		}
	}
	for _, src := range s.Rules.Sources {
		for _, p := range src.Client.Trusted {
			as = append(as, control.AllowEntry{Prefix: p.String(), Origin: "trusted proxy"})
		}
	}
	for _, a := range s.Protected {
		as = append(as, control.AllowEntry{Prefix: a.Prefix().String(), Origin: "protected: " + a.Why})
	}
	return as
}

func (x *API) Flags(ctx context.Context) (fs []control.FlagEntry, err error) {
	err = x.loop.Ask(ctx, func(s State) { fs = s.flags(time.Now()) })
	return fs, err
}

func (s State) flags(now time.Time) []control.FlagEntry {
	fs := []control.FlagEntry{}
	for _, f := range s.Ledger.Flags(now) {
		by := f.By
		if by == "" {
			by = "rule " + f.Rule
		}
		fs = append(fs, control.FlagEntry{Name: f.Name, Until: f.Until, By: by, ReadBy: s.readers(f.Name)})
	}
	if l := s.Ledger.Lockdown(); l.Until.After(now) {
		fs = append(fs, control.FlagEntry{Name: rules.LockdownFlag, Until: l.Until, By: "rule " + l.Rule})
	}
	return fs
}

// readers are the rules whose limits a flag changes.
func (s State) readers(flag string) (names []string) {
	for _, r := range s.Rules.Rules {
		if slices.ContainsFunc(r.When, func(w rules.When) bool { return w.Flag == flag }) {
			names = append(names, r.Name)
		}
	}
	return names
}

func (x *API) SetFlag(ctx context.Context, o control.FlagOrder) (control.Answer, error) {
	if !rules.FlagName(o.Name) || o.For <= 0 {
		return control.Answer{}, control.BadOrder("flag %q: expected a name of a-z, 0-9 and -, and a positive time", o.Name)
	}
	if o.Name == rules.LockdownFlag {
		return control.Answer{}, control.BadOrder("lockdown cannot be set as a flag: only a rule starts a lockdown")
	}
	return x.do(ctx, func(_ State, now time.Time) (control.Answer, error) {
		err := x.loop.RaiseFlag(o.Name, o.For, o.By, now)
		return said(err, "flag %s is raised for %s", o.Name, rules.FormatDuration(o.For))
	})
}

func (x *API) ClearFlag(ctx context.Context, o control.FlagOrder) (control.Answer, error) {
	if !rules.FlagName(o.Name) {
		return control.Answer{}, control.BadOrder("flag %q: expected a name of a-z, 0-9 and -", o.Name)
	}
	return x.do(ctx, func(_ State, now time.Time) (control.Answer, error) {
		was, err := x.loop.ClearFlag(o.Name, o.By, now)
		if !was && err == nil {
			return control.Answer{Lines: []string{"flag " + o.Name + " was not raised"}}, nil
		}
		return said(err, "flag %s is cleared", o.Name)
	})
}

func (x *API) Reload(ctx context.Context) (control.Answer, error) {
	return x.do(ctx, func(_ State, now time.Time) (control.Answer, error) {
		var a control.Answer
		set, problems := x.loop.Reload(now)
		for _, p := range problems {
			a.Problems = append(a.Problems, p.Error())
		}
		if len(a.Problems) == 0 {
			a.Lines = []string{"reloaded: " + detect.Quantity(len(set.Rules), "rule") + " from " + set.Name}
		}
		return a, nil
	})
}

// FleetOrder passes an operator's order to all nodes.
func (x *API) FleetOrder(ctx context.Context, o fleet.Order) (control.Answer, error) {
	return x.do(ctx, func(s State, _ time.Time) (control.Answer, error) {
		if s.Fleet == nil {
			return control.Answer{}, control.BadOrder("this machine is not in a fleet")
		}
		if err := s.Fleet.Order(o); err != nil {
			return control.Answer{}, control.BadOrder("%s", err)
		}
		return said(nil, "ordered on all nodes: %s %s%s", o.Kind, o.Flag, prefixText(o.Prefix))
	})
}

func prefixText(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	return p.String()
}

var _ control.Daemon = (*API)(nil)
