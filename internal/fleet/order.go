package fleet

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/crypto/cryptobyte"
)

// OrderKind is what an order does.
type OrderKind uint8

// The orders.
const (
	Block OrderKind = 1 + iota
	Unblock
	Allow
	Disallow
	Flag
	ClearFlag
)

func (k OrderKind) String() string {
	return [...]string{"", "block", "unblock", "allow", "disallow", "flag", "clear"}[k]
}

// Order is what an operator orders for the whole fleet. The operator signs it,
// not the node that carries it: a node that was broken into can give no orders.
type Order struct {
	Kind   OrderKind    `json:"kind"`
	Prefix netip.Prefix `json:"prefix,omitzero"` // not of flags
	Flag   string       `json:"flag,omitempty"`
	At     int64        `json:"at"`              // Unix nanoseconds; the latest order about its object counts
	Until  int64        `json:"until,omitempty"` // 0: without end
	Reason string       `json:"reason,omitempty"`
	By     string       `json:"by"`
	Key    []byte       `json:"key"` // the operator's public key
	// ByAdmin proves the operator's name and key, Sig the order.
	ByAdmin []byte `json:"by_admin"`
	Sig     []byte `json:"sig"`
}

// Operator is who may give orders to a fleet. It contains a secret.
type Operator struct {
	Fleet   ID     `json:"fleet"`
	Name    string `json:"name"`
	Seed    []byte `json:"seed"`
	ByAdmin []byte `json:"by_admin"`
}

// Operator makes an operator of that name.
func (a *Admin) Operator(name string) (*Operator, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	op := &Operator{Fleet: a.Fleet, Name: name, Seed: make([]byte, ed25519.SeedSize)}
	rand.Read(op.Seed)
	op.ByAdmin = ed25519.Sign(a.key(), sum("operator", a.Fleet, []byte(name), op.key().Public().(ed25519.PublicKey)))
	return op, nil
}

func (op *Operator) key() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(op.Seed) }

// Check returns an error if a file of an operator cannot be one.
func (op *Operator) Check() error {
	if len(op.Seed) != ed25519.SeedSize || CheckName(op.Name) != nil || len(op.ByAdmin) != ed25519.SignatureSize {
		return errors.New("not the file of an operator of a fleet")
	}
	return nil
}

// Sign completes an order whose Kind, object and times are set.
func (op *Operator) Sign(o *Order) {
	o.By, o.Key, o.ByAdmin = op.Name, op.key().Public().(ed25519.PublicKey), op.ByAdmin
	o.Reason = o.Reason[:min(len(o.Reason), maxText)]
	o.Sig = ed25519.Sign(op.key(), sum("order", op.Fleet, o.content()))
}

// content is what an operator signs.
func (o *Order) content() []byte {
	var b cryptobyte.Builder
	b.AddUint8(uint8(o.Kind))
	addPrefix(&b, o.Prefix)
	text(&b, o.Flag)
	b.AddUint64(uint64(o.At))
	b.AddUint64(uint64(o.Until))
	text(&b, o.Reason)
	text(&b, o.By)
	return b.BytesOrPanic() // lengths are bounded by text
}

// Verify returns an error unless an operator of the fleet signed the order.
func (o *Order) Verify(fleet ID, admin ed25519.PublicKey) error {
	switch {
	case !o.sound():
		return errors.New("a damaged order")
	case len(o.Key) != ed25519.PublicKeySize || !ed25519.Verify(admin, sum("operator", fleet, []byte(o.By), o.Key), o.ByAdmin):
		return fmt.Errorf("%s is not an operator of this fleet", o.By)
	case !ed25519.Verify(o.Key, sum("order", fleet, o.content()), o.Sig):
		return errors.New("an order with a wrong signature")
	}
	return nil
}

// sound reports whether the order has the object that its kind needs.
func (o *Order) sound() bool {
	flag := o.Kind == Flag || o.Kind == ClearFlag
	return o.Kind >= Block && o.Kind <= ClearFlag && flag == (o.Flag != "") && flag != o.Prefix.IsValid() && CheckName(o.By) == nil
}

// ended reports whether the order has no effect any more, not even on what is
// said late.
func (o *Order) ended(now int64, longest time.Duration) bool {
	switch o.Kind {
	case Block, Allow, Flag:
		return o.Until != 0 && o.Until <= now
	default:
		return o.At < now-int64(longest)
	}
}

// orderKey is the object of an order.
type orderKey struct {
	flag   string
	prefix netip.Prefix
	allow  bool
}

func (o *Order) key() orderKey {
	return orderKey{o.Flag, o.Prefix, o.Kind == Allow || o.Kind == Disallow}
}

func (o *Order) add(b *cryptobyte.Builder) {
	b.AddBytes(o.content())
	b.AddBytes(o.Key)
	b.AddBytes(o.ByAdmin)
	b.AddBytes(o.Sig)
}

func (o *Order) read(s *cryptobyte.String) bool {
	var k uint8
	if !s.ReadUint8(&k) || !readPrefix(s, &o.Prefix) || !readText(s, &o.Flag) || !readTime(s, &o.At) || !readTime(s, &o.Until) ||
		!readText(s, &o.Reason) || !readText(s, &o.By) {
		return false
	}
	o.Kind = OrderKind(k)
	return s.ReadBytes(&o.Key, ed25519.PublicKeySize) && s.ReadBytes(&o.ByAdmin, ed25519.SignatureSize) && s.ReadBytes(&o.Sig, ed25519.SignatureSize) && o.sound()
}

// Who names the operator in lists and in the audit trail.
func (o *Order) Who() string { return "fleet: " + o.By }
