//go:build linux

package firewall

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"go4.org/netipx"
	"golang.org/x/sys/unix"
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

// sourceMasked loads it masked to bits.
func sourceMasked(v6 bool, bits int) match {
	m := source(v6)
	width := 32
	if v6 {
		width = 128
	}
	if bits == width {
		return m
	}
	mask := make([]byte, width/8)
	for i := range bits {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return append(m, &expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: uint32(width / 8), Mask: mask, Xor: make([]byte, width/8)})
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
func toPorts(ps []Ports) []match {
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
				ms = append(ms, append(isProto(proto.code),
					&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
					&expr.Cmp{Op: expr.CmpOpGte, Register: reg, Data: binary.BigEndian.AppendUint16(nil, p.From)},
					&expr.Cmp{Op: expr.CmpOpLte, Register: reg, Data: binary.BigEndian.AppendUint16(nil, p.To)}))
			}
		}
	}
	return ms
}

func verdict(k expr.VerdictKind, chain string) []expr.Any {
	return []expr.Any{&expr.Counter{}, &expr.Verdict{Kind: k, Chain: chain}}
}

// blockRules makes the rules that look into one set.
func blockRules(k nftKind, slow int) [][]expr.Any {
	var rules [][]expr.Any
	for _, ports := range toPorts(k.portList()) {
		base := append(append(match{}, ports...), sourceMasked(k.v6, k.bits)...)
		base = append(base, inSet(k.name()))
		with := func(rest ...expr.Any) { rules = append(rules, append(base[:len(base):len(base)], rest...)) }
		switch k.action {
		case Drop:
			with(verdict(expr.VerdictDrop, "")...)
		case Reject:
			rst := append(append(match{}, base...), isProto(unix.IPPROTO_TCP)...)
			rules = append(rules, append(rst, &expr.Counter{}, &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}))
			with(&expr.Counter{}, &expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH})
		case Slow:
			m := append(append(match{}, base...), stateIs(expr.CtStateBitNEW)...)
			m = append(m, sourceMasked(k.v6, k.bits)...)
			m = append(m, &expr.Dynset{
				SrcRegKey: reg, SetName: k.meter(), Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: meterTimeout,
				Exprs: []expr.Any{&expr.Limit{Type: expr.LimitTypePkts, Rate: uint64(slow), Unit: expr.LimitTimeMinute, Burst: uint32(slow), Over: true}},
			})
			rules = append(rules, append(m, verdict(expr.VerdictDrop, "")...))
		}
	}
	return rules
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
