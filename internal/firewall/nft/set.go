//go:build linux

package nft

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
	"go4.org/netipx"

	"stoplog/internal/firewall"
)

// nftStore is one of the administrator's nft sets, of ranges with timeouts.
type Set struct {
	w    *Wall // for its socket
	set  *nftables.Set
	v6   bool
	spec string
}

// nftFamilies are nft's words for families of tables.
var nftFamilies = map[string]nftables.TableFamily{
	"inet": nftables.TableFamilyINet, "ip": nftables.TableFamilyIPv4, "ip6": nftables.TableFamilyIPv6, "netdev": nftables.TableFamilyNetdev,
}

// openNFTSet names a set of one address family; nil: nft knows no such family
// of tables. Nothing is looked at before check.
func OpenSet(family, table, set string, v6 bool) *Set {
	fam, known := nftFamilies[family]
	if !known {
		return nil
	}
	w := &Wall{Options: firewall.Options{Name: table}, own: map[uint32]bool{}} // the name is for messages
	t := &nftables.Table{Name: table, Family: fam}
	s := &nftables.Set{Table: t, Name: set, Interval: true, HasTimeout: true, KeyType: nftables.TypeIPAddr}
	if v6 {
		s.KeyType = nftables.TypeIP6Addr
	}
	return &Set{w: w, set: s, v6: v6, spec: "nft set " + family + " " + table + " " + set}
}

func (s *Set) Check(ctx context.Context) error {
	if err := s.w.ready(ctx); err != nil {
		return err
	}
	got, err := s.w.conn.GetSetByName(s.set.Table, s.set.Name)
	if err != nil {
		return fmt.Errorf("set-only: %s: %w", s.spec, err)
	}
	switch {
	case got.KeyType.Bytes != s.set.KeyType.Bytes:
		return fmt.Errorf("set-only: %s has the wrong address family", s.spec)
	case !got.Interval || !got.HasTimeout:
		return fmt.Errorf("set-only: %s: create it with `flags interval, timeout`", s.spec)
	}
	return nil
}

// elems are the start, which carries the timeout, and the end of each range.
func (s *Set) elems(ps []firewall.Entry, now time.Time) []nftables.SetElement {
	var es []nftables.SetElement
	for _, e := range ps {
		ttl := max(e.Until.Sub(now).Truncate(time.Millisecond), time.Millisecond)
		es = append(es, nftables.SetElement{Key: e.Prefix.Addr().AsSlice(), Timeout: ttl})
		if end := netipx.PrefixLastIP(e.Prefix).Next(); end.IsValid() {
			es = append(es, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
		}
	}
	return es
}

// apply works as the nftables wall's batches do. What ended by itself, or was
// removed by others, is no longer there to be deleted: what is there is asked
// first.
func (s *Set) Apply(ctx context.Context, add []firewall.Entry, remove []netip.Prefix) error {
	there, err := s.List(ctx)
	if err != nil {
		return err
	}
	gone := map[netip.Prefix]bool{}
	for _, p := range remove {
		gone[p] = true
	}
	for _, e := range add {
		gone[e.Prefix] = true // an interval cannot be added again
	}
	var out []firewall.Entry
	for _, p := range there {
		if gone[p] {
			out = append(out, firewall.Entry{Prefix: p, Until: time.Now().Add(time.Hour)})
		}
	}
	now := time.Now()
	for part := range slices.Chunk(out, nftElems/2) {
		if err := s.w.conn.SetDeleteElements(s.set, s.elems(part, now)); err != nil {
			return fmt.Errorf("set-only: %s: %w", s.spec, err)
		}
	}
	for part := range slices.Chunk(add, nftElems/2) {
		if err := s.w.conn.SetAddElements(s.set, s.elems(part, now)); err != nil {
			return fmt.Errorf("set-only: %s: %w", s.spec, err)
		}
	}
	if err := s.w.flush("writing " + s.spec); err != nil {
		return fmt.Errorf("set-only: %w", err)
	}
	return nil
}

// list pairs starts and ends up again. Ranges that are no prefix are others'.
func (s *Set) List(ctx context.Context) ([]netip.Prefix, error) {
	if err := s.w.ready(ctx); err != nil {
		return nil, err
	}
	elems, err := s.w.conn.GetSetElements(s.set)
	if err != nil {
		return nil, fmt.Errorf("set-only: %s: %w", s.spec, err)
	}
	slices.SortFunc(elems, func(a, b nftables.SetElement) int {
		if c := slices.Compare(a.Key, b.Key); c != 0 || a.IntervalEnd == b.IntervalEnd {
			return c
		}
		if a.IntervalEnd { // one range ends where the next begins
			return -1
		}
		return 1
	})
	var ps []netip.Prefix
	for i, el := range elems {
		from, ok := netip.AddrFromSlice(el.Key)
		if el.IntervalEnd || !ok || from.Is6() != s.v6 {
			continue
		}
		last := netipx.RangeOfPrefix(netip.PrefixFrom(from, 0)).To()
		if i+1 < len(elems) && elems[i+1].IntervalEnd {
			end, _ := netip.AddrFromSlice(elems[i+1].Key)
			last = end.Prev()
		}
		if p, ok := netipx.IPRangeFrom(from, last).Prefix(); ok {
			ps = append(ps, p)
		}
	}
	return ps, nil
}
