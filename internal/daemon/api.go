package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"stoplog/internal/addr"
	"stoplog/internal/control"
	"stoplog/internal/ledger"
	"stoplog/internal/rules"
)

// api answers the control socket and the page: it implements control.Daemon. Every method runs on the loop's goroutine, through ask.
type api struct{ d *daemon }

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
func (x *api) do(ctx context.Context, f func(now time.Time) (control.Answer, error)) (a control.Answer, err error) {
	if e := x.d.ask(ctx, func() { a, err = f(time.Now()) }); e != nil {
		return control.Answer{}, e
	}
	return a, err
}

// heldWithin bounds how long an order waits for the firewall before it is
// answered.
const heldWithin = 5 * time.Second

// order is do for orders that the firewall has to apply: it returns when it has,
// or with the reason why it has not. what starts that error's text.
func (x *api) order(ctx context.Context, what string, f func(now time.Time) (control.Answer, error)) (control.Answer, error) {
	var applied <-chan error
	a, err := x.do(ctx, func(now time.Time) (control.Answer, error) {
		a, err := f(now)
		applied = x.d.reconciler.Applied()
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
	case <-x.d.stopped:
		why = errStopping
	}
	if why != nil {
		return control.Answer{}, errors.Join(err, fmt.Errorf("%s, but the firewall has not applied it yet: %w; stoplog keeps trying", what, why))
	}
	return a, err
}

func (x *api) Block(ctx context.Context, o control.Order) (control.Answer, error) {
	o, p, err := tidy(o)
	if err != nil {
		return control.Answer{}, err
	}
	return x.order(ctx, "the block of "+p.String()+" is saved", func(now time.Time) (control.Answer, error) {
		ttl := o.TTL
		if ttl == 0 {
			ttl = x.d.set.Block.TTL
		}
		p := addr.OfPrefix(p)
		cs, err := x.d.ledger.BlockByHand(p, ttl, o.Reason, o.By, now)
		if len(cs) == 0 {
			return control.Answer{}, orRefused(err, p)
		}
		x.d.apply(cs, "")
		x.d.log.Info("block", "prefix", p, "by", o.By, "for", rules.FormatDuration(ttl), "reason", o.Reason)
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

// said answers with one sentence. err means that the order was applied out but
// may not survive a crash.
func said(err error, format string, args ...any) (control.Answer, error) {
	line := fmt.Sprintf(format, args...)
	if err != nil {
		return control.Answer{}, fmt.Errorf("%s, but saving it failed: %w", line, err)
	}
	return control.Answer{Lines: []string{line}}, nil
}

func (x *api) Unblock(ctx context.Context, o control.Order) (control.Answer, error) {
	o, p, err := tidy(o)
	if err != nil {
		return control.Answer{}, err
	}
	return x.order(ctx, "the unblock of "+p.String()+" is saved", func(now time.Time) (control.Answer, error) {
		p := addr.OfPrefix(p)
		l, err := x.d.ledger.Unblock(p, o.By, now)
		x.d.lift(l, "by "+o.By)
		x.d.engine.Forget(p)
		x.d.void(p, now)
		n := lifts(l.Changes)
		if n == 0 {
			x.d.save(now) // empty buckets are an order too, and on disk before the answer
			return said(err, "%s was not blocked; its buckets are now empty", p)
		}
		return said(err, "lifted %s; the buckets of %s are now empty", counted(n, "block"), p)
	})
}

func lifts(cs []ledger.Change) (n int) {
	for _, c := range cs {
		if c.Op == ledger.Lift {
			n++
		}
	}
	return n
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (x *api) Allow(ctx context.Context, o control.Order) (control.Answer, error) {
	o, p, err := tidy(o)
	if err != nil {
		return control.Answer{}, err
	}
	return x.order(ctx, "the permission for "+p.String()+" is saved", func(now time.Time) (control.Answer, error) {
		l, err := x.d.ledger.Allow(p, o.TTL, o.Reason, o.By, now)
		x.d.lift(l, "allowed by "+o.By)
		x.d.tellPolicy()
		x.d.dirty = true
		span := "permanently"
		if o.TTL > 0 {
			span = "for " + rules.FormatDuration(o.TTL)
		}
		return said(err, "allowed %s %s", p, span)
	})
}

func (x *api) Disallow(ctx context.Context, o control.Order) (control.Answer, error) {
	o, p, err := tidy(o)
	if err != nil {
		return control.Answer{}, err
	}
	return x.order(ctx, "the end of the permission for "+p.String()+" is saved", func(now time.Time) (control.Answer, error) {
		was, err := x.d.ledger.Disallow(p, o.By, now)
		x.d.tellPolicy()
		if !was && err == nil {
			return control.Answer{}, control.BadOrder("%s is not allowed by hand; see: stoplog allow list", p)
		}
		return said(err, "%s is no longer allowed by hand", p)
	})
}

func (x *api) Allowed(ctx context.Context) (as []control.AllowEntry, err error) {
	err = x.d.ask(ctx, func() { as = x.d.allowed(time.Now()) })
	return as, err
}

// allowed lists all allowed prefixes and their origin.
func (d *daemon) allowed(now time.Time) []control.AllowEntry {
	as := []control.AllowEntry{}
	for _, a := range d.ledger.Allowances(now) {
		e := control.AllowEntry{Prefix: a.Prefix.String(), Origin: "by hand", Reason: a.Reason, By: a.By}
		if !a.Until.IsZero() {
			e.Until = &a.Until
		}
		as = append(as, e)
	}
	for _, p := range d.set.Allow.Prefixes {
		as = append(as, control.AllowEntry{Prefix: p.String(), Origin: "rules"})
	}
	if len(d.set.Allow.Files) > 0 {
		listed, _ := rules.List{Files: d.set.Allow.Files}.Read()
		for _, p := range listed {
			as = append(as, control.AllowEntry{Prefix: p.String(), Origin: "file"})
		}
	}
	for _, s := range d.set.Sources {
		for _, p := range s.Client.Trusted {
			as = append(as, control.AllowEntry{Prefix: p.String(), Origin: "trusted proxy"})
		}
	}
	for _, a := range d.protected {
		as = append(as, control.AllowEntry{Prefix: a.Prefix().String(), Origin: "protected: " + a.Why})
	}
	return as
}

func (x *api) Flags(ctx context.Context) (fs []control.FlagEntry, err error) {
	err = x.d.ask(ctx, func() { fs = x.d.flags(time.Now()) })
	return fs, err
}

func (d *daemon) flags(now time.Time) []control.FlagEntry {
	fs := []control.FlagEntry{}
	for _, f := range d.ledger.Flags(now) {
		by := f.By
		if by == "" {
			by = "rule " + f.Rule
		}
		fs = append(fs, control.FlagEntry{Name: f.Name, Until: f.Until, By: by, ReadBy: d.readers(f.Name)})
	}
	if l := d.ledger.Lockdown(); l.Until.After(now) {
		fs = append(fs, control.FlagEntry{Name: rules.LockdownFlag, Until: l.Until, By: "rule " + l.Rule})
	}
	return fs
}

// readers are the rules whose limits a flag changes.
func (d *daemon) readers(flag string) (names []string) {
	for _, r := range d.set.Rules {
		if slices.ContainsFunc(r.When, func(w rules.When) bool { return w.Flag == flag }) {
			names = append(names, r.Name)
		}
	}
	return names
}

func (x *api) SetFlag(ctx context.Context, o control.FlagOrder) (control.Answer, error) {
	if !rules.FlagName(o.Name) || o.For <= 0 {
		return control.Answer{}, control.BadOrder("flag %q: expected a name of a-z, 0-9 and -, and a positive time", o.Name)
	}
	if o.Name == rules.LockdownFlag {
		return control.Answer{}, control.BadOrder("lockdown cannot be set as a flag: only a rule starts a lockdown")
	}
	return x.do(ctx, func(now time.Time) (control.Answer, error) {
		err := x.d.ledger.RaiseFlag(o.Name, o.For, "", o.By, now)
		x.d.showPolicy(now)
		return said(err, "flag %s is raised for %s", o.Name, rules.FormatDuration(o.For))
	})
}

func (x *api) ClearFlag(ctx context.Context, o control.FlagOrder) (control.Answer, error) {
	if !rules.FlagName(o.Name) {
		return control.Answer{}, control.BadOrder("flag %q: expected a name of a-z, 0-9 and -", o.Name)
	}
	return x.do(ctx, func(now time.Time) (control.Answer, error) {
		was, err := x.d.ledger.ClearFlag(o.Name, o.By, now)
		x.d.showPolicy(now)
		if o.Name == rules.LockdownFlag && x.d.ledger.Lockdown().Until.After(now) {
			was, err = true, errors.Join(err, x.d.ledger.EndLockdown(o.By, now))
			x.d.tellPolicy()
		}
		if !was && err == nil {
			return control.Answer{Lines: []string{"flag " + o.Name + " was not raised"}}, nil
		}
		return said(err, "flag %s is cleared", o.Name)
	})
}

func (x *api) Reload(ctx context.Context) (control.Answer, error) {
	return x.do(ctx, func(now time.Time) (control.Answer, error) {
		var a control.Answer
		for _, p := range x.d.reload(now, "requested") {
			a.Problems = append(a.Problems, p.Error())
		}
		if len(a.Problems) == 0 {
			a.Lines = []string{"reloaded: " + counted(len(x.d.set.Rules), "rule") + " from " + x.d.set.Name}
		}
		return a, nil
	})
}

// maxSkipped bounds how far back History pages.
const maxSkipped = 100000

func (x *api) History(_ context.Context, q control.HistoryQuery) ([]control.AuditEntry, error) {
	lq := ledger.Query{Since: q.Since, Max: q.Limit, Skip: min(max(q.Offset, 0), maxSkipped)}
	if q.Limit <= 0 || q.Limit > 10000 {
		lq.Max = 1000
	}
	if p, err := target(q.Search); err == nil {
		lq.Prefix = addr.OfPrefix(p)
	} else if words := strings.ToLower(strings.TrimSpace(q.Search)); words != "" {
		lq.Want = func(e ledger.Entry) bool { return says(audited(e), words) }
	}
	if q.Target != "" {
		p, err := target(q.Target)
		if err != nil {
			return nil, err
		}
		lq.Prefix = addr.OfPrefix(p)
	}
	return x.d.history(lq)
}

// says reports whether an entry contains words, which are in lower case.
func says(e control.AuditEntry, words string) bool {
	for _, s := range [...]string{e.Prefix, e.What, e.Rule, e.Reason, e.By} {
		if strings.Contains(strings.ToLower(s), words) {
			return true
		}
	}
	return false
}

// history reads the audit trail's files; it needs no turn on the loop.
func (d *daemon) history(q ledger.Query) ([]control.AuditEntry, error) {
	as, err := ledger.History(d.opt.StateDir, q)
	if err != nil {
		return nil, err
	}
	out := make([]control.AuditEntry, len(as))
	for i, a := range as {
		out[i] = audited(a)
	}
	return out, nil
}

// audited is one line of the audit trail as the administrator sees it.
func audited(a ledger.Entry) control.AuditEntry {
	e := control.AuditEntry{Time: a.When().UTC(), What: a.Event, Rule: a.Rule, Reason: a.Reason, By: a.By, Count: a.Count, Points: a.Points}
	if a.Prefix.IsValid() {
		e.Prefix = a.Prefix.String()
	}
	if a.Flag != "" {
		e.Reason = strings.TrimSpace(a.Flag + " " + e.Reason)
	}
	if a.Block != nil {
		e.Evidence, e.Count, e.Points = a.Block.Evidence, a.Block.Count, a.Block.Points
		e.TTL = rules.FormatDuration(a.Block.Until.Sub(a.Block.Since).Round(time.Second))
	}
	return e
}

// deletedByHand records elements that somebody deleted with the firewall's
// own tools as unblocked.
func (d *daemon) deletedByHand(ps []netip.Prefix, now time.Time) {
	for _, p := range ps {
		standing := false
		for _, b := range d.ledger.Covering(p.Addr(), now) {
			standing = standing || b.Prefix == p
		}
		if !standing {
			continue // ended meanwhile
		}
		l, err := d.ledger.UnblockExact(p, "firewall tools", now)
		if err != nil {
			d.note(err.Error())
		}
		d.lift(l, "deleted from the firewall by hand")
	}
}

// trouble lists the current problems.
func (d *daemon) trouble() []string {
	var ts []string
	w := d.reconciler.State()
	for _, s := range slices.Concat([]string{w.Err, w.Full, w.Conflict, d.reloadErr, d.lockless(d.set)}, d.listErrs, d.tierErrs, d.lacks, d.problems.all(true)) {
		if s != "" {
			ts = append(ts, s)
		}
	}
	for _, l := range d.opt.Leftovers {
		if d.opt.DryRun {
			break // what an earlier run blocked is a note
		}
		ts = append(ts, "blocks of a firewall backend that is no longer in use may still drop packets: "+l)
	}
	if d.saveErr != nil {
		ts = append(ts, "state is not saved: "+d.saveErr.Error())
	}
	for _, h := range d.ledger.Health() {
		if d.saveErr == nil || !strings.Contains(d.saveErr.Error(), h) {
			ts = append(ts, h)
		}
	}
	if n := d.runner.Dropped.Load(); n > 0 {
		ts = append(ts, fmt.Sprintf("%d programs of exec answers were not started: too many were waiting", n))
	}
	return append(ts, d.notifyTrouble()...)
}

var _ control.Daemon = (*api)(nil)
