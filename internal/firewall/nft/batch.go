//go:build linux

package nft

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"stoplog/internal/addr"
	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
)

// room leaves out what there is no room for.
func (w *Wall) room(es []firewall.Entry) ([]firewall.Entry, error) {
	if w.held.Len()+len(es) <= w.Options.MaxSet {
		return es, nil
	}
	w.held.Expire(time.Now())
	return base.RoomFor(es, w.Name(), w.Options.MaxSet, w.Options.MaxSet-w.held.Len(), func(p netip.Prefix) bool { _, there := w.held.Get(p); return there })
}

// nftChange is what happens to one set in a batch.
type setChange struct {
	add, refresh, remove []nftables.SetElement
}

func (w *Wall) blockBatch(ctx context.Context, es []firewall.Entry) error {
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
		w.forget(e.Prefix)
		w.held.Put(e.Prefix, kindOfEntry(e), e.Until)
	}
	return nil
}

// wholeOf is a block's prefix and its IPv6 forms. A Teredo client is found by
// the first form (see clients).
func wholeOf(p netip.Prefix) iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		if !yield(p) {
			return
		}
		for _, form := range addr.Forms(p) {
			if !yield(form) {
				return
			}
		}
	}
}

// of is the kind of one form of a block of that kind.
func (k kind) of(p netip.Prefix) kind {
	k.v6, k.bits = p.Addr().Is6(), p.Bits()
	return k
}

// forget drops a block and what may stand alone of its forms from held.
func (w *Wall) forget(p netip.Prefix) {
	for p := range wholeOf(p) {
		w.held.Drop(p)
	}
}

// changes sorts entries by their sets; one that was in another set leaves it.
func (w *Wall) changes(es []firewall.Entry, now time.Time) (map[kind]*setChange, error) {
	changes := map[kind]*setChange{}
	of := func(k kind) *setChange {
		if changes[k] == nil {
			changes[k] = &setChange{}
		}
		return changes[k]
	}
	for _, e := range es {
		kind := kindOfEntry(e)
		ttl := max(e.Until.Sub(now).Truncate(time.Millisecond), time.Millisecond)
		before, there := w.held.Get(e.Prefix)
		for p := range wholeOf(e.Prefix) {
			k, old, there := kind.of(p), before.of(p), there
			if stray, alone := w.held.Get(p); alone {
				old, there = stray, true
			}
			elem := nftables.SetElement{Key: p.Addr().AsSlice(), Timeout: ttl}
			switch {
			case !there:
				of(k).add = append(of(k).add, elem)
			case old == k:
				of(k).refresh = append(of(k).refresh, elem)
			default:
				of(k).add = append(of(k).add, elem)
				of(old).remove = append(of(old).remove, elem)
			}
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
func (w *Wall) send(changes map[kind]*setChange) error {
	kinds := maps.Clone(w.sets)
	for k := range changes {
		if !kinds[k] {
			kinds[k] = true
			if err := w.addSet(k); err != nil {
				return w.fail("creating set "+k.name(), err)
			}
		}
	}
	if len(kinds) > len(w.sets) {
		w.conn.FlushChain(w.chain(chainBlocks))
		w.addBlockRules(kinds)
	}
	for k, c := range changes {
		s := k.set(w.table, w.Options.MaxSet)
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

func (w *Wall) elems(do func(*nftables.Set, []nftables.SetElement) error, s *nftables.Set, es []nftables.SetElement) error {
	for part := range slices.Chunk(es, nftElems) {
		if err := do(s, part); err != nil {
			return err
		}
	}
	return nil
}

// dumpTries is how often a listing is begun again that others' changes broke into.
const dumpTries = 5

// dump calls see with each element of a set, what is left of it (0: it has no
// end), and since when that is so; with some twice, if others changed the
// ruleset meanwhile. Elements are read off the socket one message after the
// other: nothing of the size of the set is kept.
func (w *Wall) dump(ctx context.Context, k kind, see func(key []byte, expires time.Duration, now time.Time)) error {
	for range dumpTries {
		torn, err := w.dumpOnce(ctx, k, see)
		if err != nil || !torn {
			return err
		}
	}
	return fmt.Errorf("the ruleset changed %d times while it was read", dumpTries)
}

func (w *Wall) dumpOnce(ctx context.Context, k kind, see func(key []byte, expires time.Duration, now time.Time)) (torn bool, err error) {
	c, err := base.DialNetfilter(ctx)
	if err != nil {
		return false, err
	}
	defer c.Close()
	body := []byte{unix.NFPROTO_INET, unix.NFNETLINK_V0, 0, 0}
	body = base.AttrText(body, unix.NFTA_SET_ELEM_LIST_TABLE, w.Options.Name)
	body = base.AttrText(body, unix.NFTA_SET_ELEM_LIST_SET, k.name())
	_, err = c.Send(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETSETELEM, Flags: netlink.Request | netlink.Acknowledge | netlink.Dump}, Data: body,
	})
	if err != nil {
		return false, err
	}
	now := time.Now() // before the kernel counts what is left: never late
	return base.ReceiveDump(c, func(data []byte) {
		_, _, elems := tableAndSet(data)
		base.Attributes(elems, func(_ uint16, elem []byte) {
			if key, expires := setElement(elem); key != nil {
				see(key, expires, now)
			}
		})
	})
}

// setElement reads an element's key and what is left of it.
func setElement(elem []byte) (key []byte, expires time.Duration) {
	base.Attributes(elem, func(typ uint16, b []byte) {
		switch {
		case typ == unix.NFTA_SET_ELEM_KEY:
			base.Attributes(b, func(_ uint16, k []byte) { key = k })
		case typ == unix.NFTA_SET_ELEM_EXPIRATION && len(b) == 8:
			expires = time.Duration(binary.BigEndian.Uint64(b)) * time.Millisecond
		}
	})
	return key, expires
}
