//go:build linux

package firewall

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
)

// room leaves out what there is no room for.
func (w *NFTables) room(es []Entry) ([]Entry, error) {
	if len(w.held)+len(es) <= w.o.MaxSet {
		return es, nil
	}
	w.forgetEnded()
	full := &FullError{Wall: w.Name(), Max: w.o.MaxSet}
	left := w.o.MaxSet - len(w.held)
	es = slices.DeleteFunc(es, func(e Entry) bool {
		if _, there := w.held[e.Prefix]; there {
			return false
		}
		if left > 0 {
			left--
			return false
		}
		full.Left = append(full.Left, e.Prefix)
		return true
	})
	if len(full.Left) == 0 {
		return es, nil
	}
	return es, full
}

func (w *NFTables) forgetEnded() {
	now := time.Now()
	maps.DeleteFunc(w.held, func(_ netip.Prefix, h nftHeld) bool { return !h.until.After(now) })
}

// nftChange is what happens to one set in a batch.
type nftChange struct {
	add, refresh, remove []nftables.SetElement
}

func (w *NFTables) blockBatch(ctx context.Context, es []Entry) error {
	if err := w.ready(ctx); err != nil {
		return err
	}
	changes, err := w.changes(es, time.Now())
	if err != nil {
		return err
	}
	if err := w.send(changes); err != nil {
		return err
	}
	if err := w.flush(fmt.Sprintf("blocking %d prefixes", len(es))); err != nil {
		return err
	}
	for k := range changes {
		w.sets[k] = true
	}
	for _, e := range es {
		w.held[e.Prefix] = nftHeld{kindOfEntry(e), e.Until}
	}
	return nil
}

// changes sorts entries by their sets; one that was in another set leaves it.
func (w *NFTables) changes(es []Entry, now time.Time) (map[nftKind]*nftChange, error) {
	changes := map[nftKind]*nftChange{}
	of := func(k nftKind) *nftChange {
		if changes[k] == nil {
			changes[k] = &nftChange{}
		}
		return changes[k]
	}
	for _, e := range es {
		k := kindOfEntry(e)
		ttl := max(e.Until.Sub(now).Truncate(time.Millisecond), time.Millisecond)
		elem := nftables.SetElement{Key: e.Prefix.Addr().AsSlice(), Timeout: ttl}
		old, there := w.held[e.Prefix]
		switch {
		case !there:
			of(k).add = append(of(k).add, elem)
		case old.kind == k:
			of(k).refresh = append(of(k).refresh, elem)
		default:
			of(k).add = append(of(k).add, elem)
			of(old.kind).remove = append(of(old.kind).remove, elem)
		}
	}
	fresh := 0
	for k := range changes {
		if !w.sets[k] {
			fresh++
		}
	}
	if len(w.sets)+fresh > nftSets {
		return nil, fmt.Errorf("nftables: more than %d kinds of blocks (length, action, ports)", nftSets)
	}
	return changes, nil
}

// send puts the changes into the batch, making sets and rules that are new.
func (w *NFTables) send(changes map[nftKind]*nftChange) error {
	kinds := maps.Clone(w.sets)
	for k := range changes {
		if !kinds[k] {
			kinds[k] = true
			if err := w.addSet(k); err != nil {
				return w.fail("making set "+k.name(), err)
			}
		}
	}
	if len(kinds) > len(w.sets) {
		w.conn.FlushChain(w.chain(chainBlocks))
		w.addBlockRules(kinds)
	}
	for k, c := range changes {
		s := k.set(w.table, w.o.MaxSet)
		for _, err := range []error{
			w.elems(w.conn.SetAddElements, s, c.add),
			w.elems(w.conn.SetAddElements, s, c.refresh), w.elems(w.conn.SetDeleteElements, s, c.refresh), w.elems(w.conn.SetAddElements, s, c.refresh),
			w.elems(w.conn.SetAddElements, s, c.remove), w.elems(w.conn.SetDeleteElements, s, c.remove),
		} {
			if err != nil {
				return w.fail("writing elements", err)
			}
		}
	}
	return nil
}

func (w *NFTables) elems(do func(*nftables.Set, []nftables.SetElement) error, s *nftables.Set, es []nftables.SetElement) error {
	for part := range slices.Chunk(es, nftElems) {
		if err := do(s, part); err != nil {
			return err
		}
	}
	return nil
}
