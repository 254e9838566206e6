//go:build linux

// Package iptables blocks by rules of iptables in chains of its own. It is the
// only importer of go-iptables.
package iptables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-iptables/iptables"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
)

// xtables is what we use of go-iptables, for one family.
type xtables interface {
	List(table, chain string) ([]string, error)
	ChainExists(table, chain string) (bool, error)
	ClearChain(table, chain string) error // makes or flushes it
	Insert(table, chain string, pos int, rulespec ...string) error
	Append(table, chain string, rulespec ...string) error
	Delete(table, chain string, rulespec ...string) error
	ClearAndDeleteChain(table, chain string) error
	// Restore makes changes, lines of iptables-restore, all or none.
	Restore(ctx context.Context, table string, lines []string) error
}

// lockWait is how many seconds iptables waits for another program that holds
// the xtables lock; without it go-iptables waits for ever.
const lockWait = 5

// IPTables is a wall of plain rules, one or a few a block, in a chain of our
// own. Each rule says its end to us in its comment and to the kernel by the
// time match. A few changes are one run of iptables each, many one run of
// iptables-restore: for small lists and old kernels.
//
// The chain NAME is jumped to first from INPUT (and FORWARD where asked, and
// DOCKER-USER where it exists). In it, allowed prefixes, replies to our own
// connections and neighbour discovery RETURN; then come NAME-LOCK, a lockdown,
// and NAME-BLOCKS.
type Wall struct {
	Options firewall.Options
	open    func(v6 bool) (xtables, error)
	fams    []*Family
	noTime  bool // said in Notes
	noIPv6  bool
	Chain   string
	table   string
	builtin []string // chains that jump to ours
	optHook []string // likewise, where they exist
	ViaSets string   // when set, allowed and known sources are in ipsets of this name
}

// NewIPTables prepares the wall; nothing is run before Setup.
func New(o firewall.Options) (*Wall, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	w := &Wall{Options: o, Chain: strings.ToUpper(o.Name), open: func(v6 bool) (xtables, error) { return openXtables(o, v6) }}
	switch o.Hook {
	case firewall.HookInput:
		w.table, w.builtin, w.optHook = "filter", []string{"INPUT"}, []string{"DOCKER-USER"}
		if o.Forward {
			w.builtin = append(w.builtin, "FORWARD")
		}
	case firewall.HookPrerouting:
		w.table, w.builtin = "mangle", []string{"PREROUTING"}
	case firewall.HookRaw:
		w.table, w.builtin = "raw", []string{"PREROUTING"}
	}
	return w, nil
}

func openXtables(o firewall.Options, v6 bool) (xtables, error) {
	proto, path := iptables.ProtocolIPv4, cmp.Or(o.IPTables, "iptables")
	if v6 {
		proto, path = iptables.ProtocolIPv6, cmp.Or(o.IP6Tables, "ip6tables")
	}
	x, err := iptables.New(iptables.IPFamily(proto), iptables.Timeout(lockWait), iptables.Path(path))
	if err != nil {
		return nil, err
	}
	return realXtables{x, base.Runner{Timeout: 10 * time.Second}, path + "-restore"}, nil
}

// realXtables adds to go-iptables what it lacks.
type realXtables struct {
	*iptables.IPTables
	x       base.Executor
	restore string // program
}

func (r realXtables) Restore(ctx context.Context, table string, lines []string) error {
	in := "*" + table + "\n" + strings.Join(lines, "\n") + "\nCOMMIT\n"
	_, err := r.x.Run(ctx, []string{r.restore, "--noflush", "--wait=" + strconv.Itoa(lockWait)}, []byte(in))
	return err
}

// Name is "iptables".
func (w *Wall) Name() string { return "iptables" }

// families opens iptables and, where the kernel has IPv6, ip6tables.
func (w *Wall) families() ([]*Family, error) {
	if w.fams != nil {
		return w.fams, nil
	}
	var fams []*Family
	for _, v6 := range []bool{false, true} {
		if v6 && !HasIPv6() {
			w.noIPv6 = true
			break
		}
		x, err := w.open(v6)
		if err != nil {
			return nil, err
		}
		m := Maker{V6: v6, time: true, ct: w.Options.Hook != firewall.HookRaw, Slow: w.Options.Slow}
		fams = append(fams, &Family{x: x, w: w, Maker: m})
	}
	w.fams = fams
	return fams, nil
}

// hasIPv6 reports whether this kernel knows IPv6 at all.
func HasIPv6() bool {
	_, err := os.Stat("/proc/net/if_inet6")
	return err == nil
}

func (w *Wall) EachFamily(ctx context.Context, do func(*Family) error) error {
	fams, err := w.families()
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range fams {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		errs = append(errs, do(f))
	}
	return errors.Join(errs...)
}

// Setup makes the chains, probes for the time match, hooks the chain in first,
// and brings the policy up to date without an instant in which an allowed
// host could be blocked. When it fails on a machine where nothing of ours
// stood, nothing is left behind.
func (w *Wall) Setup(ctx context.Context, p firewall.Policy) error {
	fresh := true
	err := w.EachFamily(ctx, func(f *Family) error {
		there, err := f.x.ChainExists(w.table, w.Chain)
		fresh = fresh && err == nil && !there
		return f.setup(p)
	})
	if err != nil && fresh && w.fams != nil {
		for _, f := range w.fams {
			_ = f.teardown() // the error that matters is the first one
		}
	}
	return err
}

// Block appends each entry's rules before its older ones go, so that a
// refresh leaves no gap.
func (w *Wall) Block(ctx context.Context, es []firewall.Entry) error {
	live, ended, err := firewall.Prepare(es, time.Now())
	live, unfit := w.Fitting(live)
	full := &firewall.FullError{Wall: w.Name(), Max: w.Options.MaxRules}
	more := w.EachFamily(ctx, func(f *Family) error { return f.block(ctx, live, setOf(ended), full) })
	errs := []error{err, unfit, more}
	if len(full.Left) > 0 {
		errs = append(errs, full)
	}
	return errors.Join(errs...)
}

// fitting leaves out what the hook cannot do: refused rather than done
// otherwise than asked.
func (w *Wall) Fitting(es []firewall.Entry) ([]firewall.Entry, error) {
	var errs []error
	es = slices.DeleteFunc(es, func(e firewall.Entry) bool {
		bad := e.Action == firewall.Slow && w.Options.Hook == firewall.HookRaw || e.Action == firewall.Reject && w.Options.Hook != firewall.HookInput
		if bad {
			errs = append(errs, fmt.Errorf("iptables: %s of %s at %s: %w", e.Action, e.Prefix, w.Options.Hook, firewall.ErrUnsupported))
		}
		return bad
	})
	return es, errors.Join(errs...)
}

// Unblock deletes the rules of these prefixes.
func (w *Wall) Unblock(ctx context.Context, ps []netip.Prefix) error {
	gone := setOf(ps)
	return w.EachFamily(ctx, func(f *Family) error {
		return f.remove(ctx, func(e firewall.Entry) bool { return gone[e.Prefix] })
	})
}

func setOf(ps []netip.Prefix) map[netip.Prefix]bool {
	set := make(map[netip.Prefix]bool, len(ps))
	for _, p := range ps {
		set[p] = true
	}
	return set
}

// List reads our chain back. Rules whose end has come are not listed.
func (w *Wall) List(ctx context.Context, emit func(firewall.Entry)) error {
	now := time.Now()
	lost := false
	err := w.EachFamily(ctx, func(f *Family) error {
		held, err := f.held()
		if err != nil {
			return err
		}
		lost = lost || f.lost || f.moved()
		f.lost = false
		for _, h := range held {
			if h.entry.Until.After(now) {
				emit(h.entry)
			}
		}
		return nil
	})
	if err == nil && lost {
		return fmt.Errorf("iptables: chain %s-BLOCKS was flushed or replaced: %w", w.Chain, firewall.ErrBroken)
	}
	return err
}

// Expire deletes the rules whose end has come; the kernel no longer heeds
// them, but they cost room. Where our chain does not stand nothing has.
func (w *Wall) Expire(ctx context.Context) error {
	now := time.Now()
	return w.EachFamily(ctx, func(f *Family) error {
		// iptables-nft lists a chain that is not there with an error of its own.
		if there, err := f.x.ChainExists(w.table, f.BlocksChain()); err != nil || !there {
			return f.fail("looking for chain "+f.BlocksChain(), err)
		}
		return f.remove(ctx, func(e firewall.Entry) bool { return !e.Until.After(now) })
	})
}

// Check looks whether the chains stand and are jumped to, and whether the
// blocks were flushed or replaced.
func (w *Wall) Check(ctx context.Context) error {
	return w.EachFamily(ctx, func(f *Family) error {
		if err := f.check(); err != nil || w.ViaSets != "" {
			return err
		}
		_, err := f.held()
		if err == nil && f.moved() {
			return fmt.Errorf("%s: chain %s was flushed or replaced: %w", f, f.BlocksChain(), firewall.ErrBroken)
		}
		return err
	})
}

// Teardown removes our chains and the jumps to them.
func (w *Wall) Teardown(ctx context.Context) error {
	return w.EachFamily(ctx, func(f *Family) error { return f.teardown() })
}

// Notes says what this kernel lacks.
func (w *Wall) Notes() []string {
	var notes []string
	if w.noTime {
		notes = append(notes, "this kernel has no time match: blocks end only while stoplog runs, or at its next start")
	}
	if w.noIPv6 {
		notes = append(notes, "this kernel has no IPv6: only IPv4 is blocked")
	}
	if w.Options.Hook == firewall.HookRaw {
		notes = append(notes, "hook raw: replies from blocked prefixes to this machine's own connections are dropped, too")
	}
	return notes
}

// probe proves that rules can be listed here, which needs every right that
// changing them needs.
func (w *Wall) Probe(ctx context.Context) error {
	return w.EachFamily(ctx, func(f *Family) error {
		_, err := f.x.List(w.table, w.builtin[0])
		return f.fail("listing "+w.builtin[0], err)
	})
}
