//go:build linux

package nft

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"go4.org/netipx"
	"golang.org/x/sys/unix"

	"stoplog/internal/firewall"
)

// meterTimeout is how long a slowed prefix's count outlives its last try.
const meterTimeout = 5 * time.Minute

// Registers of the kernel's small machine: one holds an address of either family.
const reg = unix.NFT_REG_1

// match is a condition made of expressions; conditions are joined by append.
type match []expr.Any

func isFamily(v6 bool) match {
	fam := byte(unix.NFPROTO_IPV4)
	if v6 {
		fam = unix.NFPROTO_IPV6
	}
	return match{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: reg},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: []byte{fam}},
	}
}

// source loads the packet's source address.
func source(v6 bool) match {
	off, n := uint32(12), uint32(4) // RFC 791 section 3.1
	if v6 {
		off, n = 8, 16 // RFC 8200 section 3
	}
	return append(isFamily(v6), &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: off, Len: n})
}

// clients are the ways in which a packet of a family names its client, each
// loading the client's address masked to bits. A Teredo client (RFC 4380) is
// looked up as another form of its IPv4 address: of a prefix longer than 96
// bits as NAT64 writes it, of a whole address (bits 128) as IPv4-compatible.
func clients(v6 bool, bits int, teredoAs netip.Addr) []match {
	ms := []match{masked(source(v6), v6, bits)}
	if v6 && bits > 96 {
		mask := teredoMask(bits)
		xor := teredoAs.As16()
		xor[0], xor[1] = xor[0]^0x20, xor[1]^0x01
		for i := 12; i < 16; i++ {
			xor[i] = mask[i] // the address is inverted
		}
		ms = append(ms, append(source(true), &expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: 16, Mask: mask, Xor: xor[:]}))
	}
	return ms
}

// Forms as which rules look up a Teredo client. A user's own allowance of
// NAT64 is not one of Teredo; IPv4-compatible addresses are on no wire.
var (
	asNAT64      = netip.MustParseAddr("64:ff9b::")
	asCompatible = netip.IPv6Unspecified()
)

// teredoMask keeps what tells Teredo clients apart, to bits: not the server
// and the port, which the client can choose.
func teredoMask(bits int) []byte {
	mask := []byte{0xff, 0xff, 0xff, 0xff, 15: 0}
	copy(mask[12:], net.CIDRMask(bits-96, 32))
	return mask
}

// masked masks the address that m loads to bits.
func masked(m match, v6 bool, bits int) match {
	width := 32
	if v6 {
		width = 128
	}
	if bits == width {
		return m
	}
	mask := net.CIDRMask(bits, width)
	return append(m[:len(m):len(m)], &expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: uint32(width / 8), Mask: mask, Xor: make([]byte, width/8)})
}

func inSet(name string) expr.Any {
	return &expr.Lookup{SourceRegister: reg, SetName: name}
}

func isProto(proto byte) match {
	return match{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: []byte{proto}},
	}
}

func stateIs(bits uint32) match {
	zero := make([]byte, 4)
	return match{
		&expr.Ct{Key: expr.CtKeySTATE, Register: reg},
		&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(bits), Xor: zero},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: reg, Data: zero},
	}
}

// isReply matches what answers connections that we opened.
func isReply() match {
	const reply = 1 // IP_CT_DIR_REPLY
	return append(stateIs(expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED),
		&expr.Ct{Key: expr.CtKeyDIRECTION, Register: reg},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: []byte{reply}})
}

// isNeighbourDiscovery matches ICMPv6 types 133 to 137 (RFC 4861).
func isNeighbourDiscovery() match {
	m := append(isFamily(true), isProto(unix.IPPROTO_ICMPV6)...)
	return append(m,
		&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1},
		&expr.Cmp{Op: expr.CmpOpGte, Register: reg, Data: []byte{133}},
		&expr.Cmp{Op: expr.CmpOpLte, Register: reg, Data: []byte{137}})
}

// toPorts returns one match for each protocol and range, or one empty match.
func toPorts(ps []firewall.Ports) []match {
	if len(ps) == 0 {
		return []match{nil}
	}
	var ms []match
	for _, p := range ps {
		for _, proto := range []struct {
			name string
			code byte
		}{{"tcp", unix.IPPROTO_TCP}, {"udp", unix.IPPROTO_UDP}} {
			if p.Proto == "" || p.Proto == proto.name {
				ms = append(ms, append(isProto(proto.code), isPort(p.From, p.To)...))
			}
		}
	}
	return ms
}

// isPort matches destination ports; nft cannot read back a range of one.
func isPort(from, to uint16) match {
	m := match{&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}}
	first, last := binary.BigEndian.AppendUint16(nil, from), binary.BigEndian.AppendUint16(nil, to)
	if from == to {
		return append(m, &expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: first})
	}
	return append(m, &expr.Cmp{Op: expr.CmpOpGte, Register: reg, Data: first}, &expr.Cmp{Op: expr.CmpOpLte, Register: reg, Data: last})
}

func verdict(k expr.VerdictKind, chain string) []expr.Any {
	return []expr.Any{&expr.Counter{}, &expr.Verdict{Kind: k, Chain: chain}}
}

// blockRules makes the rules that look into one set.
func blockRules(k kind, slow int) [][]expr.Any {
	var rules [][]expr.Any
	for _, ports := range toPorts(k.portList()) {
		for _, client := range clients(k.v6, k.bits, asNAT64) {
			rules = append(rules, k.rules(ports, client, slow)...)
		}
	}
	return rules
}

// rules are those of one way to name a client; who loads its masked address.
func (k kind) rules(ports, who match, slow int) (rules [][]expr.Any) {
	base := append(append(match{}, ports...), who...)
	base = append(base, inSet(k.name()))
	with := func(rest ...expr.Any) { rules = append(rules, append(base[:len(base):len(base)], rest...)) }
	switch k.action {
	case firewall.Drop:
		with(verdict(expr.VerdictDrop, "")...)
	case firewall.Reject:
		rst := append(append(match{}, base...), isProto(unix.IPPROTO_TCP)...)
		rules = append(rules, append(rst, &expr.Counter{}, &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}))
		with(&expr.Counter{}, &expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH})
	case firewall.Slow:
		m := append(append(match{}, base...), stateIs(expr.CtStateBitNEW)...)
		m = append(m, meterKey(who)...)
		m = append(m, &expr.Dynset{
			SrcRegKey: reg, SetName: k.meter(), Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: meterTimeout,
			Exprs: []expr.Any{&expr.Limit{Type: expr.LimitTypePkts, Rate: uint64(slow), Unit: expr.LimitTimeMinute, Burst: uint32(slow), Over: true}},
		})
		rules = append(rules, append(m, verdict(expr.VerdictDrop, "")...))
	}
	return rules
}

// meterKey loads what who loads, not rewritten: nft cannot read back an update
// of a set whose key is an exclusive or.
func meterKey(who match) match {
	m := slices.Clone(who)
	if b, ok := m[len(m)-1].(*expr.Bitwise); ok {
		plain := *b
		plain.Xor = make([]byte, b.Len)
		m[len(m)-1] = &plain
	}
	return m
}

// intervals makes the elements of an interval set of one family: the starts
// of ranges that do not touch, and the first addresses after them.
func intervals(ps []netip.Prefix, v6 bool) []nftables.SetElement {
	var b netipx.IPSetBuilder
	for _, p := range ps {
		if p.Addr().Is6() == v6 {
			b.AddPrefix(p)
		}
	}
	set, err := b.IPSet()
	if err != nil { // only of invalid prefixes, which cover nothing
		return nil
	}
	var es []nftables.SetElement
	for _, r := range set.Ranges() {
		es = append(es, nftables.SetElement{Key: r.From().AsSlice()})
		if end := r.To().Next(); end.IsValid() { // none after the last address
			es = append(es, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
		}
	}
	return es
}
