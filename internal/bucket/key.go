package bucket

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Key names a bucket: a prefix, exactly; a short text (15 bytes at most),
// exactly; a longer text by 120 bits of its SHA-256; or a prefix together
// with a text, by the prefix's first 64 bits and length and 56 bits of the
// text's SHA-256. Keys are comparable and do not depend on any seed, so they
// can be saved. The zero Key names nothing.
type Key struct {
	hi, lo uint64
	tag    uint8
}

// The tag holds what a key is of. 0 marks a free slot of a table.
const (
	tagV6     = 1             // + length, 0..128
	tagV4     = tagV6 + 129   // + length, 0..32
	tagPairV4 = tagV4 + 33    // a prefix and a text
	tagPairV6 = tagPairV4 + 1 //
	tagText   = tagPairV6 + 1 // + kind
	MaxKind   = 255 - tagText // the largest kind of KeyOfText and KeyOfPair
)

// hashed is the last byte of a text's key that is a hash; of others it is the
// text's length.
const hashed = 0xff

// KeyOf names the bucket of a prefix. Bits behind its length are ignored; an
// IPv4-mapped prefix is not unmapped. An invalid prefix gives the zero Key.
func KeyOf(p netip.Prefix) Key {
	if !p.IsValid() {
		return Key{}
	}
	hi, lo := words(p.Addr())
	n := p.Bits()
	if p.Addr().Is4() {
		return Key{lo: lo &^ (1<<(32-n) - 1), tag: uint8(tagV4 + n)}
	}
	hi, lo = mask(hi, lo, n)
	return Key{hi: hi, lo: lo, tag: uint8(tagV6 + n)}
}

// KeyOfText names the bucket of a text. Texts of different kinds never meet;
// kinds over MaxKind count as MaxKind.
func KeyOfText(kind uint8, text []byte) Key {
	k := Key{tag: tagText + min(kind, MaxKind)}
	var b [16]byte
	if len(text) < len(b) {
		copy(b[:], text)
		b[15] = byte(len(text))
	} else {
		sum := sha256.Sum256(text)
		copy(b[:15], sum[:])
		b[15] = hashed
	}
	k.hi, k.lo = binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	return k
}

// KeyOfPair names the bucket of a text within a prefix, such as one account
// tried from one network. It is dropped by DeleteWithin of the prefix. Of an
// IPv6 prefix longer than /64 only the first 64 bits are kept apart from the
// hash. An invalid prefix gives the zero Key.
func KeyOfPair(p netip.Prefix, kind uint8, text []byte) Key {
	pk := KeyOf(p)
	if pk.tag == 0 {
		return Key{}
	}
	tk := KeyOfText(kind, text)
	var b [40]byte
	binary.BigEndian.PutUint64(b[0:], tk.hi)
	binary.BigEndian.PutUint64(b[8:], tk.lo)
	binary.BigEndian.PutUint64(b[16:], pk.lo)
	b[24] = tk.tag
	sum := sha256.Sum256(b[:25])
	lo := binary.BigEndian.Uint64(sum[:8])&^0xff | uint64(p.Bits())
	if p.Addr().Is4() {
		return Key{hi: pk.lo, lo: lo, tag: tagPairV4}
	}
	return Key{hi: pk.hi, lo: lo, tag: tagPairV6}
}

// Mark is a short sum of k, the same in every run.
func (k Key) Mark() uint32 {
	x := (k.hi ^ k.lo*0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93
	return uint32(x >> 32)
}

// IsZero reports whether k names nothing.
func (k Key) IsZero() bool { return k.tag == 0 }

// Prefix returns the prefix that k was made of, masked. Of a pair of an IPv6
// prefix longer than /64 it returns the /64. It is false for texts.
func (k Key) Prefix() (netip.Prefix, bool) {
	switch {
	case k.tag == 0 || k.tag >= tagText:
		return netip.Prefix{}, false
	case k.tag == tagPairV4:
		return v4(k.hi, int(k.lo&0xff)), true
	case k.tag == tagPairV6:
		return v6(k.hi, 0, min(int(k.lo&0xff), 64)), true
	case k.tag >= tagV4:
		return v4(k.lo, int(k.tag-tagV4)), true
	}
	return v6(k.hi, k.lo, int(k.tag-tagV6)), true
}

// String prints a prefix as itself, a text quoted, and what only a hash is
// left of as its hash.
func (k Key) String() string {
	if k.tag == tagPairV4 || k.tag == tagPairV6 {
		p, _ := k.Prefix()
		return fmt.Sprintf("%v#%014x", p, k.lo>>8)
	}
	if p, ok := k.Prefix(); ok {
		return p.String()
	}
	if k.tag == 0 {
		return "none"
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], k.hi)
	binary.BigEndian.PutUint64(b[8:], k.lo)
	if b[15] > 15 {
		return fmt.Sprintf("#%x", b[:15])
	}
	return fmt.Sprintf("%q", b[:b[15]])
}

// within reports whether k's prefix lies inside p, which is masked.
func (k Key) within(p netip.Prefix) bool {
	kp, ok := k.Prefix()
	return ok && kp.Bits() >= p.Bits() && p.Contains(kp.Addr())
}

// compare orders keys the same way whatever the seed of a table.
func (k Key) compare(o Key) int {
	for _, w := range [...][2]uint64{{k.hi, o.hi}, {k.lo, o.lo}, {uint64(k.tag), uint64(o.tag)}} {
		if w[0] != w[1] {
			if w[0] < w[1] {
				return -1
			}
			return 1
		}
	}
	return 0
}

func words(a netip.Addr) (hi, lo uint64) {
	if a.Is4() {
		b := a.As4()
		return 0, uint64(binary.BigEndian.Uint32(b[:]))
	}
	b := a.As16()
	return binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
}

func mask(hi, lo uint64, n int) (uint64, uint64) {
	if n <= 64 {
		return hi &^ (1<<(64-n) - 1), 0
	}
	return hi, lo &^ (1<<(128-n) - 1)
}

func v4(a uint64, n int) netip.Prefix {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(a))
	return netip.PrefixFrom(netip.AddrFrom4(b), n)
}

func v6(hi, lo uint64, n int) netip.Prefix {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	return netip.PrefixFrom(netip.AddrFrom16(b), n)
}
