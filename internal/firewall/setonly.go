//go:build linux

package firewall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
)

// SetOnly fills sets that the administrator made and whose rules are the
// administrator's: Options.Set4 and Set6, either of which may be empty. The
// sets must have timeouts, so that nothing outlives its end there. Elements
// that others put there stay; what is taken out is what we put in.
type SetOnly struct{ *listWall }

// NewSetOnly prepares the wall; nothing is looked at before Setup.
func NewSetOnly(o Options) (*SetOnly, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &setList{}
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
	return &SetOnly{newListWall(s, o.MaxSet)}, nil
}

func (w *SetOnly) probe(ctx context.Context) error { return w.l.setup(ctx) }

// setStore is one set of one family.
type setStore interface {
	check(ctx context.Context) error
	apply(ctx context.Context, add []Entry, remove []netip.Prefix) error
	list(ctx context.Context) ([]netip.Prefix, error)
}

func newSetStore(o Options, spec string, v6 bool) (setStore, error) {
	kind, rest, _ := strings.Cut(spec, ":")
	f := strings.Split(rest, ":")
	switch {
	case kind == "ipset" && len(f) == 1 && setName(f[0]):
		return &ipsetStore{x: &ipsetConn{}, set: f[0], v6: v6}, nil
	case kind == "nft" && len(f) == 3 && setName(f[1]) && setName(f[2]):
		for fam, name := range nftFamilies {
			if f[0] == name {
				return newNFTStore(fam, f[1], f[2], v6)
			}
		}
	}
	return nil, fmt.Errorf("set-only: set %q: expected ipset:NAME or nft:FAMILY:TABLE:SET", spec)
}

var nftFamilies = map[nftables.TableFamily]string{
	nftables.TableFamilyINet: "inet", nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6", nftables.TableFamilyNetdev: "netdev",
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
	setStore
}

// setList is the sets of both families as one list.
type setList struct{ stores []familyStore }

func (s *setList) name() string { return "set-only" }

func (s *setList) setup(ctx context.Context) error {
	var errs []error
	for _, st := range s.stores {
		errs = append(errs, st.check(ctx))
	}
	return errors.Join(errs...)
}

func (s *setList) apply(ctx context.Context, add []Entry, remove []netip.Prefix) error {
	var errs []error
	for _, st := range s.stores {
		a := slices.DeleteFunc(slices.Clone(add), func(e Entry) bool { return e.Prefix.Addr().Is6() != st.v6 })
		r := slices.DeleteFunc(slices.Clone(remove), func(p netip.Prefix) bool { return p.Addr().Is6() != st.v6 })
		if len(a)+len(r) > 0 {
			errs = append(errs, st.apply(ctx, a, r))
		}
	}
	return errors.Join(errs...)
}

// present asks the sets. They are the administrator's, so that nothing marks
// what we put there: several blocks that are gone at once from one set were
// flushed, one alone was deleted.
func (s *setList) present(ctx context.Context, pieces map[netip.Prefix]Entry) (map[netip.Prefix]bool, error) {
	there := map[netip.Prefix]bool{}
	var missing [2]int
	has := map[bool]bool{}
	for _, st := range s.stores {
		has[st.v6] = true
		ps, err := st.list(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range ps {
			there[p] = true
		}
	}
	soon := time.Now().Add(endSlack)
	for p, e := range pieces {
		v6 := p.Addr().Is6()
		switch {
		case !has[v6]: // of a family without a set nothing can be missing
			there[p] = true
		case !there[p] && e.Until.After(soon):
			missing[famIndex(v6)]++
		}
	}
	if missing[0] > 1 || missing[1] > 1 {
		return there, fmt.Errorf("set-only: a set was flushed: %w", ErrBroken)
	}
	return there, nil
}

func (s *setList) teardown(context.Context) error { return nil }

// ipsetStore is one of the administrator's ipsets.
type ipsetStore struct {
	x   *ipsetConn
	set string
	v6  bool
}

func (s *ipsetStore) check(ctx context.Context) error {
	sets, err := s.x.sets(ctx)
	if err != nil {
		return fmt.Errorf("set-only: %w", err)
	}
	info, there := sets[s.set]
	switch {
	case !there:
		return fmt.Errorf("set-only: there is no ipset %s", s.set)
	case info.typ != "hash:net":
		return fmt.Errorf("set-only: ipset %s is a %s; expected hash:net", s.set, info.typ)
	case !info.timeouts:
		return fmt.Errorf("set-only: ipset %s has no timeouts; create it with `timeout 0`", s.set)
	case info.v6 != s.v6:
		return fmt.Errorf("set-only: ipset %s has the wrong address family", s.set)
	}
	return nil
}

func (s *ipsetStore) apply(ctx context.Context, add []Entry, remove []netip.Prefix) error {
	var in, out []ipsetElem
	now := time.Now()
	for _, p := range remove {
		out = append(out, ipsetElem{p: p})
	}
	for _, e := range add {
		if ttl, ok := ipsetTTL(e, now); ok {
			in = append(in, ipsetElem{e.Prefix, ttl})
		}
	}
	err := s.x.del(ctx, s.set, out...)
	if err == nil {
		err = s.x.add(ctx, s.set, in...)
	}
	if err != nil {
		return fmt.Errorf("set-only: %w", err)
	}
	return nil
}

func (s *ipsetStore) list(ctx context.Context) (ps []netip.Prefix, err error) {
	err = s.x.elems(ctx, s.set, func(e ipsetElem) {
		if e.ttl > 0 {
			ps = append(ps, e.p)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("set-only: %w", err)
	}
	return ps, nil
}
