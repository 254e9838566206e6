//go:build linux

package ipset

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
)

// Messages, attributes and errors of the kernel's ipset
// (linux/netfilter/ipset/ip_set.h).
const (
	ipsetProtocol = 6 // the oldest that kernels still speak; it has all that is needed here

	ipsetCmdCreate  = 2
	ipsetCmdDestroy = 3
	ipsetCmdSwap    = 6
	ipsetCmdList    = 7
	ipsetCmdAdd     = 9
	ipsetCmdDel     = 10
	ipsetCmdTest    = 11
	ipsetCmdType    = 13

	ipsetAttrProtocol = 1
	ipsetAttrSetName  = 2
	ipsetAttrTypeName = 3 // of swap: the second set
	ipsetAttrRevision = 4
	ipsetAttrFamily   = 5
	ipsetAttrFlags    = 6
	ipsetAttrData     = 7
	ipsetAttrADT      = 8
	ipsetAttrLine     = 9

	ipsetDataIP      = 1
	ipsetDataCIDR    = 3
	ipsetDataTimeout = 6
	ipsetDataMaxElem = 19

	ipsetListHeaders = 4 // a flag of list

	ipsetErrExist  = unix.Errno(4103) // it is there already, or is not there
	ipsetErrFull   = unix.Errno(4352)
	ipsetErrNoType = unix.Errno(4098)

	ipsetPerMessage = 1000 // elements: their list must stay under 64 KiB
	ipsetRevision   = 6    // of hash:net, at most: what the ipset programs of ten years can print
)

// ipsetConn speaks to the kernel's ipset by netlink: it takes CAP_NET_ADMIN
// and runs no program. vishvananda/netlink knows ipset too, but sends each
// element in a message of its own.
type conn struct {
	c   *netlink.Conn // for changes, opened when it is needed
	rev uint8
}

func (x *conn) fail(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("ipset: %s: %w (needs CAP_NET_ADMIN)", doing, os.ErrPermission)
	case errors.Is(err, ipsetErrExist):
		err = errIPSetMember
	case errors.Is(err, ipsetErrFull):
		err = errors.New("the set is full")
	case errors.Is(err, ipsetErrNoType):
		err = errors.New("this kernel has no hash:net sets (CONFIG_IP_SET_HASH_NET)")
	}
	return fmt.Errorf("ipset: %s: %w", doing, err)
}

var errIPSetMember = errors.New("an element already exists or is missing")

func (x *conn) close() {
	if x.c != nil {
		x.c.Close()
		x.c = nil
	}
}

// do sends one message and waits until it is done.
func (x *conn) do(ctx context.Context, cmd uint8, flags netlink.HeaderFlags, body []byte) error {
	_, err := x.ask(ctx, cmd, netlink.Acknowledge|flags, body)
	return err
}

// ask sends one message and waits for its answer.
func (x *conn) ask(ctx context.Context, cmd uint8, flags netlink.HeaderFlags, body []byte) ([]netlink.Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if x.c == nil {
		c, err := base.DialNetfilter(ctx)
		if err != nil {
			return nil, err
		}
		x.c = c
	} else if err := base.Bound(ctx, x.c); err != nil {
		return nil, err
	}
	ms, err := x.c.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_IPSET<<8 | netlink.HeaderType(cmd), Flags: netlink.Request | flags},
		Data:   body,
	})
	if err != nil {
		x.close() // an answer may be under way
	}
	return ms, err
}

// request begins a message about a set.
func request(set string, v6 bool) []byte {
	family := byte(unix.NFPROTO_IPV4)
	if v6 {
		family = unix.NFPROTO_IPV6
	}
	b := base.Attr([]byte{family, unix.NFNETLINK_V0, 0, 0}, ipsetAttrProtocol, []byte{ipsetProtocol})
	if set != "" {
		b = base.AttrText(b, ipsetAttrSetName, set)
	}
	return b
}

func familyByte(v6 bool) []byte {
	if v6 {
		return []byte{unix.NFPROTO_IPV6}
	}
	return []byte{unix.NFPROTO_IPV4}
}

// revision asks once which revision of hash:net the kernel has.
func (x *conn) revision(ctx context.Context) (uint8, error) {
	if x.rev != 0 {
		return x.rev, nil
	}
	body := base.Attr(base.AttrText(request("", false), ipsetAttrTypeName, "hash:net"), ipsetAttrFamily, familyByte(false))
	ms, err := x.ask(ctx, ipsetCmdType, 0, body)
	if err != nil {
		return 0, x.fail("asking for hash:net", err)
	}
	x.rev = ipsetRevision
	for _, m := range ms {
		base.NetfilterAttributes(m.Data, func(typ uint16, b []byte) {
			if typ == ipsetAttrRevision && len(b) == 1 {
				x.rev = min(x.rev, b[0])
			}
		})
	}
	return x.rev, nil
}

// create makes a hash:net set. What is there under that name stays as it is.
func (x *conn) create(ctx context.Context, set string, v6 bool, size int, timeouts bool) error {
	rev, err := x.revision(ctx)
	if err != nil {
		return err
	}
	data := base.AttrU32(nil, ipsetDataMaxElem, uint32(size))
	if timeouts {
		data = base.AttrU32(data, ipsetDataTimeout, 0)
	}
	body := base.AttrText(request(set, v6), ipsetAttrTypeName, "hash:net")
	body = base.Attr(body, ipsetAttrRevision, []byte{rev})
	body = base.Attr(body, ipsetAttrFamily, familyByte(v6))
	body = base.Attr(body, ipsetAttrData|unix.NLA_F_NESTED, data)
	err = x.do(ctx, ipsetCmdCreate, netlink.Create|netlink.Excl, body)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return x.fail("creating set "+set, err)
}

// destroy removes a set that no rule names. The absent is no error.
func (x *conn) destroy(ctx context.Context, set string) error {
	err := x.do(ctx, ipsetCmdDestroy, 0, request(set, false))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return x.fail("destroying set "+set, err)
}

// swap exchanges what two sets of one kind hold, at once.
func (x *conn) swap(ctx context.Context, a, b string) error {
	err := x.do(ctx, ipsetCmdSwap, 0, base.AttrText(request(a, false), ipsetAttrTypeName, b))
	return x.fail("swapping set "+a+" with "+b, err)
}

// ipsetElem is an element; ttl 0 is for ever.
type elem struct {
	p   netip.Prefix
	ttl time.Duration // whole seconds
}

func (e elem) encode(b []byte) []byte {
	ip := base.Attr(nil, ipsetDataIP|unix.NLA_F_NET_BYTEORDER, e.p.Addr().AsSlice()) // IPSET_ATTR_IPADDR_IPV4 is 1
	if e.p.Addr().Is6() {
		ip = base.Attr(nil, 2|unix.NLA_F_NET_BYTEORDER, e.p.Addr().AsSlice())
	}
	data := base.Attr(nil, ipsetDataIP|unix.NLA_F_NESTED, ip)
	data = base.Attr(data, ipsetDataCIDR, []byte{byte(e.p.Bits())})
	if e.ttl > 0 {
		data = base.AttrU32(data, ipsetDataTimeout, uint32(e.ttl/time.Second))
	}
	return base.Attr(b, ipsetAttrData|unix.NLA_F_NESTED, data)
}

// add adds elements or sets their timeouts again.
func (x *conn) add(ctx context.Context, set string, es ...elem) error {
	return x.change(ctx, ipsetCmdAdd, set, es, 0)
}

// del removes elements. The absent is no error.
func (x *conn) del(ctx context.Context, set string, es ...elem) error {
	return x.change(ctx, ipsetCmdDel, set, es, 0)
}

// take removes one element, which must be there.
func (x *conn) take(ctx context.Context, set string, e elem) (there bool, err error) {
	err = x.change(ctx, ipsetCmdDel, set, []elem{e}, netlink.Excl)
	if errors.Is(err, errIPSetMember) {
		return false, nil
	}
	return err == nil, err
}

func (x *conn) change(ctx context.Context, cmd uint8, set string, es []elem, flags netlink.HeaderFlags) error {
	for part := range slices.Chunk(es, ipsetPerMessage) {
		var list []byte
		for _, e := range part {
			list = e.encode(list)
		}
		body := request(set, part[0].p.Addr().Is6())
		if len(part) == 1 {
			body = append(body, list...)
		} else {
			body = base.AttrU32(body, ipsetAttrLine, 0)
			body = base.Attr(body, ipsetAttrADT|unix.NLA_F_NESTED, list)
		}
		if err := x.do(ctx, cmd, flags, body); err != nil {
			return x.fail("writing set "+set, err)
		}
	}
	return nil
}

// has reports whether an element of a whole address is in a set.
func (x *conn) has(ctx context.Context, set string, e elem) (bool, error) {
	err := x.do(ctx, ipsetCmdTest, 0, e.encode(request(set, e.p.Addr().Is6())))
	if errors.Is(err, ipsetErrExist) || errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, x.fail("looking into set "+set, err)
}

// dump reads what a list answers, on a socket of its own: an answer that is
// broken off must not be taken for the next one's.
func (x *conn) dump(ctx context.Context, body []byte, see func(data []byte)) error {
	c, err := base.DialNetfilter(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Send(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_IPSET<<8 | ipsetCmdList, Flags: netlink.Request | netlink.Acknowledge | netlink.Dump}, Data: body,
	})
	if err != nil {
		return err
	}
	_, err = base.ReceiveDump(c, see)
	return err
}

// sets lists all sets of the kernel.
func (x *conn) sets(ctx context.Context) (map[string]setInfo, error) {
	sets := map[string]setInfo{}
	err := x.dump(ctx, base.AttrU32(request("", false), ipsetAttrFlags, ipsetListHeaders), func(data []byte) {
		name := ""
		var info setInfo
		base.NetfilterAttributes(data, func(typ uint16, b []byte) {
			switch typ {
			case ipsetAttrSetName:
				name = base.CString(b)
			case ipsetAttrTypeName:
				info.typ = base.CString(b)
			case ipsetAttrFamily:
				info.v6 = len(b) == 1 && b[0] == unix.NFPROTO_IPV6
			case ipsetAttrData:
				info.read(b)
			}
		})
		if name != "" {
			sets[name] = info
		}
	})
	return sets, x.fail("listing sets", err)
}

// ipsetInfo is what the kernel reports about a set.
type setInfo struct {
	typ      string
	v6       bool
	size     int
	timeouts bool
}

func (i *setInfo) read(b []byte) {
	base.Attributes(b, func(typ uint16, b []byte) {
		switch {
		case typ == ipsetDataMaxElem && len(b) == 4:
			i.size = int(binary.BigEndian.Uint32(b))
		case typ == ipsetDataTimeout && len(b) == 4:
			i.timeouts = true
		}
	})
}

// elems calls see for each element of a set; the error wraps ErrBroken when it
// is not there.
func (x *conn) elems(ctx context.Context, set string, see func(elem)) error {
	err := x.dump(ctx, request(set, false), func(data []byte) {
		base.NetfilterAttributes(data, func(typ uint16, b []byte) {
			if typ != ipsetAttrADT {
				return
			}
			base.Attributes(b, func(_ uint16, elem []byte) {
				if e, ok := parseIPSetElem(elem); ok {
					see(e)
				}
			})
		})
	})
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("ipset: set %s: %w", set, firewall.ErrBroken)
	}
	return x.fail("listing set "+set, err)
}

// parseIPSetElem reads one element of a hash:net.
func parseIPSetElem(data []byte) (e elem, ok bool) {
	var addr netip.Addr
	bits := -1
	base.Attributes(data, func(typ uint16, b []byte) {
		switch {
		case typ == ipsetDataIP:
			base.Attributes(b, func(_ uint16, ip []byte) { addr, _ = netip.AddrFromSlice(ip) })
		case typ == ipsetDataCIDR && len(b) == 1:
			bits = int(b[0])
		case typ == ipsetDataTimeout && len(b) == 4:
			e.ttl = time.Duration(binary.BigEndian.Uint32(b)) * time.Second
		}
	})
	if bits < 0 {
		bits = addr.BitLen()
	}
	e.p = netip.PrefixFrom(addr, bits)
	return e, e.p.IsValid() && e.p == e.p.Masked()
}
