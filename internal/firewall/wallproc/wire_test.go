package wallproc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"stoplog/internal/firewall"
)

func sampleEntries() []firewall.Entry {
	until := time.Date(2026, 11, 21, 9, 23, 10, 123456789, time.UTC)
	return []firewall.Entry{
		{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Until: until},
		{Prefix: netip.MustParsePrefix("2001:db8::/64"), Until: until, Action: firewall.Slow, Cut: true, Ports: []firewall.Ports{{Proto: "tcp", From: 22, To: 22}, {Proto: "", From: 80, To: 90}, {Proto: "udp", From: 5060, To: 5061}}},
		{Prefix: netip.MustParsePrefix("2001:db8::1/128"), Until: until, Action: firewall.Reject},
		{Prefix: netip.MustParsePrefix("192.0.2.1/32"), Until: until},
	}
}

func TestWireEntries(t *testing.T) {
	var e encoder
	e.entries(sampleEntries())
	d := &decoder{b: e}
	if got := d.entries(); d.end() != nil || !reflect.DeepEqual(got, sampleEntries()) {
		t.Errorf("got %+v, %v", got, d.err)
	}
}

func TestWirePolicy(t *testing.T) {
	var p firewall.Policy
	p.Allow = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("2001:db8::/32")}
	p.Lockdown.Ports = []firewall.Ports{{Proto: "tcp", From: 22, To: 22}}
	p.Lockdown.Until = time.Unix(1800000000, 5).UTC()
	p.Lockdown.Known = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	var e encoder
	e.policy(p)
	d := &decoder{b: e}
	if got := d.policy(); d.end() != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("got %+v, %v", got, d.err)
	}
	e = nil
	e.policy(firewall.Policy{})
	d = &decoder{b: e}
	if got := d.policy(); d.end() != nil || got.Lockdown.Until.After(time.Unix(0, 0)) {
		t.Errorf("empty: got %+v, %v", got, d.err)
	}
}

// TestWireCut: no beginning of a message is a message.
func TestWireCut(t *testing.T) {
	var e encoder
	e.entries(sampleEntries())
	for n := range e {
		d := &decoder{b: e[:n]}
		d.entries()
		if d.end() == nil {
			t.Errorf("the first %d of %d bytes: got no error", n, len(e))
		}
	}
	d := &decoder{b: append(e, 0)}
	d.entries()
	if d.end() == nil {
		t.Error("a byte more: got no error")
	}
}

func TestWireRefuses(t *testing.T) {
	v4 := []byte{28, 192, 0, 2, 0}
	entry := func(prefix []byte, rest ...byte) []byte {
		b := append([]byte{0, 0, 0, 1}, prefix...)
		return append(append(b, make([]byte, 8)...), rest...)
	}
	for name, b := range map[string][]byte{
		"length 33":         entry([]byte{33, 192, 0, 2, 0}, 0, 0),
		"length 63":         entry([]byte{63, 192, 0, 2, 0}, 0, 0),
		"length 129 of v6":  entry(append([]byte{64 + 129}, make([]byte, 16)...), 0, 0),
		"mapped":            entry(append([]byte{64 + 128}, netip.MustParseAddr("::ffff:192.0.2.1").AsSlice()...), 0, 0),
		"unmasked":          entry([]byte{28, 192, 0, 2, 1}, 0, 0),
		"action":            entry(v4, 3, 0),
		"protocol":          entry(v4, 0, 1, 1, 0, 1, 0, 1),
		"port 0":            entry(v4, 0, 1, 6, 0, 0, 0, 1),
		"too many ports":    entry(v4, 0, firewall.MaxPorts+1),
		"endless list":      {0xff, 0xff, 0xff, 0xff},
		"more than a chunk": binary.BigEndian.AppendUint32(nil, chunk+1),
	} {
		d := &decoder{b: b}
		if es := d.entries(); !errors.Is(d.end(), errWire) {
			t.Errorf("%s: got %v, want an error", name, es)
		}
	}
}

func TestFrames(t *testing.T) {
	var b bytes.Buffer
	if err := writeFrame(&b, opBlock, []byte("abc")); err != nil {
		t.Fatal(err)
	}
	whole := bytes.Clone(b.Bytes())
	if o, p, err := readFrame(&b); o != opBlock || string(p) != "abc" || err != nil {
		t.Errorf("got %d, %q, %v", o, p, err)
	}
	if _, _, err := readFrame(&b); err != io.EOF {
		t.Errorf("at the end: got %v, want io.EOF", err)
	}
	for name, f := range map[string][]byte{
		"cut":     whole[:len(whole)-1],
		"version": append([]byte{0, 0, 0, 2, 9}, byte(opList)),
		"short":   {0, 0, 0, 1, 1, 1},
		"huge":    {0xff, 0, 0, 0, 1, 1},
	} {
		if _, _, err := readFrame(bytes.NewReader(f)); err == nil || err == io.EOF {
			t.Errorf("%s: got %v, want an error", name, err)
		}
	}
	if err := writeFrame(io.Discard, opBlock, make([]byte, maxFrame)); err == nil {
		t.Error("over the bound: got no error")
	}
}

func TestWireTextIsBounded(t *testing.T) {
	var e encoder
	e.text(strings.Repeat("x", 3*maxText))
	d := &decoder{b: e}
	if got := d.text(); len(got) != maxText || d.end() != nil {
		t.Errorf("got %d bytes, %v", len(got), d.err)
	}
}

// FuzzWire throws bytes at everything that the wall decodes. What it takes
// must be valid, and read the same after it is written again.
func FuzzWire(f *testing.F) {
	var e encoder
	e.entries(sampleEntries())
	f.Add([]byte(e))
	e = nil
	e.policy(firewall.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	f.Add([]byte(e))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &decoder{b: b}
		if es := d.entries(); d.end() == nil {
			var again encoder
			again.entries(es)
			if !bytes.Equal(again, b) {
				t.Errorf("entries %v: written %x, read %x", es, again, b)
			}
			for _, x := range es {
				if x.Prefix != x.Prefix.Masked() || firewall.CheckPorts(x.Ports) != nil {
					t.Errorf("took %+v", x)
				}
			}
		}
		d = &decoder{b: b}
		if p := d.policy(); d.end() == nil {
			for _, a := range p.Lockdown.Known {
				if !a.IsValid() {
					t.Errorf("took %v", a)
				}
			}
		}
		d = &decoder{b: b}
		_ = d.prefixes(chunk)
		_ = d.text()
		_ = d.end()
	})
}
