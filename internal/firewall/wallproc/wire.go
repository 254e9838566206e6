package wallproc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
)

// The wall's protocol: frames over a stream, each a big-endian length (four
// bytes, of what follows), a version, an operation and its payload. The client
// asks, the server answers, one at a time. Changes made by others go the other
// way over a second stream. Numbers are big-endian; a list is its count (four
// bytes) and its items; a string its length (two bytes) and its bytes.
const (
	wireVersion = 1
	maxFrame    = 4 << 20
	chunk       = 4096    // entries or prefixes a frame
	maxList     = 1 << 17 // items of any list that is not chunked
	maxText     = 4096    // bytes of a message
)

type op uint8

const (
	opSetup op = 1 + iota
	opBlock
	opUnblock
	opList
	opTeardown
	opCheck
	opExpire
	opDone    // answer: status, text
	opEntries // answer: some of List's entries, more follow
	opChange  // on the second stream
	opBusy    // while an order is carried out, once a second
)

var errWire = errors.New("malformed frame")

// writeFrame writes one frame with one Write.
func writeFrame(w io.Writer, o op, payload []byte) error {
	if len(payload)+2 > maxFrame {
		return fmt.Errorf("frame of %d bytes exceeds the limit of %d", len(payload), maxFrame)
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 0, len(payload)+6), uint32(len(payload)+2))
	b = append(b, wireVersion, byte(o))
	_, err := w.Write(append(b, payload...))
	return err
}

// readFrame reads one frame; io.EOF only before its first byte.
func readFrame(r io.Reader) (op, []byte, error) {
	var head [6]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < 2 || n > maxFrame {
		return 0, nil, fmt.Errorf("%w: %d bytes", errWire, n)
	}
	if head[4] != wireVersion {
		return 0, nil, fmt.Errorf("%w: version %d, expected %d", errWire, head[4], wireVersion)
	}
	b := make([]byte, n-2)
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, nil, fmt.Errorf("%w: truncated", errWire)
	}
	return op(head[5]), b, nil
}

// encoder appends; it cannot fail.
type encoder []byte

func (e *encoder) u8(v uint8)   { *e = append(*e, v) }
func (e *encoder) u16(v uint16) { *e = binary.BigEndian.AppendUint16(*e, v) }
func (e *encoder) u32(v uint32) { *e = binary.BigEndian.AppendUint32(*e, v) }
func (e *encoder) time(t time.Time) {
	*e = binary.BigEndian.AppendUint64(*e, uint64(t.UnixNano()))
}

func (e *encoder) text(s string) {
	if len(s) > maxText {
		s = s[:maxText-3] + "..."
	}
	e.u16(uint16(len(s)))
	*e = append(*e, s...)
}

// prefix is a length (with 128 added for IPv6) and the address's bytes.
func (e *encoder) prefix(p netip.Prefix) {
	if p.Addr().Is4() {
		e.u8(uint8(p.Bits()))
		a := p.Addr().As4()
		*e = append(*e, a[:]...)
		return
	}
	e.u8(64 + uint8(p.Bits())) // 64 is over 32, so the families stay apart
	a := p.Addr().As16()
	*e = append(*e, a[:]...)
}

func (e *encoder) prefixes(ps []netip.Prefix) {
	e.u32(uint32(len(ps)))
	for _, p := range ps {
		e.prefix(p)
	}
}

func (e *encoder) ports(ps []firewall.Ports) {
	e.u8(uint8(len(ps)))
	for _, p := range ps {
		e.u8(protoCode(p.Proto))
		e.u16(p.From)
		e.u16(p.To)
	}
}

func protoCode(s string) uint8 {
	switch s {
	case "tcp":
		return 6
	case "udp":
		return 17
	}
	return 0
}

func (e *encoder) entries(es []firewall.Entry) {
	e.u32(uint32(len(es)))
	for _, x := range es {
		e.prefix(x.Prefix)
		e.time(x.Until)
		flags := uint8(x.Action)
		if x.Cut {
			flags |= 0x80
		}
		e.u8(flags)
		e.ports(x.Ports)
	}
}

func (e *encoder) policy(p firewall.Policy) {
	e.prefixes(p.Allow)
	e.ports(p.Lockdown.Ports)
	until := p.Lockdown.Until
	if until.IsZero() {
		until = time.Unix(0, 0)
	}
	e.time(until)
	e.prefixes(base.PrefixesOf(p.Lockdown.Known))
}

// decoder takes bytes off the front. The first thing that is wrong sticks,
// and everything after it reads as zero.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", errWire, what)
	}
	d.b = nil
}

func (d *decoder) take(n int) []byte {
	if len(d.b) < n {
		d.fail("truncated")
		return make([]byte, n)
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) u8() uint8   { return d.take(1)[0] }
func (d *decoder) u16() uint16 { return binary.BigEndian.Uint16(d.take(2)) }
func (d *decoder) u32() uint32 { return binary.BigEndian.Uint32(d.take(4)) }
func (d *decoder) time() time.Time {
	return time.Unix(0, int64(binary.BigEndian.Uint64(d.take(8)))).UTC()
}

func (d *decoder) text() string {
	n := int(d.u16())
	if n > maxText {
		d.fail("text too long")
		return ""
	}
	return string(d.take(n))
}

// count reads a list's length, which at least size bytes an item must follow.
func (d *decoder) count(max, size int) int {
	n := d.u32()
	if d.err == nil && (n > uint32(max) || int(n)*size > len(d.b)) {
		d.fail("list too long")
	}
	if d.err != nil {
		return 0
	}
	return int(n)
}

func (d *decoder) prefix() netip.Prefix {
	code := int(d.u8())
	var p netip.Prefix
	switch {
	case code <= 32:
		p = netip.PrefixFrom(netip.AddrFrom4([4]byte(d.take(4))), code)
	case code >= 64 && code <= 64+128:
		p = netip.PrefixFrom(netip.AddrFrom16([16]byte(d.take(16))), code-64)
	default:
		d.fail("prefix length")
	}
	if d.err == nil && (p.Addr().Is4In6() || p != p.Masked()) {
		d.fail("prefix not in canonical form")
	}
	if d.err != nil {
		return netip.Prefix{}
	}
	return p
}

func (d *decoder) prefixes(max int) []netip.Prefix {
	n := d.count(max, 5)
	ps := make([]netip.Prefix, 0, n)
	for range n {
		ps = append(ps, d.prefix())
	}
	return ps
}

func (d *decoder) ports() []firewall.Ports {
	n := int(d.u8())
	if n > firewall.MaxPorts {
		d.fail("too many ports")
		return nil
	}
	var ps []firewall.Ports
	for range n {
		p := firewall.Ports{From: 1, To: 1}
		switch d.u8() {
		case 0:
		case 6:
			p.Proto = "tcp"
		case 17:
			p.Proto = "udp"
		default:
			d.fail("protocol")
		}
		p.From, p.To = d.u16(), d.u16()
		ps = append(ps, p)
	}
	if err := firewall.CheckPorts(ps); d.err == nil && err != nil {
		d.fail(err.Error())
	}
	return ps
}

func (d *decoder) entries() []firewall.Entry {
	n := d.count(chunk, 15)
	es := make([]firewall.Entry, 0, n)
	for range n {
		e := firewall.Entry{Prefix: d.prefix(), Until: d.time()}
		flags := d.u8()
		e.Action, e.Cut = firewall.Action(flags&0x7f), flags&0x80 != 0
		if e.Action > firewall.Slow {
			d.fail("action")
		}
		e.Ports = d.ports()
		es = append(es, e)
	}
	return es
}

func (d *decoder) policy() firewall.Policy {
	var p firewall.Policy
	p.Allow = d.prefixes(maxList)
	p.Lockdown.Ports = d.ports()
	p.Lockdown.Until = d.time()
	for _, k := range d.prefixes(maxList) {
		if d.err == nil && !k.IsSingleIP() {
			d.fail("known source is not a single address")
		}
		p.Lockdown.Known = append(p.Lockdown.Known, k.Addr())
	}
	return p
}

// end refuses what is left over.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail("trailing bytes")
	}
	return d.err
}
