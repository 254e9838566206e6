//go:build linux

package listwall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
	"stoplog/internal/firewall/ipset"
	"stoplog/internal/firewall/nft"
)

// SetOnly fills sets that the administrator made and whose rules are the
// administrator's: Options.Set4 and Set6, either of which may be empty. The
// sets must have timeouts, so that nothing outlives its end there. Elements
// that others put there stay; what is taken out is what we put in.
type SetOnly struct{ *wall }

// NewSetOnly prepares the wall; nothing is looked at before Setup.
func NewSetOnly(o firewall.Options) (*SetOnly, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	s := &sets{}
	for v6, spec := range map[bool]string{false: o.Set4, true: o.Set6} {
		if spec == "" {
			continue
		}
		store, err := newSetStore(o, spec, v6)
		if err != nil {
			return nil, err
		}
		s.stores = append(s.stores, familyStore{v6, store})
	}
	if len(s.stores) == 0 {
		return nil, errors.New("set-only: no set is configured")
	}
	return &SetOnly{newWall(s, o.MaxSet)}, nil
}

func (w *SetOnly) Probe(ctx context.Context) error { return w.l.setup(ctx) }

// setStore is one set of one family.
type setOf interface {
	Check(ctx context.Context) error
	Apply(ctx context.Context, add []firewall.Entry, remove []netip.Prefix) error
	List(ctx context.Context) ([]netip.Prefix, error)
}

func newSetStore(o firewall.Options, spec string, v6 bool) (setOf, error) {
	kind, rest, _ := strings.Cut(spec, ":")
	f := strings.Split(rest, ":")
	switch {
	case kind == "ipset" && len(f) == 1 && setName(f[0]):
		return ipset.OpenSet(f[0], v6), nil
	case kind == "nft" && len(f) == 3 && setName(f[1]) && setName(f[2]):
		if s := nft.OpenSet(f[0], f[1], f[2], v6); s != nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("set-only: set %q: expected ipset:NAME or nft:FAMILY:TABLE:SET", spec)
}

// setName refuses what could be an option or a second word.
func setName(s string) bool {
	if s == "" || len(s) > 31 || s[0] == '-' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.", r))
	})
}

type familyStore struct {
	v6 bool
	setOf
}

// setList is the sets of both families as one list.
type sets struct{ stores []familyStore }

func (s *sets) name() string { return "set-only" }

func (s *sets) setup(ctx context.Context) error {
	var errs []error
	for _, st := range s.stores {
		errs = append(errs, st.Check(ctx))
	}
	return errors.Join(errs...)
}

func (s *sets) apply(ctx context.Context, add []firewall.Entry, remove []netip.Prefix) error {
	var errs []error
	for _, st := range s.stores {
		a := slices.DeleteFunc(slices.Clone(add), func(e firewall.Entry) bool { return e.Prefix.Addr().Is6() != st.v6 })
		r := slices.DeleteFunc(slices.Clone(remove), func(p netip.Prefix) bool { return p.Addr().Is6() != st.v6 })
		if len(a)+len(r) > 0 {
			errs = append(errs, st.Apply(ctx, a, r))
		}
	}
	return errors.Join(errs...)
}

// present asks the sets. They are the administrator's, so that nothing marks
// what we put there: several blocks that are gone at once from one set were
// flushed, one alone was deleted.
func (s *sets) present(ctx context.Context, pieces map[netip.Prefix]firewall.Entry) (map[netip.Prefix]bool, error) {
	there := map[netip.Prefix]bool{}
	missing := map[bool]int{} // by family
	has := map[bool]bool{}
	for _, st := range s.stores {
		has[st.v6] = true
		ps, err := st.List(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range ps {
			there[p] = true
		}
	}
	soon := time.Now().Add(base.EndSlack)
	for p, e := range pieces {
		v6 := p.Addr().Is6()
		switch {
		case !has[v6]: // of a family without a set nothing can be missing
			there[p] = true
		case !there[p] && e.Until.After(soon):
			missing[v6]++
		}
	}
	if missing[false] > 1 || missing[true] > 1 {
		return there, fmt.Errorf("set-only: a set was flushed: %w", firewall.ErrBroken)
	}
	return there, nil
}

func (s *sets) teardown(context.Context) error { return nil }
