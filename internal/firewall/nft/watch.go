//go:build linux

package nft

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"stoplog/internal/addr"
	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
)

// Watch reads the kernel's notifications and tells what others do to our
// table. One element deleted in one transaction is a deletion by hand; more
// at once, a chain, a set, a rule or the table itself is breakage, and so are
// notifications that the kernel had to drop.
func (w *Wall) Watch(ctx context.Context, emit func(firewall.Change)) error {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{Groups: 1 << (unix.NFNLGRP_NFTABLES - 1)})
	if err != nil {
		return w.fail("opening netlink for notifications", err)
	}
	defer c.Close()
	_ = c.SetReadBuffer(nftBuffer) // a smaller one only loses more, which is noticed
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	tx := transaction{table: w.Options.Name, ours: w.isOurs}
	for {
		msgs, err := c.Receive()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, unix.ENOBUFS):
			emit(firewall.Change{Broken: true})
			tx.reset()
			continue
		case err != nil:
			return fmt.Errorf("nftables: reading notifications: %w", err)
		}
		for _, m := range msgs {
			if ch, any := tx.add(m); any {
				emit(ch)
			}
		}
	}
}

func (w *Wall) isOurs(port uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.own[port]
}

// nftTransaction gathers the notifications of one transaction; the kernel
// ends each by a message of the new generation's number.
type transaction struct {
	table   string
	ours    func(port uint32) bool
	deleted []netip.Prefix
	broken  bool
}

func (tx *transaction) reset() { tx.deleted, tx.broken = nil, false }

// add takes one message and returns the change when a transaction ends.
func (tx *transaction) add(m netlink.Message) (firewall.Change, bool) {
	if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES || tx.ours(m.Header.PID) {
		return firewall.Change{}, false
	}
	switch m.Header.Type & 0xff {
	case unix.NFT_MSG_NEWGEN:
		ch := firewall.Change{Deleted: tx.deleted, Broken: tx.broken || len(tx.deleted) > 1}
		if ch.Broken {
			ch.Deleted = nil
		}
		tx.reset()
		return ch, ch.Broken || len(ch.Deleted) > 0
	case unix.NFT_MSG_DELTABLE, unix.NFT_MSG_DELCHAIN, unix.NFT_MSG_DELRULE, unix.NFT_MSG_DELSET:
		name, _, _ := tableAndSet(m.Data)
		tx.broken = tx.broken || name == tx.table
	case unix.NFT_MSG_DELSETELEM:
		tx.element(m.Data)
	}
	return firewall.Change{}, false
}

// element takes a deleted element.
func (tx *transaction) element(data []byte) {
	table, set, elems := tableAndSet(data)
	if table != tx.table {
		return
	}
	k, ok := parseKind(set)
	if !ok {
		// Packets write meters, and their elements come and go.
		tx.broken = tx.broken || len(set) < 6 || set[:6] != "meter."
		return
	}
	for _, key := range elementKeys(elems) {
		p, ok := k.prefix(key)
		tx.broken = tx.broken || ok && k.isMark(p)
		if of, is := addr.Form(p); is {
			p = of // a block is its forms too
		}
		if ok && len(tx.deleted) < 2 && !slices.Contains(tx.deleted, p) { // two are as many as any
			tx.deleted = append(tx.deleted, p)
		}
	}
}

// tableAndSet reads what a message is about. In all nft messages the first
// attribute names the table; in those of elements the second names the set and
// the third lists them (linux/netfilter/nf_tables.h). The family must be ours.
func tableAndSet(data []byte) (table, set string, elems []byte) {
	if len(data) == 0 || data[0] != unix.NFPROTO_INET {
		return "", "", nil
	}
	base.NetfilterAttributes(data, func(typ uint16, b []byte) {
		switch typ {
		case unix.NFTA_SET_ELEM_LIST_TABLE:
			table = base.CString(b)
		case unix.NFTA_SET_ELEM_LIST_SET:
			set = base.CString(b)
		case unix.NFTA_SET_ELEM_LIST_ELEMENTS:
			elems = b
		}
	})
	return table, set, elems
}

// elementKeys reads the keys of a list of elements.
func elementKeys(elems []byte) [][]byte {
	var keys [][]byte
	base.Attributes(elems, func(_ uint16, elem []byte) {
		base.Attributes(elem, func(typ uint16, b []byte) {
			if typ == unix.NFTA_SET_ELEM_KEY {
				base.Attributes(b, func(_ uint16, key []byte) { keys = append(keys, key) })
			}
		})
	})
	return keys
}
