package fleet

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"net/netip"
	"slices"

	"golang.org/x/crypto/cryptobyte"
)

// An entry on the wire, all numbers big-endian:
//
//	"slf1" | fleet 16 | length of name 1 | name | incarnation 8 | sequence 8 |
//	made 8 | count 2 | statements | Ed25519 signature 64
//
// The signature is over the SHA-256 of everything before it, with a purpose
// (see sum). A statement begins with its kind.

const (
	magic = "slf1"
	// MaxStatements and MaxEntry bound an entry.
	MaxStatements = 256
	MaxEntry      = 64 << 10
	// maxValues bounds the values that one statement of a distinct count lists.
	maxValues = 64
	maxText   = 200
)

// Version orders what a node said: later incarnations first, then sequences.
type Version struct{ Incarnation, Seq uint64 }

// Less reports whether v is older than w.
func (v Version) Less(w Version) bool {
	return v.Incarnation < w.Incarnation || v.Incarnation == w.Incarnation && v.Seq < w.Seq
}

// Meaning is a hash of what a level counts and of its limit: nodes count
// together what has the same meaning, and nothing else.
type Meaning [8]byte

// MeaningOf hashes the text that describes a level.
func MeaningOf(text string) (m Meaning) {
	h := sha256.Sum256([]byte(text))
	copy(m[:], h[:])
	return m
}

// Level says how full a node's bucket of a prefix is, as the instant at which it
// would be empty. At is the instant of the last event that poured or cleared it.
type Level struct {
	Meaning   Meaning
	Prefix    netip.Prefix
	At, Empty int64  // Unix nanoseconds
	Line      uint32 // a hash of the last line
}

// Distinct lists the values that a node saw for a key within a window, as hashes,
// sorted. Until is when the newest of them leaves the window.
type Distinct struct {
	Meaning   Meaning
	Prefix    netip.Prefix
	At, Until int64
	Values    []uint64
}

// Rule says that the node shares a rule's level: others compare meanings.
type Rule struct {
	Meaning Meaning
	Name    string
	Index   int
}

// Entry is what a node says at once.
type Entry struct {
	Node string
	Version
	Made      int64 // Unix nanoseconds, of the engine
	Levels    []Level
	Distincts []Distinct
	Orders    []Order
	Rules     []Rule
}

const (
	kindLevel = 1 + iota
	kindDistinct
	kindOrder
	kindRule
)

// Len is the number of statements.
func (e *Entry) Len() int { return len(e.Levels) + len(e.Distincts) + len(e.Orders) + len(e.Rules) }

// Sign encodes the entry and signs it.
func (e *Entry) Sign(fleet ID, key ed25519.PrivateKey) ([]byte, error) {
	if e.Len() > MaxStatements {
		return nil, errors.New("too many statements")
	}
	var b cryptobyte.Builder
	b.AddBytes([]byte(magic))
	b.AddBytes(fleet[:])
	text(&b, e.Node)
	b.AddUint64(e.Incarnation)
	b.AddUint64(e.Seq)
	b.AddUint64(uint64(e.Made))
	b.AddUint16(uint16(e.Len()))
	for i := range e.Rules {
		b.AddUint8(kindRule)
		b.AddBytes(e.Rules[i].Meaning[:])
		text(&b, e.Rules[i].Name)
		b.AddUint8(uint8(e.Rules[i].Index))
	}
	for i := range e.Orders {
		b.AddUint8(kindOrder)
		e.Orders[i].add(&b)
	}
	for i := range e.Levels {
		l := &e.Levels[i]
		b.AddUint8(kindLevel)
		b.AddBytes(l.Meaning[:])
		addPrefix(&b, l.Prefix)
		b.AddUint64(uint64(l.At))
		b.AddUint64(uint64(l.Empty))
		b.AddUint32(l.Line)
	}
	for i := range e.Distincts {
		d := &e.Distincts[i]
		b.AddUint8(kindDistinct)
		b.AddBytes(d.Meaning[:])
		addPrefix(&b, d.Prefix)
		b.AddUint64(uint64(d.At))
		b.AddUint64(uint64(d.Until))
		n := min(len(d.Values), maxValues)
		b.AddUint8(uint8(n))
		for _, v := range d.Values[:n] {
			b.AddUint64(v)
		}
	}
	out, err := b.Bytes()
	if err != nil {
		return nil, err
	}
	out = append(out, ed25519.Sign(key, sum("entry", fleet, out))...)
	if len(out) > MaxEntry {
		return nil, errors.New("too large")
	}
	return out, nil
}

func text(b *cryptobyte.Builder, s string) {
	s = s[:min(len(s), maxText)]
	b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte(s)) })
}

// addPrefix writes a family, 0 for none, the length and the address.
func addPrefix(b *cryptobyte.Builder, p netip.Prefix) {
	switch {
	case !p.IsValid():
		b.AddUint8(0)
	case p.Addr().Is4():
		a := p.Addr().As4()
		b.AddUint8(4)
		b.AddUint8(uint8(p.Bits()))
		b.AddBytes(a[:])
	default:
		a := p.Addr().As16()
		b.AddUint8(6)
		b.AddUint8(uint8(p.Bits()))
		b.AddBytes(a[:])
	}
}

// Errors of Open.
var (
	ErrVersion   = errors.New("an entry of another version of stoplog")
	ErrForeign   = errors.New("an entry of another fleet")
	ErrDamaged   = errors.New("a damaged entry")
	ErrUnknown   = errors.New("an entry of an unknown or revoked node")
	ErrSignature = errors.New("an entry with a wrong signature")
)

// Open verifies and decodes an entry. key returns the public key of a node, nil
// if there is none of that name.
func Open(b []byte, fleet ID, key func(node string) ed25519.PublicKey) (*Entry, error) {
	if len(b) > MaxEntry || len(b) < len(magic)+ed25519.SignatureSize {
		return nil, ErrDamaged
	}
	signed, sig := b[:len(b)-ed25519.SignatureSize], b[len(b)-ed25519.SignatureSize:]
	s := cryptobyte.String(signed)
	var head, id []byte
	if !s.ReadBytes(&head, len(magic)) || string(head[:3]) != magic[:3] {
		return nil, ErrDamaged
	}
	if string(head) != magic {
		return nil, ErrVersion
	}
	if !s.ReadBytes(&id, len(fleet)) {
		return nil, ErrDamaged
	}
	if ID(id) != fleet {
		return nil, ErrForeign
	}
	e := &Entry{}
	if !readText(&s, &e.Node) {
		return nil, ErrDamaged
	}
	k := key(e.Node)
	if k == nil {
		return nil, ErrUnknown
	}
	if !ed25519.Verify(k, sum("entry", fleet, signed), sig) {
		return nil, ErrSignature
	}
	var n uint16
	if !s.ReadUint64(&e.Incarnation) || !s.ReadUint64(&e.Seq) || !readTime(&s, &e.Made) || !s.ReadUint16(&n) || n > MaxStatements {
		return nil, ErrDamaged
	}
	for range n {
		if !e.read(&s) {
			return nil, ErrDamaged
		}
	}
	if !s.Empty() {
		return nil, ErrDamaged
	}
	return e, nil
}

func (e *Entry) read(s *cryptobyte.String) bool {
	var kind uint8
	if !s.ReadUint8(&kind) {
		return false
	}
	switch kind {
	case kindLevel:
		var l Level
		if !s.CopyBytes(l.Meaning[:]) || !readPrefix(s, &l.Prefix) || !readTime(s, &l.At) || !readTime(s, &l.Empty) || !s.ReadUint32(&l.Line) || !l.Prefix.IsValid() {
			return false
		}
		e.Levels = append(e.Levels, l)
	case kindDistinct:
		var d Distinct
		var n uint8
		if !s.CopyBytes(d.Meaning[:]) || !readPrefix(s, &d.Prefix) || !readTime(s, &d.At) || !readTime(s, &d.Until) || !s.ReadUint8(&n) || n > maxValues || !d.Prefix.IsValid() {
			return false
		}
		d.Values = make([]uint64, n)
		for i := range d.Values {
			if !s.ReadUint64(&d.Values[i]) {
				return false
			}
		}
		slices.Sort(d.Values)
		d.Values = slices.Compact(d.Values)
		e.Distincts = append(e.Distincts, d)
	case kindOrder:
		var o Order
		if !o.read(s) {
			return false
		}
		e.Orders = append(e.Orders, o)
	case kindRule:
		var r Rule
		var i uint8
		if !s.CopyBytes(r.Meaning[:]) || !readText(s, &r.Name) || !s.ReadUint8(&i) {
			return false
		}
		r.Index = int(i)
		e.Rules = append(e.Rules, r)
	default:
		return false
	}
	return true
}

func readText(s *cryptobyte.String, out *string) bool {
	var t cryptobyte.String
	if !s.ReadUint8LengthPrefixed(&t) || len(t) > maxText {
		return false
	}
	*out = string(t)
	return true
}

// readTime refuses instants that no clock can show (before 1970, after 2150), so
// that arithmetic on them cannot overflow.
func readTime(s *cryptobyte.String, out *int64) bool {
	var v uint64
	if !s.ReadUint64(&v) || v > uint64(maxInstant) {
		return false
	}
	*out = int64(v)
	return true
}

const maxInstant = int64(180 * 365 * 24 * 3600 * 1e9)

func readPrefix(s *cryptobyte.String, out *netip.Prefix) bool {
	var family, bits uint8
	if !s.ReadUint8(&family) {
		return false
	}
	if family == 0 {
		*out = netip.Prefix{}
		return true
	}
	n := 4
	if family == 6 {
		n = 16
	} else if family != 4 {
		return false
	}
	var b []byte
	if !s.ReadUint8(&bits) || !s.ReadBytes(&b, n) {
		return false
	}
	a, _ := netip.AddrFromSlice(b)
	if a.Is4In6() || int(bits) > a.BitLen() {
		return false
	}
	*out = netip.PrefixFrom(a, int(bits))
	return *out == out.Masked()
}
